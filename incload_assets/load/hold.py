"""Holds: a window is left as it is until its source changes or a person releases it.

A hold is a commit of the window's record alone, under the fence of its landings.
"""

from collections.abc import Callable
from dataclasses import replace

from pyspark.sql import SparkSession

from incload_assets.change_log.commit import commit
from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.staged import Staged
from incload_assets.change_log.window_records import Hold, window_records_of
from incload_assets.declaration import window as windows
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import Window
from incload_assets.ingest.ingestion import ingestion_app_id
from incload_assets.load.load import INGESTIONS, LoadReport
from incload_assets.load.undo import undo_window
from incload_assets.load.undo_plan import Undo
from incload_assets.progress.audit import AuditEntry
from incload_assets.progress.audit import record as into_audit
from resources.errors import CannotUndo, ConcurrentLoad, IncrementalLoadError, ReconciliationFailed
from resources.lake import Lake

RECONCILIATION = "the reconciliation"
"""The actor where a failed reconciliation holds or undoes."""


def hold_window(
    spark: SparkSession, table: Table, lake: Lake, window: Window, *, actor: str, because: str, run_id: str = ""
) -> Hold | None:
    """Holds a window as it is, until its source changes or it is released; None if it holds nothing or is held already.

    Args:
        spark: The session.
        table: The declaration.
        lake: The lake with the table.
        window: The window.
        actor: Who holds it.
        because: Why.
        run_id: The run, recorded in the commit.

    Raises:
        ConcurrentLoad: Other loads committed first in every attempt.
    """
    load = LoadContext(spark, table, lake.followed(), run_id)
    app_id_of_landings = ingestion_app_id(table, window)
    for _ in range(INGESTIONS):
        at = load.log.open()
        record = window_records_of(at, only=[window.key]).get(window.key)
        if record is None or record.hold is not None:
            return None
        hold = Hold(
            fingerprint=record.fingerprint, actor=actor, because=because, at=windows.now(), undone=0,
            returned_to=record.landing,
        )  # fmt: skip
        number = max(record.landing, at.transaction_version(app_id_of_landings) or 0) + 1
        held = replace(record, landing=number, held=hold.as_text())
        staged, note = Staged(load.log, spark, [window.key]), f"held {window.key}, run {run_id}"
        if commit(load, staged, {window.key: held}, app_id_of_landings, number, note=note, base=record, keep=False):
            return hold
    raise ConcurrentLoad(
        f"{table.name} {window.key}: other loads landed first in each of {INGESTIONS} attempts to hold it",
        rule="a hold is of the landing that it has read",
        remedy="try again",
    )


def after_failed_reconciliation(
    spark: SparkSession,
    table: Table,
    lake: Lake,
    window: Window,
    error: ReconciliationFailed,
    *,
    run_id: str,
    info: Callable[[str], None] = lambda _: None,
) -> tuple[LoadReport | None, str]:
    """Does with a window what its table declares for a failed reconciliation, and records it in the audit.

    Only what this run has landed is undone. If that fails, for example because another writer is the cause, the window
    is held as it is.

    Args:
        spark: A session.
        table: The declaration.
        lake: The lake with the table.
        window: The window.
        error: Why the reconciliation failed.
        run_id: The run of the failed load.
        info: Logs one line for each step.

    Returns:
        The report of the undo, None if nothing was undone; and what was done, for people.
    """
    report, told, action = None, "", table.on_failed_reconciliation
    if action == "undo":
        try:
            undo = Undo(run_id, RECONCILIATION, error.problem)
            report = undo_window(spark, table, lake, window, undo, run_id=run_id, info=info)
            told = "The load was undone" + (", and the window is held" if report.control.hold is not None else "")
        except CannotUndo as nothing:
            return None, f"Nothing was undone: {nothing.problem}"
        except IncrementalLoadError as failed:
            told = f"The load was not undone: {failed.problem}. "
            action = "hold"
    if action == "hold":
        held = hold_window(spark, table, lake, window, actor=RECONCILIATION, because=error.problem, run_id=run_id)
        told += (
            "The window is held" if held is not None else "The window is not held, as it holds nothing, or is already"
        )
    if action is not None:
        into_audit(
            lake,
            AuditEntry(
                action=action, table=table.name, partitions=[window.key], actor=RECONCILIATION, because=error.problem,
                run_id=run_id,
            ),
        )  # fmt: skip
    return report, told
