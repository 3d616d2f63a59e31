"""The preview of a load: every step of the load itself, on a view of log and table in which nothing is committed.

There is no second planner. The source is detected and read, rows are validated, guarded and staged, and the write
strategy plans and the examination counts, all by the code that loads. Only three things are replaced: tables are not
created or adapted, the rows go into a :class:`~incload_assets.what_if.preview_log.PreviewLog` instead of a commit, and
a merge makes a frame of the rows that the table would have.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

import pyspark.sql.types as T
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.read_view import ReadView
from incload_assets.contract.adaptation import Adaptation, widened_columns
from incload_assets.declaration.layout import touched_sql
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import Window
from incload_assets.delta.tables import Adapted, Rewrite, check_table, schema_of
from incload_assets.ingest.ingest import ingest
from incload_assets.ingest.ingestion import Ingestion
from incload_assets.load.apply import apply_changes
from incload_assets.load.compacted import refuse_rewrite
from incload_assets.load.detection import look
from incload_assets.load.load import IfHeld, LoadReport, expect_completion, report_of
from incload_assets.load.placement import refuse_misplaced
from incload_assets.load.tables import ensure_tables
from incload_assets.platform.errors import SchemaMismatch
from incload_assets.platform.lake import Lake
from incload_assets.progress.checkpoint import NOTHING_KNOWN, Checkpoint
from incload_assets.what_if.preview_lake import PreviewLake
from incload_assets.what_if.preview_log import PreviewLog
from incload_assets.writes.merge_into import app_id, fence_number
from incload_assets.writes.plan import PENDING, Merged, MergePlan
from incload_assets.writes.replace_where import joined, outcome
from incload_assets.writes.strategy import strategy_of

OWN = "_preview_"
"""The prefix of the columns that a preview adds to rows and actions."""


@dataclass(frozen=True)
class Change:
    """The effect that a merge would have.

    Args:
        at: The read view of its plan.
        rows: Each row of the table (alias ``t``) or action (alias ``s``) that would change, with the column
            ``_preview_does``: insert, update or delete.
        by_key: Whether rows and actions are joined, so that an updated row has both.
        has_id: Whether actions have ``_id``, which identifies a row by its content.
    """

    at: ReadView
    rows: DataFrame
    by_key: bool
    has_id: bool


@dataclass
class Pretended:
    """The effects of a preview so far.

    Args:
        changes: The merges, in their order.
        near: The rows that the touched part of the table would have; None before any merge.
        others: The rows of the other parts.
        fence: The number that the last merge would have committed.
    """

    changes: list[Change] = field(default_factory=list)
    near: DataFrame | None = None
    others: DataFrame | None = None
    fence: int = 0


@dataclass(frozen=True)
class PreviewContext(LoadContext):
    """The context of the preview of one window."""

    lake: PreviewLake
    done: Pretended = field(default_factory=Pretended)

    @cached_property
    def log(self) -> PreviewLog:
        """The log with the rows that the load would bring."""
        return PreviewLog(self.table, self.lake)

    def newest_rows(self) -> DataFrame:
        """The table's rows; none if it does not exist yet."""
        if not self.lake.exists(self.uri):
            return self.spark.createDataFrame([], self.table.schema)
        return self._as_declared(super().newest_rows())

    def rows(self, at: ReadView, *, near: bool = False) -> DataFrame:
        """The rows that the table would have."""
        if self.done.near is None:
            return self._as_declared(super().rows(at, near=near))
        if near or self.done.others is None:
            return self.done.near
        return self.done.near.unionByName(self.done.others)

    def rows_now(self, at: ReadView) -> DataFrame:
        """The rows that the table has."""
        if not self.lake.exists(self.uri):
            return self.spark.createDataFrame([], self.table.schema)
        return self._as_declared(super().rows(at))

    def read_view(self, windows: tuple[Window, ...], app_id: str, *, of_range: bool = False) -> ReadView:
        """The read view that the load would have."""
        at = super().read_view(windows, app_id, of_range=of_range)
        if self.log.lacks(self.log.open()):
            at = replace(at, window_files=None)  # the files lack columns that the load would add
        if self.done.near is None:
            return at
        there = max(at.near_bytes, 1)  # rows that are in no file are not known to be older than anything
        return replace(at, fence=self.done.fence, newer=False, near_bytes=there, table_bytes=max(at.table_bytes, 1))

    def ensure(
        self,
        spark: SparkSession,
        lake: Lake,
        uri: str,
        schema: T.StructType,
        partition_by: tuple[str, ...],
        table_name: str,
        properties: Mapping[str, str] | None = None,
        *,
        whole: bool = False,
        beside: str | None = None,
        adaptation: Adaptation = Adaptation(),  # noqa: B008 - immutable
        rewrite: Rewrite | None = None,
    ) -> Adapted:
        """Checks a table against its declaration; stands in for :func:`incload_assets.delta.tables.ensure_table`."""
        if (delta := self.lake.delta(uri)) is None:
            self.lake.stand_in(uri, schema, partition_by)
        else:
            given = properties or {}
            check_table(delta, schema, partition_by, table_name, given, uri=uri, whole=whole, adaptation=adaptation)
            if widened := widened_columns(schema_of(delta), schema, adaptation):
                raise SchemaMismatch(
                    f"{table_name}: the load would first widen {', '.join(widened)}, which rewrites {uri}",
                    rule="a preview computes on the types that the table has",
                    remedy="load any partition, which widens them, and look again",
                )
        return Adapted()

    def apply(self, load: LoadContext, at: ReadView, plan: MergePlan) -> Merged:
        """Computes the rows that the table would have after a plan; stands in for the strategy's own ``apply``."""
        does = f"{OWN}does"
        if plan.match == "false":  # the plan replaces a part by its content, so that no row is updated
            pending = F.col("_action").isin(*PENDING)
            changed = plan.actions.filter(pending).withColumn(does, F.col("_action")).alias("s")
            after = plan.actions.filter(F.col("_action").isin("same", "insert")).select("_row.*")
            self.done.near, self.done.others = after, None
        else:
            before = self.rows(at, near=True)
            both = joined(self, before, plan, OWN)
            changed = both.filter(F.col(does).isNotNull())
            self.done.others = self._others(at)
            self.done.near = outcome(self, before.columns, both, OWN)
        has_id = "_id" in plan.actions.columns
        self.done.changes.append(Change(at, changed, by_key=plan.match != "false", has_id=has_id))
        self.done.fence = fence_number(at)
        counts = {row[does]: row["count"] for row in changed.groupBy(does).count().head(len(PENDING))}
        return Merged(counts.get("insert", 0), counts.get("update", 0), counts.get("delete", 0))

    def _others(self, at: ReadView) -> DataFrame | None:
        """The rows of the table in parts that the windows do not touch."""
        if self.done.near is not None:
            return self.done.others
        touched = touched_sql(self.table, at.partitions)
        return None if touched is None else self.rows(at).filter(~F.coalesce(F.expr(touched), F.lit(False)))

    def _as_declared(self, rows: DataFrame) -> DataFrame:
        """Rows with the columns that a load would add to the table."""
        delta = self.lake.delta(self.uri)
        if delta is None or set(self.table.schema.names) <= set(schema_of(delta).names):
            return rows
        return self.spark.createDataFrame([], self.table.schema).unionByName(rows, allowMissingColumns=True)


