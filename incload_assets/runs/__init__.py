"""The queue of Dagster's runs, and their launch as forks of a warm process.

Only the processes that fork runs import the tables and Spark, so that Dagster's own processes need not wait for them.
"""

from incload_assets.platform.dagster_sqlite import tune_sqlite
from incload_assets.runs.run_coordinator import TableRunCoordinator
from incload_assets.runs.warm_launcher import WarmRunLauncher

__all__ = ["TableRunCoordinator", "WarmRunLauncher"]

tune_sqlite()  # Dagster's processes import this package for the launcher
