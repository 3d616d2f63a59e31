"""The ways to bring a table, or Dagster's knowledge of it, back to where it was."""
