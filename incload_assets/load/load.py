"""The load of one window: detect, ingest, merge, reconcile. Only a load that returns may be checkpointed.

A load that fails at any point can be run again and corrects the table: the log records what was ingested, the fence in
the table's commits records what was merged, and the reconciliation compares the states of both.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pyspark.sql.types as T
from pyspark.sql import SparkSession

from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.read_view import ReadView
from incload_assets.change_log.window_records import WindowRecord, window_records_of
from incload_assets.declaration.source import DetectRequest, Position
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import Window, first_window
from incload_assets.declaration.write import BUCKET
from incload_assets.delta.sql import col
from incload_assets.delta.tables import ensure_table
from incload_assets.delta.tuning import tune_ingest
from incload_assets.ingest.ingest import ingest
from incload_assets.ingest.ingestion import Ingestion, ingestion_app_id
from incload_assets.load.apply import Applied, apply_changes
from incload_assets.load.compacted import hold_off, refuse_rewrite
from incload_assets.load.placement import refuse_foreign, refuse_misplaced
from incload_assets.load.range_fences import call_off_ingestions, call_off_merges
from incload_assets.load.reconcile import Evidence
from incload_assets.load.tables import leave_unset
from incload_assets.progress.checkpoint import NOTHING_KNOWN, Checkpoint
from incload_assets.writes.merge_into import app_id
from incload_assets.writes.plan import Merged
from incload_assets.writes.strategy import strategy_of
from resources.errors import SourceChanged, SourceMissing
from resources.lake import Lake

INGESTIONS = 5
WINDOWS = "incload.windows"


@dataclass(frozen=True)
class LoadReport:
    """The outcome of a load.

    Args:
        window: The window.
        control: The window record in the log.
        evidence: The evidence of the reconciliation.
        merged: Rows changed in the table.
        ingested: Whether this load ingested the window; False if the log already had it.
        committed: Whether this load committed to the table.
        table_version: Delta version of the table that was reconciled.
        log_version: Delta version of the log that it was reconciled with.
        size: Size of the window's changes in the log, in bytes.
        seconds: Time spent per phase; of windows that were loaded together, an equal share each.
        timeline: Name, start in seconds since 1970 and duration in seconds of each part of a phase; windows that were
            loaded together have the same.
    """

    window: Window
    control: WindowRecord
    evidence: Evidence
    merged: Merged
    ingested: bool
    committed: bool
    table_version: int
    log_version: int
    size: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    timeline: Sequence[tuple[str, float, float]] = ()


def load_window(
    spark: SparkSession,
    table: Table,
    lake: Lake,
    window: Window,
    *,
    run_id: str = "",
    checkpoint: Checkpoint = NOTHING_KNOWN,
    rewrite_compacted: bool = False,
    info: Callable[[str], None] = lambda _: None,
) -> LoadReport:
    """Loads the source's present content of a window into the table.

    Args:
        spark: A session used by this load only, because the fence is a session setting.
        table: The declaration.
        lake: The lake with the table.
        window: The window.
        run_id: The run, recorded in the window record and the commits.
        checkpoint: Dagster's records of the window; without them the load commits at least its fence.
        rewrite_compacted: Whether a window whose log was compacted may be replaced by other content.
        info: Logs one line for each step.

    Raises:
        SchemaMismatch: The table, or the content of its windows, does not fit the declaration.
        SourceMissing: The source has nothing for the window yet.
        WindowCompacted: The window's log was compacted, and the source now has other content for it.
        ContractViolation: Too many rejected rows; the partition keeps its rows.
        ReconciliationFailed: Table and log still differ after several repairs.
        IncrementalLoadError: Any other error of a step.
    """
    load = LoadContext(spark, table, lake.followed(), run_id, info)
    with load.phases.timed("prepare"):
        refuse_misplaced(load, [window])
        ensure_tables(load)
        doubtful = not (checkpoint.clean or checkpoint.untried)
        if doubtful:
            call_off_ingestions(load, window)
    ingested = _ingest(load, window, checkpoint, rewrite_compacted=rewrite_compacted)
    if doubtful:  # not earlier: this also rejects merges that a range planned before the ingestion
        with load.phases.timed("prepare"):
            call_off_merges(load, window)

    def is_again(at: ReadView) -> bool:
        return checkpoint.fingerprint == at.controls[window.key].fingerprint

    def is_quiet(at: ReadView) -> bool:
        return not ingested and checkpoint.clean and is_again(at)

    fence = app_id(table, window)
    applied = apply_changes(load, (window,), fence, is_again=is_again, is_quiet=is_quiet)
    return report_of(load, applied, window, ingested=ingested)


def report_of(load: LoadContext, applied: Applied, window: Window, *, ingested: bool, windows: int = 1) -> LoadReport:
    """The report of one of the windows that were merged together."""
    return LoadReport(
        window=window,
        control=applied.at.controls[window.key],
        evidence=applied.evidence[window.key],
        merged=applied.merged[window.key],
        ingested=ingested,
        committed=applied.committed,
        table_version=applied.at.table_version,
        log_version=applied.at.log_version,
        size=applied.at.sizes.get(window.key, 0),
        seconds={name: seconds / windows for name, seconds in load.phases.seconds.items()},
        timeline=tuple(load.phases.timeline),
    )


def ensure_tables(load: LoadContext) -> None:
    """Creates table and log, or adapts them to the declaration.

    Raises:
        SchemaMismatch: They do not fit the declaration and cannot be adapted, or the table is somebody else's.
    """
    refuse_foreign(load)
    adapt_tables(load)


def adapt_tables(load: LoadContext) -> None:
    """Creates table and log, or adapts them to the declaration, whoever has made the table.

    Raises:
        SchemaMismatch: They do not fit the declaration and cannot be adapted.
    """
    spark, table, lake = load.spark, load.table, load.lake
    schema = table.schema
    if table.write.buckets is not None:
        comment = {"comment": "Hash of the key, modulo the number of buckets; for pruning files only"}
        schema = T.StructType([*schema.fields, T.StructField(BUCKET, T.IntegerType(), True, comment)])
    whole, by, kept = table.write.is_content(table.changes), table.write.stored_by, _kept_properties(table)
    ensure_table(spark, lake, load.uri, schema, by, table.name, kept, whole=whole, beside=load.log.uri)
    ensure_log(load)


def ensure_log(load: LoadContext, more: Mapping[str, str] | None = None) -> None:
    """Creates the log, or adapts it to the declaration.

    Args:
        load: The load's context.
        more: Further table properties that a new log begins with.

    Raises:
        SchemaMismatch: It does not fit the declaration and cannot be adapted.
    """
    log, table = load.log, load.table
    # the log depends on the windows, and its window records on the buckets
    kept = {n: value for n, value in _kept_properties(table).items() if n.startswith(("incload.bucket", WINDOWS))}
    properties = kept | log.properties | dict(more or {})
    leave_unset(load)
    by = ("_window", "_kind")
    ensure_table(load.spark, load.lake, log.uri, log.schema, by, table.name, properties, beside=load.uri)


def _kept_properties(table: Table) -> dict[str, str]:
    """Table properties that existing rows depend on.

    They include the definition of the windows, because rows of a window of another definition could not be replaced.
    """
    kept = {f"incload.{name}": value for name, value in table.write.kept_as(table.changes).items()}
    windows = table.partitions_def
    definition = {WINDOWS: f"{windows.cron_schedule} {windows.timezone or 'UTC'} {windows.fmt}"}
    return kept if table.write.supersedes else kept | definition


def detect(load: LoadContext, windows: list[Window]) -> dict[str, Position]:
    """The source's present positions of the windows that it has content for, or that may be empty."""
    table = load.table
    first = first_window(table.partitions_def).start
    request = DetectRequest(table.name, windows, load.log.ingested, load.lake, first)
    table.source.prepare(load.spark, request)
    return table.source.empty_positions(windows, load.lake) | table.source.detect(request)


