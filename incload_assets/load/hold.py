"""Holds: commits of a window's record alone, which leave it as it is until its source changes or it is released."""

from dataclasses import replace

from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.window_records import Hold
from incload_assets.declaration import window as windows
from incload_assets.declaration.window import Window
from incload_assets.load.load import LoadReport
from incload_assets.load.revision import Revision, revise
from incload_assets.load.undo import undo_window
from incload_assets.load.undo_plan import Undo
from incload_assets.platform.errors import CannotUndo, IncrementalLoadError, ReconciliationFailed
from incload_assets.progress.audit import AuditEntry
from incload_assets.progress.audit import record as into_audit

RECONCILIATION = "the reconciliation"
"""The actor where a failed reconciliation holds or undoes."""


def hold_window(load: LoadContext, window: Window, *, actor: str, because: str) -> Hold | None:
    """Holds a window until its source changes or it is released; None if it holds nothing or is held already."""
    hold = None

    def hold_it(revision: Revision) -> bool | None:
        nonlocal hold
        record = revision.before
        if record is None or record.hold is not None:
            return None
        hold = Hold(
            fingerprint=record.fingerprint, actor=actor, because=because, at=windows.now(), undone=0,
            returned_to=record.landing,
        )  # fmt: skip
        return revision.commit(replace(record, held=hold.as_text()), note=f"held {window.key}", adds=True, keep=False)

    return hold if revise(load.renewed(), window, hold_it, doing="hold it") else None


def after_failed_reconciliation(
    load: LoadContext, window: Window, error: ReconciliationFailed
) -> tuple[LoadReport | None, str]:
    """Does what the table declares for a failed reconciliation; the report, None if nothing was undone, and a message.

    Only what this run has landed is undone. If that fails, for example because another writer is the cause, the window
    is held as it is.
    """
    report, told, action = None, "", load.table.on_failed_reconciliation
    if action == "undo":
        try:
            report = undo_window(load, window, Undo(load.run_id, RECONCILIATION, error.problem))
            told = "The load was undone" + (", and the window is held" if report.record.hold is not None else "")
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
