"""The half-open time window of a partition, in UTC."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

import dagster as dg

from incload_assets.platform.errors import IncrementalLoadError

FEW = 16
"""Number of partition keys up to which the bounds of each are computed by itself."""


@dataclass(frozen=True, order=True)
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


def known_windows(partitions_def: dg.TimeWindowPartitionsDefinition, keys: Iterable[str]) -> list[Window]:
    """The windows of the given keys, oldest first; keys that the definition no longer has are ignored."""
    left, found = list(keys), list[Window]()
    if len(left) > FEW:  # all bounds in one pass over the definition: each by itself takes milliseconds
        wanted = {*left}
        there = [key for key in partitions_def.get_partition_keys() if key in wanted]
        bounds = partitions_def.time_windows_for_partition_keys(frozenset(there), validate=False)
        found = [window_between(partitions_def, b, key) for key, b in zip(there, bounds, strict=True)]
        left = [*(wanted - {*there})]
    for key in left:
        with suppress(IncrementalLoadError):
            found.append(window_of(partitions_def, key))
    return sorted(found)


def now() -> datetime:
    """The present instant, aware, UTC."""
    return datetime.now(UTC)
