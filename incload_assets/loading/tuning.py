"""Spark settings for small loads.

A load of a few thousand rows is all overhead: compiling generated code for each stage, planning again after each
shuffle, tasks without rows. Interpreted, in one partition and planned once, its first loads on a server take about a
quarter of the processor time (see ``tests/benchmarks/``). Large loads keep the server's own settings. What counts is
what a load reads, not how large its table is.

Tried and left alone: generated code in small loads (as fast after ten or so of them, if the server keeps it compiled;
far slower before); replacing the partition in small loads as large ones do (5 % less time); counting a key's different
changes by a set instead of twice grouped (a little slower); a MERGE that does not copy its source first (Delta refuses
it of a source that Spark holds); whole-stage code bounded at 8,000 bytes in large landings (no clear difference).
"""

from collections.abc import Iterable
from weakref import WeakKeyDictionary

from deltalake import DeltaTable
from pyspark.sql import SparkSession

from incload_assets.loading.context import Context, Snapshot
from incload_assets.loading.window import Window
from resources.lake import bytes_in, data_files

SMALL_CHANGE_BYTES = 8 * 2**20
SMALL_CHANGE_ROWS = 100_000
SMALL_READ_BYTES = 2 * 2**20
"""About 100,000 rows of table and log: where both ways take the same time. Of 17 MB a MERGE that is interpreted takes
three times as long as one that is not, of 84 MB five times."""

SMALL = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}
_own: "WeakKeyDictionary[SparkSession, dict[str, str]]" = WeakKeyDictionary()
"""What sessions had before: to unset a setting gives Spark's default, not the server's."""


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
    if spark not in _own:
        _own[spark] = {name: str(spark.conf.get(name)) for name in SMALL}
    for name, value in (SMALL if small else _own[spark]).items():
        spark.conf.set(name, value)
