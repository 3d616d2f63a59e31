"""The state of a table in Dagster: checkpoints, run tags, progress and status."""
