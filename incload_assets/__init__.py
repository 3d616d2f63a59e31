"""Tables that load incrementally: a Dagster code location on Spark and Delta Lake."""
