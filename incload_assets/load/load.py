"""The load of one window: detect, ingest, merge, reconcile. Only a load that returns may be checkpointed.

Whatever happens to a load, at any point, running it again makes the table right: the log tells what was ingested, the
fence in the table's commits tells what was merged, and the reconciliation compares the states of both.
"""

from collections.abc import Callable
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
from incload_assets.load.placement import refuse_misplaced
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
        window: Which.
        control: The control row that the log holds for it.
        evidence: Of the reconciliation.
        merged: Rows changed in the table.
        ingested: Whether this load put the window into the log; False where the log already held it.
        committed: Whether this load committed to the table.
        table_version: Delta version of the table that was reconciled.
        log_version: Delta version of the log that it was reconciled with.
        seconds: Time spent per phase.
    """

    window: Window
    control: WindowRecord
    evidence: Evidence
    merged: Merged
    ingested: bool
    committed: bool
    table_version: int
    log_version: int
    seconds: dict[str, float] = field(default_factory=dict)


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
    """Bring the table to the fold of what the source now holds for a window.

    Args:
        spark: A session of this load's own: the fence is a setting of the session.
        table: The declaration.
        lake: Where tables are.
        window: Which.
        run_id: For the control row and the commits.
        checkpoint: What Dagster knows; without it the load commits at least its fence.
        rewrite_compacted: Whether a window whose log was compacted may be replaced by something else.
        info: Takes one line for each step, for people.

    Raises:
        SchemaMismatch: The table, or what its windows hold, does not fit the declaration.
        SourceMissing: The source has nothing for the window yet.
        WindowCompacted: The source has something else than before for a window whose log was compacted.
        ContractViolation: Too many rejected rows; the partition keeps what it had.
        ReconciliationFailed: Table and log still differ after several repairs.
        IncrementalLoadError: As the steps raise it.
    """
    load = LoadContext(spark, table, lake.followed(), run_id, info)
    with load.phases.timed("prepare"):
        refuse_misplaced(load, [window])
        ensure_tables(load)
        doubtful = not (checkpoint.clean or checkpoint.untried)
        if doubtful:
            call_off_ingestions(load, window)
    ingested = _ingest(load, window, checkpoint, rewrite_compacted=rewrite_compacted)
    if doubtful:  # only now: a range that planned before knows nothing of this ingestion
        with load.phases.timed("prepare"):
            call_off_merges(load, window)

    def is_again(at: ReadView) -> bool:
        return checkpoint.fingerprint == at.controls[window.key].fingerprint

    def is_quiet(at: ReadView) -> bool:
        return not ingested and checkpoint.clean and is_again(at)

    fence = app_id(table, window)
    applied = apply_changes(load, (window,), fence, is_again=is_again, is_quiet=is_quiet)
    return report_of(applied, window, ingested=ingested, seconds=load.phases.seconds)


def report_of(applied: Applied, window: Window, *, ingested: bool, seconds: dict[str, float]) -> LoadReport:
    """What there is to tell of one of the windows that were brought to the table."""
    return LoadReport(
        window=window,
        control=applied.at.controls[window.key],
        evidence=applied.evidence[window.key],
        merged=applied.merged[window.key],
        ingested=ingested,
        committed=applied.committed,
        table_version=applied.at.table_version,
        log_version=applied.at.log_version,
        seconds=seconds,
    )


def ensure_tables(load: LoadContext) -> None:
    """Create table and log, or bring them up to the declaration.

    Raises:
        SchemaMismatch: They and the declaration cannot be brought together.
    """
    spark, table, lake = load.spark, load.table, load.lake
    schema = table.schema
    if table.write.buckets is not None:
        comment = {"comment": "Hash of the key, modulo the number of buckets; for pruning files only"}
        schema = T.StructType([*schema.fields, T.StructField(BUCKET, T.IntegerType(), True, comment)])
    whole, by, told = table.write.is_content(table.changes), table.write.stored_by, _told(table)
    ensure_table(spark, lake, load.uri, schema, by, table.name, told, whole=whole, beside=load.log.uri)
    ensure_log(load)


def ensure_log(load: LoadContext) -> None:
    """Create the log, or bring it up to the declaration.

    Raises:
        SchemaMismatch: It and the declaration cannot be brought together.
    """
    log, table = load.log, load.table
    # the windows, and the buckets that its control rows tell of
    told = {name: value for name, value in _told(table).items() if name.startswith(("incload.bucket", WINDOWS))}
    properties = told | log.properties
    leave_unset(load)
    by = ("_window", "_kind")
    ensure_table(load.spark, load.lake, log.uri, log.schema, by, table.name, properties, beside=load.uri)


def _told(table: Table) -> dict[str, str]:
    """What rows of the table rely on, as table properties; the windows, too: rows of others could not be replaced."""
    told = {f"incload.{name}": value for name, value in table.write.kept_as(table.changes).items()}
    windows = table.partitions_def
    what = {WINDOWS: f"{windows.cron_schedule} {windows.timezone or 'UTC'} {windows.fmt}"}
    return told if table.write.supersedes else told | what


def detect(load: LoadContext, windows: list[Window]) -> dict[str, Position]:
    """What the source holds now for each of the windows that it has something for, or that may be empty."""
    table = load.table
    first = first_window(table.partitions_def).start
    request = DetectRequest(table.name, windows, load.log.ingested, load.lake, first)
    table.source.prepare(load.spark, request)
    return table.source.empty_positions(windows, load.lake) | table.source.detect(request)


def _detect(load: LoadContext, window: Window) -> Position:
    position = detect(load, [window]).get(window.key)
    if position is None:
        raise SourceMissing(
            f"{load.table.name} {window.key}: {load.table.source} holds nothing for this window",
            rule='the table waits for its source (absent="wait")',
            remedy='load it when the source has it, or declare absent="empty" if a window may have nothing',
        )
    return position


def _ingest(
    load: LoadContext,
    window: Window,
    checkpoint: Checkpoint,
    *,
    rewrite_compacted: bool = False,
) -> bool:
    """Land until the log holds what the source holds; looking again afterwards also proves a consistent read.

    A source that may move while it is read is not looked at again: it would hardly ever stand still.

    Unless the log's content is known to be settled it is ingested again even if it is what the source holds: a killed
    load's ingestion may still be on its way, and only a later ingestion refuses it.
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
            if not (same or rewrite_compacted):  # at every look: the source may have changed since the last
                refuse_rewrite(load, window, before, position)
            if not held_off:
                hold_off(load)
                held_off = True
                continue  # what was removed until now is what an ingestion has to start from
        with load.phases.timed("ingest"):
            ingestion = Ingestion(window, position, before, at.version(), settled, fence)
            prefetch_delta_state(load)
            ingested = ingest(load, ingestion, guard) or ingested
        if ingested and load.table.source.changes_while_read:
            return True
    raise SourceChanged(
        f"{load.table.name} {window.key}: the source changed during each of {INGESTIONS} attempts to read it",
        rule="a window is ingested from a source that stands still while it is read",
        remedy="none if the writer pauses: the load is tried again; else write files under a temporary name",
    )


def prefetch_delta_state(load: LoadContext) -> None:
    """Start the computation of Delta's state of the table in the background, while the source is read.

    Spark's commits need the state, and Delta computes it anew after each commit, in a Spark job that waits more than it
    works: 0.2 s of a small load. Errors are ignored here: the commit that needs the state raises them.

    Args:
        load: Of the load, with its table.
    """
    ahead = ThreadPoolExecutor(1, "incload-ahead")
    ahead.submit(_look, load)
    ahead.shutdown(wait=False)  # an error stays in its future


def _look(load: LoadContext) -> None:
    """Ask for the files that hold no value: Delta needs the table's state to tell, and hardly ever names one."""
    table = load.table
    rows = load.spark.read.format("delta").load(load.lake.spark_uri(load.uri))
    rows.filter(col((*table.write.stored_by, *table.columns)[0]).isNull()).inputFiles()
