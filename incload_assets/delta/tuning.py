"""Spark settings that depend on how much a load reads and changes.

A load of a few thousand rows is all overhead: compiling generated code for each stage, planning again after each
shuffle, tasks without rows. Interpreted, in one partition and planned once, the first loads on a server take about a
quarter of the processor time (see ``tests/benchmarks/``). What counts is how much a load reads, not how large its table
is. If few of many rows change, the many rows are joined and written without sorting. For 10,000 changes to a state
table of 10 million rows, together with conditions that are evaluated for the changed rows only, this takes 10.1 s
instead of 13.7; for a history of the same size 16.8 s instead of 22.9. Large loads of many changes keep the server's
own settings.

Tried and left alone: generated code in small loads (as fast after ten or so loads, if the server keeps it compiled; far
slower before); a MERGE that does not copy its source first (Delta refuses this for a source that Spark caches);
whole-stage code limited to 8,000 bytes in large ingestions, Delta's checksum files and its options for caching a
table's state, Spark's short plan descriptions, and evaluating repeated expressions twice in small loads (no clear
difference for any of them); folding twice in small loads instead of having Spark cache the fold (takes as long);
deletion vectors (10.2 s for the state table, 15.0 s for the history: its rows are read once more instead of being
written, and delta-rs cannot read such tables); joining a state table and rewriting it (about as long as its MERGE,
including the query that it would need first).
"""

from collections.abc import Sequence
from weakref import WeakKeyDictionary

from deltalake import DeltaTable
from pyspark.sql import SparkSession

from incload_assets.platform.lake import bytes_in, data_files

SMALL_CHANGE_BYTES = 8 * 2**20
SMALL_CHANGE_ROWS = 100_000
SMALL_CHANGE_TEXT = 64 * 2**20
"""Characters of the changes as JSON: a hash map of them cannot spill, and Spark knows only their compressed size."""
SMALL_READ_BYTES = 2 * 2**20
"""About 100,000 rows of table and log, where interpreted and compiled loads take the same time. An interpreted MERGE of
17 MB takes three times as long as a compiled one, of 84 MB five times."""

SMALL = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}
UNSORTED = {
    # A full join sorts both sides unless this setting says that one of them fits into memory. Sorting is a fifth of the
    # time of a MERGE into 10 million rows. A smaller number has no effect: this is Spark's size of shuffled partitions.
    "spark.sql.adaptive.maxShuffledHashJoinLocalMapThreshold": str(64 * 2**20),
    # Rows written into partitions are sorted by them, unless Spark may keep a file open for each: this number of files.
    "spark.sql.maxConcurrentOutputFileWriters": "3",
}
"""Settings for few changes to many rows, which are then not sorted. Many changes sort as fast as they can be cached."""

_own: "WeakKeyDictionary[SparkSession, dict[str, str]]" = WeakKeyDictionary()
"""The sessions' original settings: unsetting one would give Spark's default, not the server's."""
_now: "WeakKeyDictionary[SparkSession, dict[str, str]]" = WeakKeyDictionary()
"""The sessions' present settings: reading one is a request to the server, and a small load would send thirty."""


def tune_ingest(spark: SparkSession, log: DeltaTable | None, keys: Sequence[str], change_bytes: int) -> None:
    """Tunes the session for an ingestion, which reads the source and the windows' rows in the change log.

    Args:
        spark: The load's session.
        log: The change log; None if the ingestion does not read it.
        keys: The partition keys of the windows.
        change_bytes: Size of the windows' records at the source.
    """
    before = bytes_in(data_files(log), "_window", keys) if log is not None else 0
    _tune(spark, SMALL if change_bytes <= SMALL_CHANGE_BYTES and before <= SMALL_READ_BYTES else {})


def tune_plan(spark: SparkSession, changes: int, read_bytes: int) -> None:
    """Tunes the session for a plan and its commit.

    Args:
        spark: The load's session.
        changes: Number of the windows' rows in the log.
        read_bytes: Size of the files of table and log that the plan reads.
    """
    _tune(spark, SMALL if changes <= SMALL_CHANGE_ROWS and read_bytes <= SMALL_READ_BYTES else {})


def tune_merge(spark: SparkSession, actions: int, text: int) -> None:
    """Tunes the session for a MERGE into many rows.

    Args:
        spark: The load's session.
        actions: Maximum number of rows that the MERGE changes.
        text: Characters of these rows as JSON.
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
