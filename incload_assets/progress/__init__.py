"""What Dagster knows about a table: checkpoints, run tags, progress and status."""
