"""The windows of a table that wait to be loaded, or that other code has validated."""

from collections.abc import Iterable

import dagster as dg

from incload_assets.declaration.table import Table
from incload_assets.declaration.window import now
from incload_assets.load.range_fences import not_merged
from incload_assets.platform.lake import Lake
from incload_assets.progress.progress import WindowProgress, progress_of
from incload_assets.progress.undone import undone_windows, with_undone


def is_pending(window: WindowProgress) -> bool:
    """True if the source holds data for a window that is neither loaded nor being loaded."""
    return window.position is not None and window.status in ("missing", "failed", "drifted")


def pending_windows(instance: dg.DagsterInstance, table: Table, lake: Lake) -> list[str]:
    """The partitions that are missing, failed or drifted, and for which the source holds data, oldest first.

    Partitions that are held after an undo are left out, also if a load of them was refused, and so failed; unless their
    undo or replay was killed before its merge: it may have ingested what has the fingerprint of the checkpoint, and the
    next load completes it.
    """
    at = now()
    progress = progress_of(instance, table, lake, at)
    lost, begun = undone_windows(instance, table, lake, progress, at).windows, _begun(table, lake, progress)
    return [
        window.key
        for window in with_undone(progress, lost)
        if window.key in begun or (is_pending(window) and not _is_held(window))
    ]


def _begun(table: Table, lake: Lake, progress: Iterable[WindowProgress]) -> set[str]:
    """The windows that were loaded before, that no run is loading, and whose last ingestion the table lacks."""
    delta = lake.delta(lake.table_uri(table.key.path))
    if delta is None:
        return set()
    at_rest = (window for window in progress if window.is_loaded and window.status != "in_progress")
    return {*not_merged(table, {w.window: w.record for w in at_rest if w.record is not None}, delta)}


def outdated_windows(instance: dg.DagsterInstance, table: Table, lake: Lake) -> tuple[list[str], list[str]]:
    """The loaded partitions that other code has validated, oldest first: what a load validates again, and others.

    For the others the source no longer has data, they are held, or their log was compacted.
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
    """True if a load by hand would be refused."""
    return window.record is not None and window.record.rests_at(window.position, window.checkpoint)
