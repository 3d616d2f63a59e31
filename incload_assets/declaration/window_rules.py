"""Rules for the windows of a table, checked on a sample of windows.

The sample consists of the first windows and of the windows around the new year and around each change of the clock
within a year of the start: there an incomplete key format gives two windows the same key.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from zoneinfo import ZoneInfo

import dagster as dg
import pyspark.sql.types as T

from incload_assets.declaration.window import Window, first_window, window_between
from incload_assets.platform.dagster_private import CheckError
from incload_assets.platform.errors import DeclarationError
from incload_assets.platform.sql import quoted

MANY = 20_000
"""The number of windows above which a definition is better coarser, or begins later."""
_BEFORE, _AFTER = 2, 5
"""Number of sampled windows before and after each such instant."""


def time_windows(table_name: str, partitions_def: dg.PartitionsDefinition) -> dg.TimeWindowPartitionsDefinition:
    """The partitions definition, checked to be of time windows and to start before it ends."""
    if not isinstance(partitions_def, dg.TimeWindowPartitionsDefinition):
        raise DeclarationError(
            f"{table_name}: partitions_def is {type(partitions_def).__name__}",
            rule="an incremental table is partitioned by time",
            remedy='write partitions_def=dg.DailyPartitionsDefinition("2026-01-01") or another time window definition',
        )
    start, end = partitions_def.start, partitions_def.end
    if end is not None and end <= start:
        raise DeclarationError(
            f"{table_name}: partitions_def starts at {start.isoformat()} and ends at {end.isoformat()}",
            rule="a definition that does not end after its start has no windows",
            remedy="write a later end_date, or none",
        )
    return partitions_def


def too_many_windows(partitions_def: dg.TimeWindowPartitionsDefinition) -> str | None:
    """Advice about a definition that has more than :data:`MANY` windows by now; None if it has fewer."""
    if (count := partitions_def.get_num_partitions()) <= MANY:
        return None
    return (
        f"it has {count:,} partitions since {partitions_def.start:%Y-%m-%d}, more than {MANY:,}, and Dagster's pages "
        "and each look of its sensor go through all of them. Remedy: coarser partitions (if it is loaded already, with "
        "former_partitions), or a later start"
    )


def sampled_windows(table_name: str, partitions_def: dg.TimeWindowPartitionsDefinition) -> list[Window]:
    """A sample of the windows that a definition has or will have, oldest first; its end is ignored.

    Refuses equal keys, keys that do not identify their window, and windows that Dagster cannot compute.
    """
    try:
        windows, repeated = _sampled(partitions_def)
    except (CheckError, OverflowError) as error:
        raise DeclarationError(
            f"{table_name}: partitions_def is {partitions_def!r}, whose windows Dagster cannot compute",
            rule="each window is followed by another one, even when the clock of its time zone changes",
            remedy="drop minute_offset or the exclusions, or write timezone='UTC'",
        ) from error
    if repeated:
        raise DeclarationError(
            f"{table_name}: partitions_def has fmt {partitions_def.fmt!r}, which gives consecutive windows "
            f"the keys {', '.join(map(repr, repeated))}",
            rule="each window has its own key, which determines when it starts",
            remedy="drop fmt, or write one that gives every window another key, such as '%Y-%m-%d-%H:%M'",
        )
    return [*windows]


@lru_cache(maxsize=64)
def _sampled(partitions_def: dg.TimeWindowPartitionsDefinition) -> tuple[tuple[Window, ...], Sequence[str]]:
    """The windows, which tables with the same definition share, or consecutive keys that do not identify theirs."""
    start, found = partitions_def.start, set[Window]()
    for at in (start, *_steps(start)):
        stretch = _stretch(partitions_def, at, before=_BEFORE if at > start else 0)
        keys = partitions_def.get_partition_keys_in_time_window(stretch)
        windows = _windows_of(partitions_def, keys)
        starts = [stretch.start.timestamp() - 1, *(window.start.timestamp() for window in windows)]
        if len(windows) < len(keys) or any(one >= next_ for one, next_ in pairwise(starts)):
            return (), keys
        found |= set(windows)
    return tuple(sorted(found)), ()


def _windows_of(partitions_def: dg.TimeWindowPartitionsDefinition, keys: Sequence[str]) -> list[Window]:
    """The windows of the keys, up to the first key that Dagster cannot parse."""
    windows = []
    for key in keys:
        try:
            bounds = partitions_def.time_window_for_partition_key(key)
        except ValueError:
            break
        windows.append(window_between(partitions_def, bounds, key))
    return windows


def _stretch(partitions_def: dg.TimeWindowPartitionsDefinition, at: datetime, before: int) -> dg.TimeWindow:
    since = at
    for _ in range(before):
        window = partitions_def.get_prev_partition_window(since, respect_bounds=False)
        since = window.start if window else since
    until = at
    for _ in range(_AFTER):
        window = partitions_def.get_next_partition_window(until, respect_bounds=False)
        until = window.end if window else until
    return dg.TimeWindow(since, until)


def _steps(start: datetime) -> Iterator[datetime]:
    """Each new year and each change of the clock in the year after an instant, up to an hour late."""

    def steps(since: datetime, number: int, length: timedelta) -> Iterator[tuple[datetime, datetime]]:
        instants = ((since + n * length).astimezone(start.tzinfo) for n in range(number + 1))
        for before, after in pairwise(instants):
            if (before.year, before.utcoffset()) != (after.year, after.utcoffset()):
                yield before.astimezone(UTC), after.astimezone(UTC)

    for day, _ in steps(start.astimezone(UTC), 366, timedelta(days=1)):
        yield from (after for _, after in steps(day, 24, timedelta(hours=1)))


def inside_sql(column: str, kind: T.DataType, start: datetime, end: datetime, timezone: str) -> str:
    """SQL condition that a date (a day in ``timezone``) or timestamp is in a window, with literals to skip files."""
    if isinstance(kind, T.DateType):
        zone = ZoneInfo(timezone)
        first, after = (f"DATE'{bound.astimezone(zone).date()}'" for bound in (start, end))
    else:
        first, after = (f"TIMESTAMP'{bound.isoformat()}'" for bound in (start, end))
    return f"{quoted(column)} >= {first} AND {quoted(column)} < {after}"


def check_whole_days(
    table_name: str, place: str, column: str, partitions_def: dg.TimeWindowPartitionsDefinition
) -> None:
    """Refuses windows that begin or end within a day, because a date would not determine its window."""
    first = first_window(partitions_def, table_name)
    zone = ZoneInfo(partitions_def.timezone)
    bounds = [bound.astimezone(zone) for bound in (first.start, first.end)]
    if any((bound.hour, bound.minute) != (0, 0) for bound in bounds):
        raise DeclarationError(
            f"{table_name}: {place} names {column!r} of type date, and the first window is "
            f"[{bounds[0].isoformat()}, {bounds[1].isoformat()})",
            rule="a date determines the window of a row only if windows begin at midnight",
            remedy="partition by a timestamp, or by a string that is the partition key",
        )
