"""The versions of a table and its log that one plan reads, and which of their rows it needs."""

from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incload_assets.change_log.window_records import WindowRecord
from incload_assets.declaration.layout import touched_sql
from incload_assets.declaration.table import Table
from incload_assets.delta.data_files import ParquetFiles
from incload_assets.delta.sql import col


@dataclass(frozen=True)
class ReadView:
    """The versions that one plan is made from.

    Args:
        table_version: Delta version of the table.
        log_version: Delta version of the log.
        app_id: Identifier of the fence that a merge of the plan carries.
        fence: Its last committed number in ``table_version``; 0 if none.
        controls: The control rows in ``log_version`` of the windows that the plan is for, by partition key.
        whole: Whether the plan concerns the whole table.
        of_range: Whether the fence is that of a range.
        by_place: Whether the control rows tell which part of the table their windows touch.
        table_bytes: Size of the table's files.
        near_bytes: Of those in the partitions that the windows touch, where Delta's log tells; else of all.
        log_bytes: Of the log's files.
        windows_bytes: Of those of the windows, and of these deletes and truncates of the others.
        others_delete: Whether other windows of the log hold truncates, or deletes that may be newer than a change of
            these.
        empties: Whether the windows hold truncates.
        moves: Whether the log holds upserts that gave a row a new key and left values under the old one.
        newer: Whether all that the windows bring is known to be newer than the rows that ``near_bytes`` counts.
        near_rows: How many rows these are, as Delta's statistics tell; 0 where they do not.
        feeds: Whether Delta keeps a change feed of the table.
        near_files: Those that ``near_bytes`` counts; None where Delta has to read them.
        window_files: Of the log, those of the windows, and of the others' deletes that may be newer; None likewise.
    """

    table_version: int
    log_version: int
    app_id: str
    fence: int
    controls: dict[str, WindowRecord]
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
    near_files: ParquetFiles | None
    window_files: ParquetFiles | None

    @property
    def ingestion(self) -> int:
        """The ingestion that outdates merges of earlier ones; 0 for a fence that many windows share.

        Such a fence is moved by a bare fence, or refuses every older plan, whatever has been ingested again since.
        """
        if self.whole or self.of_range:
            return 0
        (control,) = self.controls.values()
        return control.landing

    @property
    def changes(self) -> int:
        """How many rows the log has of the windows, about."""
        return sum(control.rows_read + control.replaced for control in self.controls.values())

    @property
    def replaced(self) -> bool:
        """Whether an ingestion took rows away."""
        return any(control.replaced for control in self.controls.values())

    @property
    def partitions(self) -> list[str] | None:
        """The table's partition values, or buckets, that the windows touch; None for all of them."""
        if not self.by_place or self.empties:
            return None
        known: set[str] = set()
        for control in self.controls.values():
            if control.partitions is None:
                return None
            known.update(control.partitions)
        return sorted(known) if len(known) <= MAX_PARTITIONS else None

    @property
    def first_sequences(self) -> list[str] | None:
        """Smallest value of the first sequence column in each window that has one; None where a change has none."""
        return first_sequences(self.controls.values())


def first_sequences(controls: Iterable[WindowRecord]) -> list[str] | None:
    """Smallest value of the first sequence column in each window that has one; None where a change has none."""
    firsts = [control.first_sequence for control in controls]
    return None if None in firsts else [first for first in firsts if first is not None]


MAX_PARTITIONS = 200
"""Longest list of partition values that Delta prunes exactly; a load that touches more reads without pruning."""


WORTH_FILTERING_BYTES = 2**20
"""Size of what is looked at of the table from which a join more is cheaper than hashing rows that nobody asks for."""


BROADCAST_ROWS = 500_000
"""Most changes whose keys are sent to every task."""


def of_keys(rows: DataFrame, keys: DataFrame, table: Table, at: ReadView) -> DataFrame:
    """Rows of the table, without those of other keys where that spares work: hashes are computed of what is left.

    Args:
        rows: As :meth:`~incload_assets.change_log.context.LoadContext.rows` gives them.
        keys: The keys that a plan concerns; columns of the table's identity.
        table: The declaration.
        at: What the plan is made from.
    """
    if at.near_bytes < WORTH_FILTERING_BYTES or at.changes > BROADCAST_ROWS:
        return rows
    return rows.join(F.broadcast(keys.select(*map(col, table.identity))), list(table.identity), "left_semi")


def near(changes: DataFrame, table: Table, at: ReadView) -> DataFrame:
    """Of the log's changes, only those of the partitions that the windows touch; all, where it is not laid out so."""
    if table.write.partition_by is None or (touched := touched_sql(table, at.partitions)) is None:
        return changes
    return changes.filter(touched)
