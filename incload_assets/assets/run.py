"""A run of a table's asset: loads its partitions, oldest first; each succeeds or fails by itself."""

import random
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

import dagster as dg

from incload_assets.assets.metadata import Metadata, metadata_of
from incload_assets.change_log.chunks import InChunks
from incload_assets.change_log.context import LoadContext, ReadSoFar
from incload_assets.checks.with_loads import check_after_load
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import Window
from incload_assets.load.catalog_entry import keep_entry
from incload_assets.load.error_translation import translated, unforeseen
from incload_assets.load.fill import fill_window
from incload_assets.load.hold import after_failed_reconciliation
from incload_assets.load.load import IfHeld, LoadReport, load_window
from incload_assets.load.ranges import load_first_windows
from incload_assets.load.replay import replay_window
from incload_assets.load.undo import undo_window
from incload_assets.load.undo_plan import Undo
from incload_assets.platform.dagster_private import SENSOR_NAME_TAG
from incload_assets.platform.errors import (
    ContractViolation,
    IncrementalLoadError,
    ReconciliationFailed,
    SourceMissing,
    TablePaused,
)
from incload_assets.platform.settings import current_settings
from incload_assets.platform.wording import several
from incload_assets.progress.audit import AuditEntry, actor_of, record_once
from incload_assets.progress.checkpoint import (
    DATA_VERSION_TAG,
    ERROR_CLASSES,
    Checkpoint,
    checkpoint_of,
    untried,
)
from incload_assets.progress.lake_identity import expect_known_lake
from incload_assets.progress.pause import expect_not_paused
from incload_assets.progress.process import mark_process
from incload_assets.progress.request import Request
from incload_assets.progress.run_tags import CHECKED_BY_LOAD, FAILURE_TAG, own_tags
from incload_assets.progress.slots import slot_left

MAX_RETRIES = 3
FIRST_DELAY_SECONDS = 5.0


def materialize(context: dg.AssetExecutionContext, table: Table) -> Iterator[dg.MaterializeResult[Any]]:
    """Loads the run's partitions, oldest first; each succeeds or fails by itself."""
    mark_process(context)
    request = Request.from_tags(context.run.tags)
    keys = sorted(context.partition_keys, key=table.window_of)
    failures: dict[str, BaseException] = {}
    with ExitStack() as held:
        try:
            # once per run, before anything is read: a run that loads already is not stopped halfway
            expect_known_lake(context.instance, table, context.resources.lake)
            expect_not_paused(context.resources.lake, table.name)
            spark = held.enter_context(context.resources.spark.session(table.name))
        except Exception as error:  # no session is available, or the table is not to be loaded now
            failures |= dict.fromkeys(keys, _translated(context, table, table.name, error))
        else:
            load = LoadContext(
                spark,
                table,
                context.resources.lake,
                context.run.run_id,
                context.log.info,
                partial(_observe, context, table),
                partial(_beside_others, context),
            )
            yield from _load_each(context, load, request, keys, failures)
            if len(failures) < len(keys):
                _name_in_catalog(context, load)
    if done := [key for key in keys if key not in failures]:
        _audit(context, table, request, done)
    checked = len(keys) > 1 or CHECKED_BY_LOAD.items() <= context.run.tags.items()
    evaluations = check_after_load(context, table, loaded=len(failures) < len(keys)) if checked else None
    if failures:
        _fail(context, table, failures, len(keys))
    if evaluations is not None:
        evaluations.raise_what_failed()


def _load_each(
    context: dg.AssetExecutionContext,
    load: LoadContext,
    request: Request,
    keys: Sequence[str],
    failures: dict[str, BaseException],
) -> Iterator[dg.MaterializeResult[Any]]:
    table, start = load.table, time.monotonic()
    windows = {key: table.window_of(key) for key in keys}
    left = dict(windows)
    try:
        for reports in _load_together(context, load, request, list(windows.values())):
            metadata_by_key = metadata_of(load, reports)
            for report in reports:
                _log(context, table, report, metadata_by_key[report.window.key])
                del left[report.window.key]
    except Exception as error:  # of any kind: the loads of the remaining windows report their own errors
        reason = _translated(context, table, table.name, error)
        context.log.warning(
            f"{table.name}: the windows are loaded one by one, as loading them together failed: {reason}"
        )
    for number, (key, window) in enumerate(left.items(), len(keys) - len(left) + 1):
        if len(keys) > 1:
            context.log.info(f"{table.name} {key}: partition {number} of {len(keys)}{_time_left(start, number, keys)}")
        try:
            report = _load(context, load, request, window)
            metadata = metadata_of(load, [report])[key]
        except Exception as error:
            failures[key] = _translated(context, table, f"{table.name} {key}", error)
            if isinstance(error, ReconciliationFailed) and table.on_failed_reconciliation is not None:
                failures[key] = _taken_back(context, load, window, error)
            context.log.error(f"{table.name} {key}: {failures[key]}")
            continue
        if len(keys) > 1:
            _log(context, table, report, metadata)
        else:
            context.log.info(_summary(table, report))
            version = dg.DataVersion(report.record.fingerprint)
            yield dg.MaterializeResult(asset_key=table.key, metadata=metadata, data_version=version)


