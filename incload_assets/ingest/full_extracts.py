"""Full extracts among changes: a full extract deletes all older rows that it lacks.

A row of a full extract is an upsert at the source's position when the extract was taken. A *mark*, a row of the log
without a key at the same position, records that the extract is complete. For the fold the mark is a truncate just
before the rows. So the table is the same no matter in which order the extract and other changes arrive.

An extract with a quarantined row gets no mark: its good rows count, but it deletes nothing, because the key of the bad
row may be unknown. An extract without rows gets none either, because it is more likely a fault than correct. The mark
is made when the window is ingested again with corrected rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incload_assets.change_log.change import NOT_KEPT, REJECTED, SNAPSHOT
from incload_assets.change_log.context import LoadContext
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import Window
from incload_assets.platform.errors import ContractViolation
from incload_assets.platform.sql import col, content_hash_sql
from incload_assets.platform.wording import several

MAX_SNAPSHOTS = 300
"""Most full extracts of one window; more mean that each row has a sequence of its own."""


@dataclass(frozen=True)
class Extract:
    """A full extract in a window: its accepted keys, its rejected rows (both counted), and the file of one of its rows.

    ``taken`` is the first sequence column of its rows as a string; None for rejected rows without a value.
    """

    taken: str | None
    accepted: int
    rejected: int
    file: str | None

    def __str__(self) -> str:
        then = (
            f"deletes nothing because of {several(self.rejected, 'quarantined row')}" if self.rejected else "complete"
        )
        return f"full extract taken at {self.taken or 'an unknown position'}, {several(self.accepted, 'row')}, {then}"


def extracts_of(validated: DataFrame, table: Table, windows: Sequence[str]) -> dict[str, tuple[Extract, ...]]:
    """The full extracts in each window, oldest first, in one aggregate over validated rows and rows that stay."""
    rejected = F.col("_kind") == REJECTED
    rows = (
        validated.filter(F.col("_is_snapshot") & ~F.col("_kind").isin(*NOT_KEPT))
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
    """A mark for each full extract that is complete; None if there is no such extract."""
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
    """Stops full extracts (oldest first) that would delete too many rows: they are more likely truncated than correct.

    The first one is compared with the table's rows that are not newer, each other one with the extract before it. Too
    many extracts in a window are refused.
    """
    place = f"{load.table.name} {window.key}"
    if len(extracts) > MAX_SNAPSHOTS:
        first = load.table.changes.sequence_by[0]
        raise ContractViolation(
            f"{place}: the rows of full extracts have more than {MAX_SNAPSHOTS} different values in {first!r}",
            rule="all rows of one full extract have the same value, the source's position when it was taken; nothing "
            "was applied",
            remedy=f"fill {first!r} of these rows with that position in the function, or correct snapshot_when",
        )
    if max_shrink >= 1:
        return
    complete = _complete(extracts)
    for extract, (what, before) in zip(complete, _before(load, complete, soft_delete), strict=True):
        if before - extract.accepted > max_shrink * before:
            raise ContractViolation(
                f"{place}: the full extract taken at {extract.taken} has "
                f"{several(extract.accepted, 'row')}, {what} {before}",
                rule=f"it may lack at most {max_shrink:.0%} of them (max_shrink); nothing was applied",
                remedy="deliver the extract again in full; if so few rows are correct, declare Merge(max_shrink=1.0) "
                "for this load",
            )


def _before(load: LoadContext, complete: Sequence[Extract], soft_delete: str | None) -> Iterator[tuple[str, int]]:
    """The rows that each full extract is compared with: a description, and their number."""
    if complete:
        first = load.table.changes.sequence_by[0]
        taken = F.lit(complete[0].taken).cast(load.table.type_of(first))
        alive = ~col(soft_delete) if soft_delete else F.lit(True)
        older = load.newest_rows().filter(alive & (col(first).isNull() | (col(first) <= taken)))
        yield "the table's rows up to then are", older.count()
    for extract in complete[:-1]:
        yield "the one before it had", extract.accepted


def _complete(extracts: Sequence[Extract]) -> list[Extract]:
    """The extracts that may delete rows."""
    if any(extract.taken is None for extract in extracts):  # a bad row may belong to any extract
        return []
    return [extract for extract in extracts if not extract.rejected]