@dataclass(frozen=True)
class Preview:
    """The preview of the load of one window.

    Args:
        load: The context, usable until the preview ends.
        ingestion: What the load would start from.
        same: Whether the log has the source's present content already.
        report: The report that the load would make.
        changes: The merges that it would make.
        partitions: The table's partition values or buckets that the window touches; None for all of them.
    """

    load: PreviewContext
    ingestion: Ingestion
    same: bool
    report: LoadReport
    changes: tuple[Change, ...]
    partitions: list[str] | None


@contextmanager
def preview(
    spark: SparkSession,
    table: Table,
    lake: Lake,
    window: Window,
    *,
    checkpoint: Checkpoint = NOTHING_KNOWN,
    rewrite_compacted: bool = False,
    if_held: IfHeld = "refuse",
    info: Callable[[str], None] = lambda _: None,
) -> Iterator[Preview]:
    """Previews the load of a window; commits nothing, and removes the rows that it has staged at the block's end.

    Args:
        spark: A session for this preview alone.
        table: The declaration.
        lake: The lake with the table, which need not exist.
        window: The window.
        checkpoint: Dagster's records of the window.
        rewrite_compacted: As for :func:`incload_assets.load.load.load_window`.
        if_held: As for :func:`incload_assets.load.load.load_window`.
        info: Logs one line for each step.

    Raises:
        IncrementalLoadError: The load would stop with this error.
    """
    with previewing(spark, table, lake, info) as load:
        yield _preview(load, window, checkpoint, rewrite_compacted=rewrite_compacted, if_held=if_held)


@contextmanager
def previewing(
    spark: SparkSession, table: Table, lake: Lake, info: Callable[[str], None] = lambda _: None
) -> Iterator[PreviewContext]:
    """The context of one preview, which leaves nothing behind."""
    with TemporaryDirectory(prefix="incload-preview-") as aside:
        load = PreviewContext(spark, table, PreviewLake(lake.root, aside=Path(aside)), info=info)
        try:
            yield load
        finally:
            load.log.discard()


def _preview(
    load: PreviewContext, window: Window, checkpoint: Checkpoint, *, rewrite_compacted: bool, if_held: IfHeld
) -> Preview:
    table, guard = load.table, strategy_of(load.table).guard
    refuse_misplaced(load, [window])
    ensure_tables(load, load.ensure)
    ingestion = look(load, window, checkpoint)
    completes = ingestion.held and if_held != "release"
    if completes:
        expect_completion(load, ingestion, checkpoint, if_held)
    same, before = ingestion.is_same(table.code_version), ingestion.before
    if before is not None and before.compacted_at is not None and not (same or completes or rewrite_compacted):
        refuse_rewrite(load, window, before, ingestion.position)
    ingested = not (same or completes) and ingest(load, ingestion, guard, load.log.land)

    def is_again(at: ReadView) -> bool:
        return not ingested or checkpoint.fingerprint == at.controls[window.key].fingerprint

    def is_quiet(at: ReadView) -> bool:
        return not ingested and checkpoint == Checkpoint(at.controls[window.key].fingerprint, clean=True)

    fence = app_id(table, window)
    applied = apply_changes(load, (window,), fence, is_again=is_again, is_quiet=is_quiet, apply=load.apply)
    report = report_of(load, applied, window, ingested=ingested)
    return Preview(load, ingestion, same, report, tuple(load.done.changes), applied.at.partitions)
