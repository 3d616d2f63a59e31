"""The windows of a table that were due at an instant, counted by the calendar alone."""

from bisect import bisect_right
from collections.abc import Sequence
from datetime import datetime, timedelta

from incload_assets.declaration.table import Table
from incload_assets.declaration.window import Window, windows_at


def due_times(table: Table, at: datetime) -> list[datetime]:
    """When each window was due that was due until an instant, oldest first, aware."""
    wait = table.due_after
    return [window.end + wait for window in _ended(table, at - wait)]


def count_due(table: Table, after: datetime, at: datetime) -> int:
    """The number of windows that became due after an instant, until another."""
    windows = _ended(table, at - table.due_after)
    return len(windows) - bisect_right(windows, after - table.due_after, key=_end)


def window_length(table: Table, at: datetime) -> timedelta:
    """The length of the newest windows that were over at an instant; zero if there are fewer than two."""
    windows = _ended(table, at - table.due_after)[-2:]
    return windows[-1].end - windows[0].end if windows else timedelta()


def _ended(table: Table, at: datetime) -> Sequence[Window]:
    """The windows that were over at an instant, oldest first."""
    windows = windows_at(table.partitions_def, at)
    return windows[: bisect_right(windows, at, key=_end)]


def _end(window: Window) -> datetime:
    return window.end
