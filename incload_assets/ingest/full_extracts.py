"""Complete extracts among changes: a snapshot deletes what is older than it and not in it.

A row of a snapshot is an upsert at the source's position when the snapshot was taken; that it is complete is told by a
*mark*, a row of the log without a key at the same position. To the fold the mark is a truncate just before the rows. So
a table is the same fold of its changes whatever came first: the snapshot, what was before it, or what was after it.

The log says of each row whether it is one of a snapshot. A snapshot of which a row is quarantined gets no mark: its
good rows count, and it deletes nothing, for nobody can tell which key the bad row stands for. Nor has one without rows:
an empty extract is more likely a fault than true. When the window is ingested again with the rows corrected, the mark
is made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incload_assets.change_log.change import REJECTED, SKIPPED, SNAPSHOT
from incload_assets.change_log.context import LoadContext
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import Window
from incload_assets.delta.sql import col, content_hash_sql
from resources.errors import ContractViolation

MAX_SNAPSHOTS = 300
"""Most snapshots of one window; more are rows that each have a sequence of their own."""


@dataclass(frozen=True)
class Extract:
    """A snapshot in a window.

    Args:
        taken: The first sequence column of its rows as a string; None for rejected rows that do not tell.
        accepted: Keys whose rows keep the contract.
        rejected: Rows that break it.
        file: Where one of its rows came from.
    """

    taken: str | None
    accepted: int
    rejected: int
    file: str | None

    def __str__(self) -> str:
        then = f"its {self.rejected} quarantined rows keep it from deleting any" if self.rejected else "complete"
        return f"snapshot taken at {self.taken or 'an unknown position'}, {self.accepted} rows, {then}"


def extracts_of(validated: DataFrame, table: Table, windows: Sequence[str]) -> dict[str, tuple[Extract, ...]]:
    """The snapshots in each of some windows, the oldest first, in one aggregate.

    Args:
        validated: As :func:`~incload_assets.ingest.validate.judge` returns it, with the rows that stay in the log.
        table: The declaration.
        windows: Partition keys.
    """
    rejected = F.col("_kind") == REJECTED
    rows = (
        validated.filter(F.col("_is_snapshot") & (F.col("_kind") != SKIPPED))
        .groupBy("_window", col(table.changes.sequence_by[0]).alias("taken"))
        .agg(
            F.count_distinct(F.when(~rejected, F.struct(*map(col, table.identity)))).alias("accepted"),
            F.count(F.when(rejected, 1)).alias("rejected"),
            F.min("_source.file").alias("file"),
        )
        .orderBy("_window", "taken")
        .withColumn("taken", F.col("taken").cast("string"))
        .head((MAX_SNAPSHOTS + 1) * len(windows))
    )
    found: dict[str, list[Extract]] = {window: [] for window in windows}
    for row in rows:
        found[row["_window"]].append(Extract(row["taken"], row["accepted"], row["rejected"], row["file"]))
    return {window: tuple(extracts) for window, extracts in found.items()}


def marks_of(validated: DataFrame, table: Table, extracts: Mapping[str, Sequence[Extract]]) -> DataFrame | None:
    """A mark for each snapshot that is complete; None where none is.

    Args:
        validated: As for :func:`extracts_of`.
        table: The declaration.
        extracts: By partition key.
    """
    marks = [(window, e.taken, e.file) for window, several in extracts.items() for e in _complete(several)]
    if not marks:
        return None
    first, where = table.changes.sequence_by[0], validated.schema["_source"].dataType.simpleString()
    values = (
        (F.col("taken") if field.name == first else F.lit(None)).cast(field.data_type).alias(field.name)
        for field in table.contract.fields
    )
    made = validated.sparkSession.createDataFrame(marks, "_window string, taken string, file string").select(
        *values,
        "_window",
        F.lit(SNAPSHOT).alias("_kind"),
        F.struct("file", F.lit(None), F.lit(None)).cast(where).alias("_source"),
    )
    return made.withColumn("_hash", F.expr(content_hash_sql(table.columns)))


def guard_snapshots(
    load: LoadContext, window: Window, extracts: Sequence[Extract], max_shrink: float, soft_delete: str | None
) -> None:
    """Stop snapshots that would delete too much: they are more likely cut off than true.

    The first of the window is compared with the table's rows that are not newer, each other one with the one before it.

    Args:
        load: Of the load.
        window: Which is about to be ingested.
        extracts: Its snapshots, the oldest first.
        max_shrink: Largest share of those rows that may be missing.
        soft_delete: Column that marks deleted rows of the table.

    Raises:
        ContractViolation: Naming both counts, and how to let it through; or there are too many snapshots.
    """
    place = f"{load.table.name} {window.key}"
    if len(extracts) > MAX_SNAPSHOTS:
        first = load.table.changes.sequence_by[0]
        raise ContractViolation(
            f"{place}: its snapshot rows have more than {MAX_SNAPSHOTS} different values in {first!r}",
            rule="all rows of one snapshot have the same one, the source's position when it was taken; nothing was "
            "applied",
            remedy=f"fill {first!r} of snapshot rows with that position in the function, or correct snapshot_when",
        )
    if max_shrink >= 1:
        return
    complete = _complete(extracts)
    for extract, (what, before) in zip(complete, _before(load, complete, soft_delete), strict=True):
        if before - extract.accepted > max_shrink * before:
            raise ContractViolation(
                f"{place}: the snapshot taken at {extract.taken} has {extract.accepted} rows, {what} {before}",
                rule=f"it may lack at most {max_shrink:.0%} of them (max_shrink); nothing was applied",
                remedy="deliver the snapshot again in full; if so few rows are right, declare Merge(max_shrink=1.0) "
                "for this load",
            )


def _before(load: LoadContext, complete: Sequence[Extract], soft_delete: str | None) -> Iterator[tuple[str, int]]:
    """For each snapshot what it is compared with, and how many rows that has."""
    if complete:
        first = load.table.changes.sequence_by[0]
        rows = load.spark.read.format("delta").load(load.lake.spark_uri(load.uri))
        taken = F.lit(complete[0].taken).cast(load.table.type_of(first))
        alive = ~col(soft_delete) if soft_delete else F.lit(True)
        older = rows.filter(alive & (col(first).isNull() | (col(first) <= taken)))
        yield "the table's rows up to then are", older.count()
    for extract in complete[:-1]:
        yield "the one before it had", extract.accepted


def _complete(extracts: Sequence[Extract]) -> list[Extract]:
    """Those that may delete."""
    if any(extract.taken is None for extract in extracts):  # a bad row of which of them?
        return []
    return [extract for extract in extracts if not extract.rejected]
