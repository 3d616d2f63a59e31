"""What brings a table, or what Dagster knows of it, back to where it was."""
