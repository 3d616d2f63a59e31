"""The read view of a plan: the versions of table and log that it reads, and which of their rows it needs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incload_assets.change_log.window_records import WindowRecord
from incload_assets.declaration.layout import in_buckets, touched_sql
from incload_assets.declaration.table import Table
from incload_assets.delta.data_files import ParquetFiles
from incload_assets.platform.sql import col, literal


@dataclass(frozen=True)
class ReadView:
    """The versions of table and log that one plan reads together.

    Files and rows of the table are *near* if they are in partitions that the windows touch. If Delta's log does not
    show which these are, all files are near.

    Args:
        fence: The last committed number of the fence ``app_id`` in ``table_version``; 0 if none.
        controls: The window records in ``log_version`` of the plan's windows, by partition key.
        by_place: Whether the window records contain the part of the table that their windows touch.
        log_bytes: Size of the log's files that may have changes of the windows' keys.
        windows_bytes: Size of the log's files of the windows, and of truncates and possibly newer deletes of others.
        others_delete: Whether other windows have truncates, or deletes that may be newer than a change of these.
        empties: Whether the windows have truncates.
        moves: Whether the log has upserts that gave a row a new key and left values under the old key.
        newer: Whether all changes of the windows are known to be newer than all near rows.
        near_rows: Number of near rows by Delta's statistics; 0 if these are incomplete.
        feeds: Whether Delta keeps a change feed of the table.
        buckets: The number of buckets of the table, None if it is not divided.
        buckets_of: The number that each window record is of.
        near_files, log_files, window_files: The files of ``near_bytes``, ``log_bytes`` and ``windows_bytes``; None if
            only Delta can read them.
        near, of_windows: The near files, and the windows' files of the log, as ``lake.data_files`` lists them.
        known_at: The instant of the log, see :mod:`incload_assets.change_log.known_at`; None if the table keeps none.
        gained: Files of the log that have all keys whose changes are read; None: the changes of all keys are read.
        gained_rows: Number of their rows.
    """

    table_version: int
    log_version: int
    app_id: str
    fence: int
    records: dict[str, WindowRecord]
    whole: bool
    of_range: bool
    by_place: bool
    table_bytes: int
    near_bytes: int
    log_bytes: int
    windows_bytes: int
    others_delete: bool
    empties: bool
    moves: bool
    newer: bool
    near_rows: int
    feeds: bool
    buckets: int | None
    buckets_of: Mapping[str, int | None]
    near_files: ParquetFiles | None
    log_files: ParquetFiles | None
    window_files: ParquetFiles | None
    sizes: Mapping[str, int]
    near: pa.Table
    of_windows: pa.Table
    known_at: int | None = None
    gained: ParquetFiles | None = None
    gained_rows: int = 0

    @property
    def ingestion(self) -> int:
        """The number of the ingestion, which outdates merges of earlier ones; 0 for a shared fence, moved by itself."""
        if self.whole or self.of_range:
            return 0
        (record,) = self.records.values()
        return record.landing

    @property
    def changes(self) -> int:
        """The approximate number of the windows' rows in the log that are read."""
        if self.gained is not None:
            return self.gained_rows
        return sum(record.rows_read + record.replaced for record in self.records.values())

    @property
    def replaced(self) -> bool:
        """True if an ingestion of the windows removed rows."""
        return any(record.replaced for record in self.records.values())

    @property
    def partitions(self) -> list[str] | None:
        """The table's partition values or buckets that the windows touch; None for all of them."""
        if not self.by_place or self.empties:
            return None
        known: set[str] = set()
        for key, record in self.records.items():
            if record.partitions is None:
                return None
            if (places := in_buckets(record.partitions, self.buckets_of[key], self.buckets)) is None:
                return None
            known.update(places)
        return sorted(known) if len(known) <= MAX_PARTITIONS else None

    @property
    def first_sequences(self) -> list[str] | None:
        """Each window's smallest value of the first sequence column; None if a window has none."""
        return first_sequences(self.records.values())


def first_sequences(records: Iterable[WindowRecord]) -> list[str] | None:
    """Each window's smallest value of the first sequence column; None if a window has none."""
    firsts = [record.first_sequence for record in records]
    return None if None in firsts else [first for first in firsts if first is not None]


def oldest_sql(table: Table, firsts: Iterable[str]) -> str:
    """SQL for the least of some first sequence values, as Spark prints them; of literals, so that Delta skips files."""
    kind = table.type_of(table.changes.sequence_by[0]).simpleString()
    return f"array_min(array({', '.join(f'CAST({literal(first)} AS {kind})' for first in firsts)}))"


MAX_PARTITIONS = 200
"""Longest list of partition values that Delta prunes exactly; a load that touches more reads without pruning."""
WORTH_FILTERING_BYTES = 2**20
"""Size of near rows from which an additional join is cheaper than hashing rows of other keys."""
MANY_CHANGES = 1_000_000
"""Number of changes from which a plan is not cached, but made so that it need not sort."""
BROADCAST_ROWS = 500_000
"""Maximum number of changes whose keys are sent to every task."""


def of_keys(rows: DataFrame, keys: DataFrame, table: Table, at: ReadView) -> DataFrame:
    """Rows of the table, without rows of other keys if that saves work: the remaining rows are hashed."""
    if at.near_bytes < WORTH_FILTERING_BYTES or at.changes > BROADCAST_ROWS:
        return rows
    return rows.join(F.broadcast(keys.select(*map(col, table.identity))), list(table.identity), "left_semi")


def near(changes: DataFrame, table: Table, at: ReadView) -> DataFrame:
    """Changes of the log in the table's partitions that the windows touch; all changes if these are not known."""
    if table.write.partition_by is None or (touched := touched_sql(table, at.partitions)) is None:
        return changes
    return changes.filter(touched)
