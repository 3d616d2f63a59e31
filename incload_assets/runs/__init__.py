"""The launch of Dagster's runs as forks of a warm process.

Only the processes that fork runs import the tables and Spark, so that Dagster's own processes need not wait for them.
"""

from incload_assets.platform.run_files import keep_small
from incload_assets.runs.warm_launcher import WarmRunLauncher

__all__ = ["WarmRunLauncher"]

keep_small()  # Dagster's processes import this package for the launcher, and make the files of runs
