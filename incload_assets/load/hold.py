"""Holds: a window is left as it is until its source changes or a person releases it.

A hold is a commit of the window's record alone, under the fence of its landings.
"""

from dataclasses import replace

from incload_assets.change_log.commit import commit
from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.staged import Staged
from incload_assets.change_log.window_records import Hold, window_records_of
from incload_assets.declaration import window as windows
from incload_assets.declaration.window import Window
from incload_assets.ingest.ingestion import ingestion_app_id
from incload_assets.load.load import INGESTIONS, LoadReport
from incload_assets.load.undo import undo_window
from incload_assets.load.undo_plan import Undo
from incload_assets.progress.audit import AuditEntry
from incload_assets.progress.audit import record as into_audit
from resources.errors import CannotUndo, ConcurrentLoad, IncrementalLoadError, ReconciliationFailed

RECONCILIATION = "the reconciliation"
"""The actor where a failed reconciliation holds or undoes."""


def hold_window(load: LoadContext, window: Window, *, actor: str, because: str) -> Hold | None:
    """Holds a window as it is, until its source changes or it is released; None if it holds nothing or is held already.

    Args:
        load: The run's load context.
        window: The window.
        actor: Who holds it.
        because: Why.

    Raises:
        ConcurrentLoad: Other loads committed first in every attempt.
    """
    load, name = load.anew(), f"{load.table.name} {window.key}"
    app_id_of_landings = ingestion_app_id(load.table, window)
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
        staged, note = Staged(load.log, load.spark, [window.key]), f"held {window.key}, run {load.run_id}"
        if commit(load, staged, {window.key: held}, app_id_of_landings, number, note=note, base=record, keep=False):
            return hold
    raise ConcurrentLoad(
        f"{name}: other loads landed first in each of {INGESTIONS} attempts to hold it",
        rule="a hold is of the landing that it has read",
        remedy="try again",
    )


def after_failed_reconciliation(
    load: LoadContext, window: Window, error: ReconciliationFailed
) -> tuple[LoadReport | None, str]:
    """Does with a window what its table declares for a failed reconciliation, and records it in the audit.

    Only what this run has landed is undone. If that fails, for example because another writer is the cause, the window
    is held as it is.

    Args:
        load: The load context of the failed load's run.
        window: The window.
        error: Why the reconciliation failed.

    Returns:
        The report of the undo, None if nothing was undone; and what was done, for people.
    """
    report, told, action = None, "", load.table.on_failed_reconciliation
    if action == "undo":
        try:
            report = undo_window(load, window, Undo(load.run_id, RECONCILIATION, error.problem))
            told = "The load was undone" + (", and the window is held" if report.control.hold is not None else "")
        except CannotUndo as nothing:
            return None, f"Nothing was undone: {nothing.problem}"
        except IncrementalLoadError as failed:
            told = f"The load was not undone: {failed.problem}. "
            action = "hold"
    if action == "hold":
        held = hold_window(load, window, actor=RECONCILIATION, because=error.problem)
        told += (
            "The window is held" if held is not None else "The window is not held, as it holds nothing, or is already"
        )
    if action is not None:
        into_audit(
            load.lake,
            AuditEntry(
                action=action, table=load.table.name, partitions=[window.key], actor=RECONCILIATION,
                because=error.problem, run_id=load.run_id,
            ),
        )  # fmt: skip
    return report, told
