"""Runs of Dagster as processes: how they are launched, and what they tell of themselves.

Nothing here imports the tables or Spark, so that Dagster's own processes can use it without waiting for them.
"""

from incload_assets.runs.warm_launcher import WarmRunLauncher

__all__ = ["WarmRunLauncher"]
