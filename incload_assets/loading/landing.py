"""Landing: the changes of some windows are read once, judged, and put into the log in one commit."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import reduce

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from incload_assets.loading import window as windows
from incload_assets.loading.columns import (
    CHANGES,
    DELETE,
    REJECTED,
    REPLACED,
    SKIPPED,
    SNAPSHOT,
    TRUNCATE,
    UPSERTS,
    col,
    row_id_sql,
    sets,
)
from incload_assets.loading.context import MAX_PARTITIONS, Context
from incload_assets.loading.contract_threshold import check_threshold
from incload_assets.loading.control_rows import Control
from incload_assets.loading.declaration import Table
from incload_assets.loading.errors import DeclarationError
from incload_assets.loading.judging import judge, tearing_column
from incload_assets.loading.log_commit import commit
from incload_assets.loading.lost_files import lost_file
from incload_assets.loading.pruning import place_sql
from incload_assets.loading.snapshots import Extract, extracts_of, with_marks
from incload_assets.loading.sources.base import Position
from incload_assets.loading.sources.read_errors import read_error
from incload_assets.loading.window import Window

STAYING = (*UPSERTS, DELETE, TRUNCATE)
"""Kinds of old rows that may stay; the marks of snapshots are made anew."""


@dataclass(frozen=True)
class Landing:
    """One window about to be landed.

    Args:
        window: Which.
        position: What the source holds for it.
        before: The control row of the landing it replaces, None for the first.
        log_version: The log's version in which ``before`` was read.
        settled: Whether ``before`` is known to be reconciled and checkpointed, so that the keys it took away are done.
        run_id: The Dagster run.
    """

    window: Window
    position: Position
    before: Control | None
    log_version: int
    settled: bool
    run_id: str


@dataclass(frozen=True)
class Facts:
    """What a landing has to know of the rows of one window.

    Args:
        rows: Records read.
        rejected: Those that break the contract.
        skipped: Those that are no changes of this table.
        replaced: Keys that had a row taken away.
        partitions: As in :class:`~incload_assets.loading.change_log.Control`.
        first_sequence: As there.
        extracts: Complete extracts among them, the oldest first.
    """

    rows: int = 0
    rejected: int = 0
    skipped: int = 0
    replaced: int = 0
    partitions: list[str] | None = None
    first_sequence: str | None = None
    extracts: tuple[Extract, ...] = ()

    @property
    def of_one_partition(self) -> bool:
        """Whether no row is known to be of another partition than the others."""
        return not (self.rejected or self.skipped) and self.partitions is not None and len(self.partitions) < 2


def landing_app_id(table: Table, window: Window) -> str:
    """The identifier that fences the landings of a window."""
    return f"{table.name}/{window.key}/landing"


def land(context: Context, landing: Landing, say: Callable[[str], None] = lambda _: None) -> bool:
    """Replace a window of the log by what the source holds now, control row included, in one fenced commit.

    Returns:
        Whether this landing was committed; False if another one of the same window came first.

    Raises:
        ContractViolation: Too many rows were rejected; the log keeps its old rows.
        SourceUnreadable, SourceChanged: From the source.
        DeclarationError: The table's function does not fit its contract, or does not keep one row per row.
    """
    table, window = context.table, landing.window
    with judged_rows(context, {window: landing.position}) as (judged, found):
        facts = found[window.key]
        check_threshold(judged, table, window, facts.rows, facts.rejected)
        say(f"{table.name} {window.key}: read {facts.rows} rows, {facts.rejected} to quarantine")
        content = judged if landing.before is None else _with_staying(context, landing, judged)
        if table.changes.snapshot_when:
            extracts = extracts_of(content, table, [window.key])
            for extract in extracts[window.key]:
                say(f"{table.name} {window.key}: {extract}")
            facts, content = replace(facts, extracts=extracts[window.key]), with_marks(content, table, extracts)
        table.write.guard(context, landing, facts)
        if landing.before is not None:
            content = _with_replaced(context, landing, content).persist()
        try:
            if landing.before is not None:
                facts = _facts(content, table, [window])[window.key]
            number = (landing.before.landing if landing.before else 0) + 1
            control = control_of(table, landing, facts, number)
            note = f"landed {window.key}, run {landing.run_id}"
            return commit(context, content, {window.key: control}, landing_app_id(table, window), number, note=note)
        finally:
            content.unpersist()


@contextmanager
def judged_rows(context: Context, positions: Mapping[Window, Position]) -> Iterator[tuple[DataFrame, dict[str, Facts]]]:
    """The rows of some windows, judged and held for as long as the context lasts, and the facts of each window.

    Raises:
        IncrementalLoadError: From the source, or because the table's function does not fit.
    """
    with ExitStack() as held:
        try:
            judged, facts = _read(context, positions, held, places=False)
            if _has_torn_keys(judged, context.table, facts.values()):  # rare, and rows are told apart by a sort of all
                judged, facts = _read(context, positions, held, places=True)
            yield judged, facts
        except PySparkException as error:
            table = context.table
            if meaning := lost_file(error, table, context.lake) or read_error(table.name, error, str(table.source)):
                raise meaning from error
            raise


def _read(
    context: Context, positions: Mapping[Window, Position], held: ExitStack, *, places: bool
) -> tuple[DataFrame, dict[str, Facts]]:
    """The rows of some windows, judged and held, and the facts of each window."""
    table, read = context.table, Observation()
    at_source = {window.key: position for window, position in positions.items()}
    fields = (*table.columns, *table.control_fields)
    extracted = table.source.extract_windows(context.spark, table.name, at_source, fields).observe(
        read, F.count(F.lit(1)).alias("rows")
    )
    judged = judge(extracted, table, positions, places=places).persist()
    held.callback(judged.unpersist)
    facts = _facts(judged, table, positions)
    rows = sum(fact.rows for fact in facts.values())
    if read.get.get("rows") != rows:  # nothing is observed of an empty frame, and too much of a repeated task
        _check_row_wise(table, min(at_source), extracted.count(), rows)
    return judged, facts


def _has_torn_keys(judged: DataFrame, table: Table, facts: Iterable[Facts]) -> bool:
    """Whether a key may have two partitions within a window; where all rows are of one, nobody need look.

    Rows that are rejected count, too: perhaps for another collision, before which they were as good as the others.
    """
    place = tearing_column(table)
    if place is None or all(fact.of_one_partition for fact in facts):
        return False
    by_key = judged.groupBy("_window", *map(col, table.changes.keys))
    torn = by_key.agg((F.min(col(place)) != F.max(col(place))).alias("torn")).filter("torn")
    return not torn.isEmpty()


def _facts(frame: DataFrame, table: Table, of: Mapping[Window, Position] | list[Window]) -> dict[str, Facts]:
    """Everything a landing has to know of its rows, in one aggregate."""
    kept = F.col("_kind").isin(*UPSERTS, DELETE)
    first = col(table.changes.sequence_by[0]) if table.changes.sequence_by else F.lit(None).cast("string")
    place, changes = place_sql(table), ~F.col("_kind").isin(REJECTED, SKIPPED)
    touched = F.expr(place or "NULL").cast("string")
    values = F.collect_set(F.when(changes, touched))
    anywhere = F.count(F.when(changes & touched.isNull(), 1))  # a truncate has no key
    everywhere = F.lit(place is None) | (anywhere > 0) | (F.size(values) > MAX_PARTITIONS)
    rows = (
        frame.groupBy("_window")
        .agg(
            F.count(F.when(~F.col("_kind").isin(REPLACED, SNAPSHOT), 1)).alias("rows"),
            F.count(F.when(F.col("_kind") == REJECTED, 1)).alias("rejected"),
            F.count(F.when(F.col("_kind") == SKIPPED, 1)).alias("skipped"),
            F.count(F.when(F.col("_kind") == REPLACED, 1)).alias("replaced"),
            F.min(F.when(kept, first)).cast("string").alias("first"),
            F.count(F.when(kept & first.isNull(), 1)).alias("unordered"),
            everywhere.alias("everywhere"),
            F.slice(values, 1, MAX_PARTITIONS).alias("partitions"),
        )
        .head(len(of))
    )
    nothing = Facts(partitions=[] if place else None)
    return {window.key: nothing for window in of} | {
        row["_window"]: Facts(
            rows=row.rows,
            rejected=row.rejected,
            skipped=row.skipped,
            replaced=row.replaced,
            partitions=None if row.everywhere else sorted(row.partitions),
            first_sequence=None if row.unordered else row["first"],
        )
        for row in rows
    }


def _check_row_wise(table: Table, window: str, read: int, judged: int) -> None:
    if read != judged:
        raise DeclarationError(
            f"{table.name} {window}: its function made {judged} rows of {read}",
            rule="the function is row-wise: one row out for each row in, so that no row vanishes uncounted",
            remedy="do not filter, explode, join or aggregate in it; rows that must not load fail the contract",
        )


def control_of(table: Table, landing: Landing, facts: Facts, number: int) -> Control:
    """The control row of a window about to be landed for the ``number``-th time."""
    return Control(
        landing=number,
        fingerprint=landing.position.fingerprint,
        position=json.dumps(landing.position.detail, sort_keys=True, separators=(",", ":")),
        summary=landing.position.summary,
        code_version=table.code_version,
        run_id=landing.run_id,
        landed_at=windows.now(),
        rows_read=facts.rows,
        rejected=facts.rejected,
        skipped=facts.skipped,
        replaced=facts.replaced,
        partitions=facts.partitions,
        first_sequence=facts.first_sequence,
        compacted_at=landing.before.compacted_at if landing.before else None,
    )


def _former(context: Context, landing: Landing) -> DataFrame:
    """What the log holds of the window."""
    return context.log.read(context.spark, landing.log_version, [landing.window.key])


def _with_staying(context: Context, landing: Landing, judged: DataFrame) -> DataFrame:
    """The new rows, and the old rows that stay.

    The old rows are judged by the contract as it is now; of those that were rejected only the payload is left, so they
    stay rejected.
    """
    table = context.table
    if (staying := _staying(context, landing, _former(context, landing), judged)) is None:
        return judged
    reasons = table.contract.reasons(given=sets if table.by_column else None)
    is_upsert = F.col("_kind").isin(*UPSERTS)
    broken = F.when(is_upsert, reasons).otherwise(F.col("_reasons"))
    kept = staying.withColumn("_reasons", broken).withColumn(
        "_kind", F.when(is_upsert & (F.size("_reasons") > 0), REJECTED).otherwise(F.col("_kind"))
    )
    return judged.unionByName(kept.select(*judged.columns))


def _with_replaced(context: Context, landing: Landing, fresh: DataFrame) -> DataFrame:
    """The rows to be landed, and a marker for each key that had a row taken away.

    A marked key has to be folded in full: the table may hold what was taken away. Markers of a landing that is not
    settled are kept, because nobody is known to have folded their keys.
    """
    table, former = context.table, _former(context, landing)
    names = table.write.marked(table.contract, table.changes)
    if not names:  # written by scope: nothing to be told of single rows
        return fresh
    marked, row_id = list(map(col, names)), F.expr(row_id_sql(names)).alias("_id")
    new = fresh.filter(F.col("_kind").isin(*CHANGES)).select("_kind", "_hash", row_id)
    old = former.filter(F.col("_kind").isin(*CHANGES)).select("_kind", "_hash", row_id, *marked)
    taken = old.join(new, ["_kind", "_hash", "_id"], "left_anti").select("_id", *marked)
    if not landing.settled:
        taken = taken.unionByName(former.filter(F.col("_kind") == REPLACED).select(row_id, *marked))
    markers = taken.dropDuplicates(["_id"]).drop("_id").withColumn("_kind", F.lit(REPLACED))
    return fresh.unionByName(markers.withColumn("_window", F.lit(landing.window.key)), allowMissingColumns=True)


def _staying(context: Context, landing: Landing, former: DataFrame, judged: DataFrame) -> DataFrame | None:
    """The old rows that stay although the source does not show them now: of files that are gone, or of absent keys."""
    source, changes = context.table.source, context.table.changes
    stay = []
    if source.keeps:
        row_id = F.expr(row_id_sql(changes.keys or context.table.columns))
        place = {"_id": row_id, "_keeper": source.keeper(F.col("_source.file"))}
        shown, rows = (frame.filter(F.col("_kind").isin(*STAYING)).withColumns(place) for frame in (judged, former))
        kept = rows.filter(F.col("_keeper").isNotNull())
        stay.append(kept.join(shown.select(*place), list(place), "left_anti").select(*former.columns))
    if carried := source.carried(landing.position):
        gone = context.spark.createDataFrame([(name,) for name in carried], "file string")
        rows = former.filter(F.col("_kind").isin(*STAYING, REJECTED))
        stay.append(rows.join(gone, rows["_source.file"] == gone["file"], "left_semi"))
    return reduce(DataFrame.unionByName, stay) if stay else None
