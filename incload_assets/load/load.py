"""The load of one window: detect, ingest, merge, reconcile. Only a load that returns may be checkpointed.

A load that fails at any point can be run again and corrects the table: the log records what was ingested, the fence in
the table's commits records what was merged, and the reconciliation compares the states of both.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Literal

from incload_assets.change_log.chunks import InChunks
from incload_assets.change_log.commit import bare_fence
from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.read_view import ReadView
from incload_assets.change_log.window_records import WindowRecord
from incload_assets.declaration.window import Window
from incload_assets.declaration.write import AUTO
from incload_assets.ingest.ingest import ingest
from incload_assets.ingest.ingestion import Ingestion, ingestion_app_id
from incload_assets.load.apply import Applied, apply_changes
from incload_assets.load.compacted import hold_off, refuse_rewrite
from incload_assets.load.detection import look
from incload_assets.load.in_chunks import staging_of
from incload_assets.load.placement import refuse_misplaced
from incload_assets.load.proven import Proof, StillProven, may_be_carried_on, still_proven
from incload_assets.load.range_fences import call_off_ingestions, call_off_merges, not_merged
from incload_assets.load.reconcile import Evidence
from incload_assets.load.tables import ensure_tables
from incload_assets.platform.errors import (
    ReconciliationFailed,
    SourceChanged,
    SourceUnreadable,
    StoredFileLost,
    WindowHeld,
)
from incload_assets.platform.sql import col
from incload_assets.progress.checkpoint import NOTHING_KNOWN, Checkpoint
from incload_assets.writes.merge_into import app_id
from incload_assets.writes.plan import Merged
from incload_assets.writes.strategy import strategy_of

INGESTIONS = 5
IfHeld = Literal["refuse", "complete", "release"]


@dataclass(frozen=True)
class LoadReport:
    """The outcome of a load, with the versions of table and log that were reconciled.

    Args:
        ingested: Whether this load ingested the window; False if the log already had it.
        proof: The evidence with the commits that were compared; None if a log no longer has them.
        size: Size of the window's changes in the log, in bytes.
        written: Size of the table's files that the last merge wrote, in bytes; of windows that were loaded together an
            equal share each. None if it wrote none, or it is unknown.
        seconds: Time spent per phase; of windows that were loaded together, an equal share each.
        timeline: Name, start in seconds since 1970 and duration in seconds of each part of a phase.
    """

    window: Window
    record: WindowRecord
    evidence: Evidence
    merged: Merged
    ingested: bool
    committed: bool
    table_version: int
    log_version: int
    proof: Proof | None = None
    size: int = 0
    written: int | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    timeline: Sequence[tuple[str, float, float]] = ()


def load_window(
    load: LoadContext,
    window: Window,
    *,
    checkpoint: Checkpoint = NOTHING_KNOWN,
    rewrite_compacted: bool = False,
    if_held: IfHeld = "refuse",
    in_chunks: InChunks | None = None,
) -> LoadReport:
    """Loads the source's present content of a window into the table.

    Args:
        checkpoint: Dagster's records of the window; without them the load commits at least its fence.
        rewrite_compacted: Whether a window whose log was compacted may be replaced by other content.
        if_held: What is done with a window whose load was undone, while its source holds what was undone: ``refuse``
            to load it, ``complete`` the undo by merging what the log holds, or ``release`` it and load its source. An
            undo that was not checkpointed is completed in any case but the last.
        in_chunks: How a window that was never landed is read; None: as a whole, or as a killed load has begun.

    Raises:
        SchemaMismatch: The table, or the content of its windows, does not fit the declaration.
        SourceMissing: The source has nothing for the window yet.
        WindowCompacted: The window's log was compacted, and the source now has other content for it.
        WindowHeld: A load of the window was undone, and it is to be refused then.
        ContractViolation: Too many rejected rows; the partition keeps its rows.
        ReconciliationFailed: Table and log still differ after several repairs.
    """
    load, table = load.renewed(), load.table
    with load.phases.timed("prepare"):
        refuse_misplaced(load, [window])
        ensure_tables(load)
        # a window with a record was tried, even if Dagster has lost every run that did
        untried = checkpoint.untried and load.log.record(window.key) is None
        doubtful = not (checkpoint.clean or untried)
        if doubtful:
            call_off_ingestions(load, window)
    ingested = _ingest(
        load, window, checkpoint, rewrite_compacted=rewrite_compacted, if_held=if_held, in_chunks=in_chunks
    )
    if load.table.write.buckets == AUTO:  # what was landed says how many
        with load.phases.timed("prepare"):
            ensure_tables(load)
    if doubtful:  # not earlier: this also rejects merges that a range planned before the ingestion
        with load.phases.timed("prepare"):
            call_off_merges(load, window)

    def is_again(at: ReadView) -> bool:
        return not ingested or checkpoint.fingerprint == at.records[window.key].fingerprint

    def is_quiet(at: ReadView) -> bool:
        return not ingested and checkpoint == Checkpoint(at.records[window.key].fingerprint, clean=True)

    def proven(at: ReadView, sent: int) -> StillProven | None:
        proof = Proof.shown_in(checkpoint.metadata) if checkpoint.clean else None
        if ingested and not may_be_carried_on(load, at):  # no commit has to be read to see this
            return None
        with load.phases.timed("reconcile"):
            return still_proven(load, at, proof, sent=sent) if proof else None

    fence = app_id(table, window)
    try:
        applied = apply_changes(load, (window,), fence, is_again=is_again, is_quiet=is_quiet, proven=proven)
    except (ReconciliationFailed, StoredFileLost) as error:
        if ingested or checkpoint.clean:
            raise
        load.info(f"{error}. Its log may have been damaged, so that the source is read again")
        try:
            ingested = _ingest(
                load, window, checkpoint, rewrite_compacted=rewrite_compacted, if_held=if_held, trusts_log=False
            )
        except SourceUnreadable as unreadable:
            raise error from unreadable
        applied = apply_changes(load, (window,), fence, is_again=is_again, is_quiet=is_quiet)
    return report_of(load, applied, window, ingested=ingested)


def report_of(load: LoadContext, applied: Applied, window: Window, *, ingested: bool, windows: int = 1) -> LoadReport:
    """The report of one of the windows that were merged together."""
    return LoadReport(
        window=window,
        record=applied.at.records[window.key],
        evidence=applied.evidence[window.key],
        merged=applied.merged[window.key],
        ingested=ingested,
        committed=applied.committed,
        table_version=applied.at.table_version,
        log_version=applied.at.log_version,
        proof=Proof(applied.evidence[window.key], *applied.compared) if applied.compared else None,
        size=applied.at.sizes.get(window.key, 0),
        written=None if applied.written is None else applied.written // windows,
        seconds={name: seconds / windows for name, seconds in load.phases.seconds.items()},
        timeline=tuple(load.phases.timeline),
    )


def _ingest(
    load: LoadContext,
    window: Window,
    checkpoint: Checkpoint,
    *,
    rewrite_compacted: bool = False,
    if_held: IfHeld = "refuse",
    trusts_log: bool = True,
    in_chunks: InChunks | None = None,
) -> bool:
    """Ingests until the log has the source's content, and says whether this load ingested it.

    Detecting again afterwards also proves a consistent read. A source that may change while it is read is not detected
    again, because it would hardly ever be at rest.

    If the log already has the source's content, the source is not read, unless the log is not trusted. If that content
    is not known to be settled, the fence of the window's ingestions is moved first: the commit of a killed load's
    ingestion may still arrive, and only a commit under the same fence rejects it. Markers of removed keys stay as they
    are, because their keys may not have been folded yet.
    """
    ingested, fenced, held_off = False, False, False
    guard, app_id = strategy_of(load.table).guard, ingestion_app_id(load.table, window)
    for _ in range(INGESTIONS):
        with load.phases.timed("detect"):
            ingestion = look(load, window, checkpoint, ingested=ingested)
        if ingestion.held and if_held != "release":
            expect_completion(load, ingestion, checkpoint, if_held)
            return ingested
        same = ingestion.is_same(load.table.code_version) and not ingestion.held
        if same and (ingestion.settled or ingested or fenced):
            return ingested
        if same and trusts_log:
            with load.phases.timed("ingest"):
                bare_fence(load, app_id)
            fenced = True
            continue  # what was ingested before the fence moved is in the log now
        if ingestion.before is not None and ingestion.before.compacted_at is not None:
            if not (same or rewrite_compacted):  # in every attempt, as the source may have changed since the last one
                refuse_rewrite(load, window, ingestion.before, ingestion.position)
            if not held_off:
                hold_off(load)
                held_off = True
                continue  # an ingestion has to start from the log after any removal
        with load.phases.timed("ingest"):
            prefetch_delta_state(load)
            ingested = ingest(load, ingestion, guard, staging_of(load, ingestion, in_chunks)) or ingested
        if ingested and load.table.source.changes_while_read:
            return True
    raise SourceChanged(
        f"{load.table.name} {window.key}: the source changed during each of {INGESTIONS} attempts to read it",
        rule="a source must not change while a window is ingested from it",
        remedy="none if the writer pauses, as the load is tried again; otherwise write files under a temporary name",
    )


def expect_completion(load: LoadContext, ingestion: Ingestion, checkpoint: Checkpoint, if_held: IfHeld) -> None:
    """Refuses to load a held window, with who held it and why, unless that completes or repairs its undo."""
    window, record = ingestion.window, ingestion.before
    assert record is not None
    name = f"{load.table.name} {window.key}"
    assert record.hold is not None
    is_done = checkpoint.fingerprint == record.fingerprint and _may_be_merged(load, window, record)
    if if_held == "refuse" and (is_done or not record.hold.undone):
        raise WindowHeld(
            f"{name}: the window is {record.hold}",
            rule="a held window is not loaded while its source holds what it held then",
            remedy="correct the source, which ends the hold; or load it as it is: "
            f"incload release {load.table.name} --partitions {window.key}",
        )
    load.info(f"{name}: the window is {record.hold}; what the log holds is merged, the source is left alone")


def _may_be_merged(load: LoadContext, window: Window, record: WindowRecord) -> bool:
    """True if the table may have the merge of a landing; an undo of a replay has the fingerprint of the replay."""
    delta = load.lake.delta(load.uri)
    return load.table.write.whole or delta is None or not not_merged(load.table, {window: record}, delta)


def prefetch_delta_state(load: LoadContext) -> None:
    """Starts the computation of Delta's state of the table in the background while the source is read.

    Spark's commits need the state, and Delta recomputes it after each commit in a Spark job that mostly waits: 0.2 s of
    a small load. Errors are ignored here: the commit that needs the state raises them.
    """
    ahead = ThreadPoolExecutor(1, "incload-ahead")
    ahead.submit(_compute_state, load)
    ahead.shutdown(wait=False)  # an error stays in its future


def _compute_state(load: LoadContext) -> None:
    """Requests the files in which a column is NULL: Delta needs the table's state for this, and usually finds none."""
    table = load.table
    rows = load.spark.read.format("delta").load(load.lake.spark_uri(load.uri))
    rows.filter(col((*table.write.stored_by, *table.columns)[0]).isNull()).inputFiles()
