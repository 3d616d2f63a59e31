"""Spark settings for what a load reads and changes.

A load of a few thousand rows is all overhead: compiling generated code for each stage, planning again after each
shuffle, tasks without rows. Interpreted, in one partition and planned once, its first loads on a server take about a
quarter of the processor time (see ``tests/benchmarks/``). What counts is what a load reads, not how large its table
is. Few changes of many rows are joined and written without sorting these: of 10,000 changes to a state table of 10
million rows, together with conditions that are worked out for the changes' rows only, 10.1 s instead of 13.7, of a
history of as many 16.8 instead of 22.9. Large loads of many changes keep the server's own settings.

Tried and left alone: generated code in small loads (as fast after ten or so of them, if the server keeps it compiled;
far slower before); a MERGE that does not copy its source first (Delta refuses it of a source that Spark holds);
whole-stage code bounded at 8,000 bytes in large ingestions, Delta's checksum files and its ways of holding the state of
a table, Spark's short descriptions of plans, small loads in which expressions that occur twice are worked out twice (no
clear difference); small loads that fold twice instead of having Spark hold the fold (as long); deletion vectors (10.2 s
for the state table, 15.0 for the history: its rows are read once more instead of being written, and delta-rs cannot
read such tables); a state table joined and written anew (about as long as its MERGE, with the look that it would need
before).
"""

from collections.abc import Sequence
from weakref import WeakKeyDictionary

from deltalake import DeltaTable
from pyspark.sql import SparkSession

from resources.lake import bytes_in, data_files

SMALL_CHANGE_BYTES = 8 * 2**20
SMALL_CHANGE_ROWS = 100_000
SMALL_CHANGE_TEXT = 64 * 2**20
"""Characters of as many, as JSON: a hash map of them cannot go to disk, and Spark knows their packed size only."""
SMALL_READ_BYTES = 2 * 2**20
"""About 100,000 rows of table and log: where both ways take the same time. Of 17 MB a MERGE that is interpreted takes
three times as long as one that is not, of 84 MB five times."""

SMALL = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}
UNSORTED = {
    # A full join sorts both sides unless Spark is told that one of them fits into memory: of a MERGE into 10 million
    # rows that is a fifth. No smaller number is heeded: it is the size that Spark gives shuffled partitions.
    "spark.sql.adaptive.maxShuffledHashJoinLocalMapThreshold": str(64 * 2**20),
    # What is written into partitions is sorted by them, unless a file for each may be open; from this number on it is.
    "spark.sql.maxConcurrentOutputFileWriters": "3",
}
"""For few changes of many rows, which then are not sorted. Many changes are as quick to sort as to hold."""

_own: "WeakKeyDictionary[SparkSession, dict[str, str]]" = WeakKeyDictionary()
"""What sessions had before: to unset a setting gives Spark's default, not the server's."""
_now: "WeakKeyDictionary[SparkSession, dict[str, str]]" = WeakKeyDictionary()
"""What they have: each setting is a question to the server, and a small load would ask thirty."""


def tune_ingest(spark: SparkSession, log: DeltaTable | None, keys: Sequence[str], change_bytes: int) -> None:
    """Set the session for an ingestion, which reads the source and the rows that the log has of the windows.

    Args:
        spark: The load's session.
        log: The log of the table's changes; None where nothing of it is read.
        keys: The partition keys of the windows.
        change_bytes: Size of what the source holds for the windows.
    """
    before = bytes_in(data_files(log), "_window", keys) if log is not None else 0
    _tune(spark, SMALL if change_bytes <= SMALL_CHANGE_BYTES and before <= SMALL_READ_BYTES else {})


def tune_plan(spark: SparkSession, changes: int, read_bytes: int) -> None:
    """Set the session for a plan and its commit.

    Args:
        spark: The load's session.
        changes: How many rows the log has of the windows.
        read_bytes: Size of the files of table and log that the plan reads.
    """
    _tune(spark, SMALL if changes <= SMALL_CHANGE_ROWS and read_bytes <= SMALL_READ_BYTES else {})


def tune_merge(spark: SparkSession, actions: int, text: int) -> None:
    """Set the session for a MERGE into many rows.

    Args:
        spark: The load's session.
        actions: How many rows it changes at most.
        text: Characters of these, as JSON.
    """
    if actions <= SMALL_CHANGE_ROWS and text <= SMALL_CHANGE_TEXT:
        _tune(spark, UNSORTED)


def _tune(spark: SparkSession, settings: dict[str, str]) -> None:
    if spark not in _own:
        _own[spark] = {name: str(spark.conf.get(name)) for name in (*SMALL, *UNSORTED)}
        _now[spark] = dict(_own[spark])
    for name, value in (_own[spark] | settings).items():
        if _now[spark][name] != value:
            spark.conf.set(name, value)
            _now[spark][name] = value
