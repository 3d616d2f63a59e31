"""Spark settings for small loads.

A load of a few thousand rows is all overhead: compiling generated code for each stage, planning again after each
shuffle, tasks without rows. Interpreted, in one partition and planned once, it takes about a quarter of the processor
time (see ``tests/benchmarks/``). Large loads keep the server's own settings. What counts is what a load reads, not how
large its table is.
"""

from collections.abc import Iterable

from deltalake import DeltaTable
from pyspark.sql import SparkSession

from incload_assets.loading.context import Context, Snapshot
from incload_assets.loading.window import Window
from resources.lake import bytes_in, data_files

SMALL_CHANGE_BYTES = 8 * 2**20
SMALL_CHANGE_ROWS = 100_000
SMALL_READ_BYTES = 256 * 2**20

SMALL = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}


def tune_landing(spark: SparkSession, log: DeltaTable, windows: Iterable[Window], change_bytes: int) -> None:
    """Set the session for landing: it reads the source, and what the log holds of the windows.

    Args:
        spark: The load's session.
        log: Of the table's changes.
        windows: Which.
        change_bytes: Size of what the source holds for them.
    """
    before = bytes_in(data_files(log), "_window", [window.key for window in windows])
    _tune(spark, small=change_bytes <= SMALL_CHANGE_BYTES and before <= SMALL_READ_BYTES)


def tune_plan(context: Context, at: Snapshot, *, full: bool) -> None:
    """Set the session for a plan and its commit.

    Args:
        context: Of the load.
        at: What the plan is made from.
        full: As for :meth:`~incload_assets.loading.writes.base.Write.plan`.
    """
    table = context.table
    everything = full or at.replaced or at.empties or not table.write.reads_windows(table.changes)
    log = at.log_bytes if everything else at.windows_bytes
    _tune(context.spark, small=at.changes <= SMALL_CHANGE_ROWS and at.near_bytes + log <= SMALL_READ_BYTES)


def _tune(spark: SparkSession, *, small: bool) -> None:
    for name, value in SMALL.items():
        if small:
            spark.conf.set(name, value)
        else:
            spark.conf.unset(name)
