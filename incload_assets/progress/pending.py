"""The windows of a table that wait to be loaded, or that other code has validated."""

import dagster as dg

from incload_assets.declaration.table import Table
from incload_assets.declaration.window import now
from incload_assets.progress.progress import WindowProgress, progress_of
from incload_assets.progress.undone import undone_windows, with_undone
from resources.lake import Lake


def is_pending(window: WindowProgress) -> bool:
    """Whether the source holds data for a window that is neither loaded nor being loaded."""
    return window.position is not None and window.status in ("missing", "failed", "drifted")


def pending_windows(instance: dg.DagsterInstance, table: Table, lake: Lake) -> list[str]:
    """The partitions that are missing, failed or drifted, and for which the source holds data, oldest first.

    Partitions that are held after an undo are left out, also if a load of them was refused, and so failed.

    Args:
        instance: The instance with the checkpoints.
        table: The declaration.
        lake: The lake with the table.
    """
    at = now()
    progress = progress_of(instance, table, lake, at)
    lost = undone_windows(instance, table, lake, progress, at).windows
    return [window.key for window in with_undone(progress, lost) if is_pending(window) and not _is_held(window)]


def outdated_windows(instance: dg.DagsterInstance, table: Table, lake: Lake) -> tuple[list[str], list[str]]:
    """The loaded partitions that other code than the declaration's has validated, oldest first.

    Args:
        instance: The instance with the checkpoints.
        table: The declaration.
        lake: The lake with the table.

    Returns:
        Those that a load validates again; and those that it cannot: the source no longer has their data, they are held,
        or their log was compacted.
    """
    again: list[str] = []
    left: list[str] = []
    for window in progress_of(instance, table, lake, now()):
        record = window.record
        if record is None or record.code_version == table.code_version:
            continue
        is_open = window.position is not None and record.compacted_at is None and not _is_held(window)
        (again if is_open else left).append(window.key)
    return again, left


def _is_held(window: WindowProgress) -> bool:
    """Whether a load by hand would be refused."""
    return window.record is not None and window.record.rests_at(window.position, window.checkpoint)
