"""The lateness of a table. Only its latest due window decides, so that an old backfill never makes it look fresh."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

import dagster as dg

from incload_assets.declaration.table import Table
from incload_assets.progress.progress import WindowProgress

Verdict = Literal["fresh", "late", "idle", "not due", "undeclared"]


@dataclass(frozen=True, kw_only=True)
class Lateness:
    """The lateness of the latest due window, and the newest loaded one; ``overdue`` is zero unless it is late.

    It is late if it is not loaded, or only with what it held before it ended; idle if the table allows that the source
    has nothing for it.
    """

    verdict: Verdict
    window: WindowProgress | None = None
    overdue: timedelta = timedelta(0)
    newest: WindowProgress | None = None


def lateness_of(
    instance: dg.DagsterInstance, table: Table, progress: Sequence[WindowProgress], now: datetime
) -> Lateness:
    """How late a table is at an instant, given the progress of all windows, oldest first."""
    newest = next((w for w in reversed(progress) if w.is_loaded), None)
    if table.freshness is None:
        return Lateness(verdict="undeclared", newest=newest)
    within = table.freshness.within
    latest = next((w for w in reversed(progress) if w.window.end + within <= now), None)
    if latest is None:
        return Lateness(verdict="not due", newest=newest)
    if latest.is_loaded and (_is_as_the_source(latest) or not _loaded_before_its_end(instance, table, latest)):
        return Lateness(verdict="fresh", window=latest, newest=newest)
    if table.source.absent == "empty" and not latest.is_loaded and _holds_nothing(table, latest):
        return Lateness(verdict="idle", window=latest, newest=newest)
    return Lateness(verdict="late", window=latest, overdue=now - (latest.window.end + within), newest=newest)


def _is_as_the_source(window: WindowProgress) -> bool:
    """True if the window is loaded with what the source holds now; a running or failed load may be for newer data."""
    if window.status in ("in_progress", "failed"):
        return window.is_current
    return window.status in ("loaded", "held")


def _loaded_before_its_end(instance: dg.DagsterInstance, table: Table, window: WindowProgress) -> bool:
    """True if the last load was before the window's end, and so may lack rows that arrived later."""
    last = instance.fetch_materializations(
        dg.AssetRecordsFilter(asset_key=table.key, asset_partitions=[window.key]), limit=1
    ).records
    return bool(last) and last[0].timestamp < window.window.end.timestamp()


def _holds_nothing(table: Table, window: WindowProgress) -> bool:
    return window.position is None or window.position == table.source.empty_position(window.window)
