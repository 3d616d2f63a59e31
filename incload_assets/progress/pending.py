"""The windows of a table that wait to be loaded."""

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


def _is_held(window: WindowProgress) -> bool:
    """Whether a load by hand would be refused."""
    return window.record is not None and window.record.rests_at(window.position, window.checkpoint)