def _detect(load: LoadContext, window: Window) -> Position:
    position = detect(load, [window]).get(window.key)
    if position is None:
        raise SourceMissing(
            f"{load.table.name} {window.key}: {load.table.source} has nothing for this window",
            rule='the table waits for its source (absent="wait")',
            remedy='load it when the source has it, or declare absent="empty" if a window may be empty',
        )
    return position


def _ingest(
    load: LoadContext,
    window: Window,
    checkpoint: Checkpoint,
    *,
    rewrite_compacted: bool = False,
) -> bool:
    """Ingests until the log has the source's content; detecting again afterwards also proves a consistent read.

    A source that may change while it is read is not detected again, because it would hardly ever be at rest.

    The window is ingested again even if the log already has the source's content, unless that content is known to be
    settled: the commit of a killed load's ingestion may still arrive, and only a later ingestion rejects it.

    Returns:
        Whether this load ingested the window.
    """
    ingested, held_off, log, guard = False, False, load.log, strategy_of(load.table).guard
    for _ in range(INGESTIONS):
        with load.phases.timed("detect"):
            position = _detect(load, window)
            at = log.open()
            before = window_records_of(at, only=[window.key]).get(window.key)
            fence = at.transaction_version(ingestion_app_id(load.table, window)) or 0
            tune_ingest(load.spark, at, [window.key], position.size)
        settled = before is not None and checkpoint == Checkpoint(before.fingerprint, clean=True) and not ingested
        same = before and (before.fingerprint, before.code_version) == (
            position.fingerprint,
            load.table.code_version,
        )
        if same and (settled or ingested):
            return ingested
        if before is not None and before.compacted_at is not None:
            if not (same or rewrite_compacted):  # in every attempt, as the source may have changed since the last one
                refuse_rewrite(load, window, before, position)
            if not held_off:
                hold_off(load)
                held_off = True
                continue  # an ingestion has to start from the log after any removal
        with load.phases.timed("ingest"):
            ingestion = Ingestion(window, position, before, at.version(), settled, fence)
            prefetch_delta_state(load)
            ingested = ingest(load, ingestion, guard) or ingested
        if ingested and load.table.source.changes_while_read:
            return True
    raise SourceChanged(
        f"{load.table.name} {window.key}: the source changed during each of {INGESTIONS} attempts to read it",
        rule="a source must not change while a window is ingested from it",
        remedy="none if the writer pauses, as the load is tried again; otherwise write files under a temporary name",
    )


def prefetch_delta_state(load: LoadContext) -> None:
    """Starts the computation of Delta's state of the table in the background while the source is read.

    Spark's commits need the state, and Delta recomputes it after each commit in a Spark job that mostly waits: 0.2 s of
    a small load. Errors are ignored here: the commit that needs the state raises them.

    Args:
        load: The load's context.
    """
    ahead = ThreadPoolExecutor(1, "incload-ahead")
    ahead.submit(_compute_state, load)
    ahead.shutdown(wait=False)  # an error stays in its future


def _compute_state(load: LoadContext) -> None:
    """Requests the files in which a column is NULL: Delta needs the table's state for this, and usually finds none."""
    table = load.table
    rows = load.spark.read.format("delta").load(load.lake.spark_uri(load.uri))
    rows.filter(col((*table.write.stored_by, *table.columns)[0]).isNull()).inputFiles()