def _name_in_catalog(context: dg.AssetExecutionContext, load: LoadContext) -> None:
    """Keeps the table's entry in the catalog, if the settings name one; without an entry the table is right, too."""
    try:
        keep_entry(load, current_settings(), context.assets_def.descriptions_by_key.get(load.table.key))
    except IncrementalLoadError as error:
        context.log.warning(str(error))


def _load(context: dg.AssetExecutionContext, load: LoadContext, request: Request, window: Window) -> LoadReport:
    """Loads a window from its source, replays its quarantine, fills or undoes it, as requested."""
    match request.action:
        case "undo":
            return undo_window(load, window, Undo(request.before, actor_of(context.run), request.because))
        case "replay":
            return replay_window(load, window)
        case "fill":
            return fill_window(load, window)
    # a sensor asks for a held window only to complete an undo, or to repair what the window is to have
    if_held: IfHeld = "release" if request.action == "release" else "complete" if request.fingerprints else "refuse"
    checkpoint = _checkpoint(context, load.table, window.key, alone=len(context.partition_keys) == 1)
    return load_window(
        load,
        window,
        checkpoint=checkpoint,
        rewrite_compacted=request.rewrite_compacted,
        if_held=if_held,
        in_chunks=InChunks(request.chunks, max(request.at_once, 1)) if request.chunks else None,
    )


def _beside_others(context: dg.AssetExecutionContext) -> AbstractContextManager[None]:
    """Leaves the slot of the table's pool to other loads for a block."""
    step = context.get_step_execution_context().step
    return slot_left(context.instance, context.op_def.pool, context.run.run_id, step.key)


def _observe(context: dg.AssetExecutionContext, table: Table, so_far: ReadSoFar) -> None:
    """Shows in the UI how far a window is that is read in chunks."""
    numbers = {
        "chunks": so_far.chunks,
        "of": so_far.of,
        "rows": so_far.rows,
        "share": so_far.share,
        "seconds_left": round(so_far.seconds_left),
    }
    context.log_event(
        dg.AssetObservation(table.key, partition=so_far.window, description=str(so_far), metadata=numbers)
    )


def _taken_back(
    context: dg.AssetExecutionContext, load: LoadContext, window: Window, error: ReconciliationFailed
) -> BaseException:
    """Holds or undoes, as the table declares, and returns the whole error; an undo is checkpointed all the same."""
    try:
        report, done = after_failed_reconciliation(load, window, error)
        if report is not None:
            _log(context, load.table, report, metadata_of(load, [report])[window.key])
    except Exception as failed:
        context.log.error(f"{load.table.name} {window.key}: neither undone nor held", exc_info=failed)
        done = f"It was neither undone nor held: {failed}"
    return ReconciliationFailed(f"{error} {done}")


def _audit(context: dg.AssetExecutionContext, table: Table, request: Request, done: Sequence[str]) -> None:
    """Records in the audit what a person's run has done; the collection of loads records what is left out here."""
    if SENSOR_NAME_TAG in context.run.tags or (request.action == "load" and not request.started_by):
        return
    entry = AuditEntry(
        action=request.action,
        table=table.name,
        partitions=done,
        actor=actor_of(context.run),
        because=request.because,
        run_id=context.run.run_id,
        details={"before": request.before} if request.before else {},
    )
    try:
        record_once(context.resources.lake, [entry])
    except IncrementalLoadError as error:
        context.log.warning(f"{table.name}: the audit lacks what this run did until loads are collected: {error}")


