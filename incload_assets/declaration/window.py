"""The half-open time window of a partition, in UTC."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

import dagster as dg

from resources.errors import IncrementalLoadError


@dataclass(frozen=True, order=True)
class Window:
    """``[start, end)`` of one partition.

    Args:
        start: First instant inside, aware, UTC.
        end: First instant after, aware, UTC.
        key: The Dagster partition key, for example ``2026-01-03``.
        zone: The time zone of the partitions definition.
    """

    start: datetime
    end: datetime
    key: str
    zone: tzinfo = field(default=UTC, compare=False)

    @property
    def local_start(self) -> datetime:
        """``start`` in the time zone of the partitions."""
        return self.start.astimezone(self.zone)


def window_between(partitions_def: dg.TimeWindowPartitionsDefinition, bounds: dg.TimeWindow, key: str) -> Window:
    """The window that Dagster gives these bounds."""
    zone = ZoneInfo(partitions_def.timezone)
    return Window(bounds.start.astimezone(UTC), bounds.end.astimezone(UTC), key, zone)


def window_of(partitions_def: dg.TimeWindowPartitionsDefinition, key: str, table_name: str = "") -> Window:
    """The window of a partition key.

    Raises:
        IncrementalLoadError: The key is not one of the definition.
    """
    # has_partition_key alone accepts nothing malformed, but raises on some malformed keys
    try:
        known = partitions_def.has_partition_key(key)
    except Exception:
        known = False
    if not known:
        first, last = partitions_def.get_first_partition_key(), partitions_def.get_last_partition_key()
        raise IncrementalLoadError(
            f"{table_name or 'table'}: there is no partition {key!r}",
            rule=f"partition keys run from {first} to {last}, as {partitions_def.fmt}",
            remedy="name a key in that range, or change the start of the partitions definition",
        )
    return window_between(partitions_def, partitions_def.time_window_for_partition_key(key), key)


def first_window(partitions_def: dg.TimeWindowPartitionsDefinition, table_name: str = "") -> Window:
    """The first window of a definition.

    Raises:
        IncrementalLoadError: It has none yet.
    """
    return window_of(partitions_def, partitions_def.get_first_partition_key() or "", table_name)


def known_windows(partitions_def: dg.TimeWindowPartitionsDefinition, keys: Iterable[str]) -> list[Window]:
    """The windows of those of the keys that the definition has (still), oldest first."""
    found = []
    for key in keys:
        with suppress(IncrementalLoadError):
            found.append(window_of(partitions_def, key))
    return sorted(found)


def now() -> datetime:
    """The present instant, aware, UTC."""
    return datetime.now(UTC)
