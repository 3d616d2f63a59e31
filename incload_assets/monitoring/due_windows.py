"""The windows of a table that were due at an instant, counted by the calendar alone."""

from bisect import bisect_right
from datetime import UTC, datetime, timedelta
from functools import lru_cache

import dagster as dg

from incload_assets.declaration.table import Table


def due_times(table: Table, at: datetime) -> list[datetime]:
    """When each window was due that was due until an instant, oldest first, aware."""
    wait = table.due_after
    return [end + wait for end in _ended(table.partitions_def, at - wait)]


def count_due(table: Table, after: datetime, at: datetime) -> int:
    """The number of windows that became due after an instant, until another."""
    ends = _ended(table.partitions_def, at - table.due_after)
    return len(ends) - bisect_right(ends, after - table.due_after)


@lru_cache(maxsize=64)
def _ended(definition: dg.TimeWindowPartitionsDefinition, at: datetime) -> tuple[datetime, ...]:
    """The ends of the windows that were over at an instant, oldest first."""
    ends = _ends(definition, at.astimezone(UTC).replace(minute=0, second=0, microsecond=0))
    if not ends:
        ends = _ends.__wrapped__(definition, at)
    while ends and (following := definition.get_next_partition_window(ends[-1])) and following.end <= at:
        ends = (*ends, following.end.astimezone(UTC))
    return ends[: bisect_right(ends, at)]


def window_length(table: Table, at: datetime) -> timedelta:
    """The length of the newest windows that were over at an instant; zero if there are fewer than two."""
    ends = _ended(table.partitions_def, at - table.due_after)[-2:]
    return ends[-1] - ends[0] if ends else timedelta()


@lru_cache(maxsize=4096)
def _ends(partitions_def: dg.TimeWindowPartitionsDefinition, at: datetime) -> tuple[datetime, ...]:
    """The ends of all windows, oldest first; tables with the same definition share them for an hour."""
    keys = partitions_def.get_partition_keys(current_time=at)
    found = partitions_def.time_windows_for_partition_keys(frozenset(keys), validate=False)
    return tuple(sorted(window.end.astimezone(UTC) for window in found))