def _load_together(
    context: dg.AssetExecutionContext, load: LoadContext, request: Request, windows: Sequence[Window]
) -> Iterator[list[LoadReport]]:
    """Loads windows together that no run has tried before, if there are several."""
    table, from_source = load.table, request.action in ("load", "release")
    if len(windows) < 2 or context.retry_number > 0 or not table.in_ranges or not from_source:
        return

    def first_of(windows: Sequence[Window]) -> set[str]:
        keys = [window.key for window in windows]
        return untried(context.instance, table.key, table.partitions_def, keys, context.run.run_id)

    first = first_of(windows)
    if len(first) > 1:
        yield from load_first_windows(load, [w for w in windows if w.key in first], first_of)


def _log(context: dg.AssetExecutionContext, table: Table, report: LoadReport, metadata: Metadata) -> None:
    """Checkpoints one of several partitions as soon as it is loaded, because later ones may fail."""
    context.log.info(_summary(table, report))
    tags = {DATA_VERSION_TAG: report.record.fingerprint}
    key = report.window.key
    context.log_event(dg.AssetMaterialization(table.key, partition=key, metadata=metadata, tags=tags))


def _translated(context: dg.AssetExecutionContext, table: Table, doing: str, error: BaseException) -> BaseException:
    """The translated error for messages; the stack of an unforeseen error is logged."""
    if unforeseen(error):
        context.log.error(f"{doing}: raised", exc_info=error)
    return translated(error, doing, table, context.resources.lake)


def _time_left(start: float, number: int, keys: Sequence[str]) -> str:
    """The estimated time left by the pace so far; empty before the first partition is done."""
    done = number - 1
    left = (time.monotonic() - start) / done * (len(keys) - done) if done else 0
    return f", about {left:.0f} s left" if done else ""


def _summary(table: Table, report: LoadReport) -> str:
    e, m = report.evidence, report.merged
    return (
        f"{table.name} {report.window.key}: reconciled at version {report.table_version}; read {e.rows_read}, "
        f"inserted {m.inserted}, updated {m.updated}, deleted {m.deleted}, stale {e.stale}, duplicate {e.duplicate}, "
        f"quarantined {e.quarantined}"
    )


def _fail(context: dg.AssetExecutionContext, table: Table, failures: Mapping[str, BaseException], total: int) -> None:
    """Fails the step: with a retry if all errors are transient, otherwise without."""
    transient = all(isinstance(e, IncrementalLoadError) and e.transient for e in failures.values())
    run_id = context.run.run_id
    context.instance.add_run_tags(run_id, own_tags(run_id, {FAILURE_TAG: _cause(failures.values())}))
    if transient and context.retry_number < MAX_RETRIES:
        delay = FIRST_DELAY_SECONDS * 2**context.retry_number * random.uniform(0.5, 1.5)
        raise dg.RetryRequested(max_retries=MAX_RETRIES, seconds_to_wait=delay) from next(iter(failures.values()))
    lines = "\n".join(f"- {key}: {error}" for key, error in failures.items())
    classes = {key: type(error).__name__ for key, error in failures.items()}
    raise dg.Failure(
        description=f"{table.name}: {len(failures)} of {several(total, 'partition')} not loaded\n{lines}",
        metadata={
            **{key: dg.MetadataValue.text(str(error)) for key, error in failures.items()},
            ERROR_CLASSES: dg.MetadataValue.json(classes),
        },
        allow_retries=False,
    )


def _cause(errors: Iterable[BaseException]) -> str:
    """The cause of a failure for automation, which tries ``transient`` and ``missing`` again, and no others."""
    causes = set()
    for error in errors:
        if isinstance(error, SourceMissing):
            causes.add("missing")
        elif isinstance(error, ContractViolation):
            causes.add("contract")
        elif isinstance(error, TablePaused):
            causes.add("transient")  # for the sensor, which requests nothing before the pause is over; no retry now
        else:
            causes.add("transient" if isinstance(error, IncrementalLoadError) and error.transient else "error")
    return next(cause for cause in ("error", "contract", "missing", "transient") if cause in causes)


def _checkpoint(context: dg.AssetExecutionContext, table: Table, partition: str, *, alone: bool) -> Checkpoint:
    """Dagster's records of a partition; this run may have tried it before, as a retry or together with others."""
    known = checkpoint_of(context.instance, table.key, table.partitions_def, partition, context.run.run_id)
    again = context.retry_number > 0
    return replace(known, clean=known.clean and not again, untried=known.untried and alone and not again)
