"""A Dagster code location that loads tables incrementally with Spark and Delta Lake."""
