"""A contract: a pandera model as Spark expressions."""
