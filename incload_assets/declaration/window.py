"""The half-open time window of a partition, in UTC."""

from bisect import bisect_left
from collections.abc import Hashable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from threading import Lock
from zoneinfo import ZoneInfo

import dagster as dg

from incload_assets.platform.dagster_private import time_windows_of
from incload_assets.platform.errors import IncrementalLoadError

FEW = 16
"""Number of partition keys up to which the bounds of each are computed by itself."""
KEPT = 400_000
"""Number of windows that a process keeps; each takes 300 bytes."""


@dataclass(frozen=True, order=True, slots=True)
class Window:
    """The window ``[start, end)`` of one partition: instants, aware, UTC; ``zone`` is its definition's time zone."""

    start: datetime
    end: datetime
    key: str
    zone: tzinfo = field(default=UTC, compare=False)

    @property
    def local_start(self) -> datetime:
        """``start`` in the time zone of the partitions."""
        return self.start.astimezone(self.zone)


def window_between(partitions_def: dg.TimeWindowPartitionsDefinition, bounds: dg.TimeWindow, key: str) -> Window:
    """The window of a partition key with the bounds that Dagster computed for it."""
    zone = ZoneInfo(partitions_def.timezone)
    return Window(bounds.start.astimezone(UTC), bounds.end.astimezone(UTC), key, zone)


def window_of(partitions_def: dg.TimeWindowPartitionsDefinition, key: str, table_name: str = "") -> Window:
    """The window of a partition key; raises IncrementalLoadError if the definition does not have the key."""
    # has_partition_key rejects malformed keys, but raises on some of them
    try:
        known = partitions_def.has_partition_key(key)
    except Exception:
        known = False
    if not known:
        first, last = partitions_def.get_first_partition_key(), partitions_def.get_last_partition_key()
        raise IncrementalLoadError(
            f"{table_name or 'table'}: there is no partition {key!r}",
            rule=f"partition keys run from {first} to {last}, in the format {partitions_def.fmt}",
            remedy="use a key in that range, or change the start of the partitions definition",
        )
    return window_between(partitions_def, partitions_def.time_window_for_partition_key(key), key)


def first_window(partitions_def: dg.TimeWindowPartitionsDefinition, table_name: str = "") -> Window:
    """The first window of a definition; raises IncrementalLoadError if it has no windows yet."""
    return window_of(partitions_def, partitions_def.get_first_partition_key() or "", table_name)


def windows_at(partitions_def: dg.TimeWindowPartitionsDefinition, at: datetime) -> Sequence[Window]:
    """The windows that a definition has at an instant, oldest first.

    They are computed once for as long as no window is added, and definitions that differ in their start and end alone
    share them: twenty thousand take a tenth of a second.
    """
    with dg.partition_loading_context(at):
        bounds = partitions_def.get_last_partition_window()
    if bounds is None:
        return ()
    first, last = partitions_def.start.astimezone(UTC), bounds.start.astimezone(UTC)
    calendar = (
        partitions_def.cron_schedule, partitions_def.timezone, partitions_def.fmt, *(partitions_def.exclusions or ()),
    )  # fmt: skip
    with _keeping:
        origin, windows = _kept.get(calendar, (partitions_def, ()))
    if not windows or first < origin.start.astimezone(UTC) or windows[-1].start < last:
        origin = min(origin, partitions_def, key=lambda definition: definition.start.timestamp())
        windows = _windows_until(origin, max(last, windows[-1].start) if windows else last)
        _keep(calendar, origin, windows)
    begin = bisect_left(windows, first, key=_start)
    return windows[begin : bisect_left(windows, last, key=_start) + 1]


def _start(window: Window) -> datetime:
    return window.start


def _windows_until(partitions_def: dg.TimeWindowPartitionsDefinition, last: datetime) -> tuple[Window, ...]:
    found: list[Window] = []
    for key, bounds in time_windows_of(partitions_def):
        found.append(window_between(partitions_def, bounds, key))
        if found[-1].start >= last:
            break
    return tuple(found)


_kept: dict[Hashable, tuple[dg.TimeWindowPartitionsDefinition, tuple[Window, ...]]] = {}
"""The windows of each calendar, since the start of a definition."""
_keeping = Lock()


def _keep(calendar: Hashable, origin: dg.TimeWindowPartitionsDefinition, windows: tuple[Window, ...]) -> None:
    with _keeping:
        _kept.pop(calendar, None)
        while _kept and sum(len(kept) for _, kept in _kept.values()) + len(windows) > KEPT:
            del _kept[next(iter(_kept))]  # the one that was computed first
        _kept[calendar] = origin, windows


def known_windows(partitions_def: dg.TimeWindowPartitionsDefinition, keys: Iterable[str]) -> list[Window]:
    """The windows of the given keys, oldest first; keys that the definition no longer has are ignored."""
    left, found = {*keys}, list[Window]()
    if len(left) > FEW:  # each by itself takes a tenth of a millisecond
        found = [window for window in windows_at(partitions_def, now()) if window.key in left]
        left -= {window.key for window in found}
    for key in left:
        with suppress(IncrementalLoadError):
            found.append(window_of(partitions_def, key))
    return sorted(found) if left else found


def now() -> datetime:
    """The present instant, aware, UTC."""
    return datetime.now(UTC)
