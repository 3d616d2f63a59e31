"""Windows of a Kafka topic: ranges of offsets from one window bound to the next, without gaps or overlaps.

The times of records are only used to choose a bound, before it is stored. A record that comes late, or is dated in the
future, belongs to the window of its offset.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from incload_assets.declaration.source import Position
from incload_assets.declaration.window import Window
from incload_assets.platform.errors import SourceUnreadable
from incload_assets.platform.lake import Lake
from incload_assets.platform.wording import several
from incload_assets.sources.kafka.topic import Identity, Offsets, TopicMetadata, least_calls
from incload_assets.sources.window_bounds import Bound, WindowBounds

BYTES_PER_RECORD = 500
"""A guess, because Kafka reports the number of records but not their size."""

Ranges = Mapping[int, tuple[int, int]]
"""First offset, and the offset after the last one, by topic partition."""


@dataclass(frozen=True)
class Chooser:
    """Chooser of window bounds, see :data:`~incload_assets.sources.window_bounds.Choose`.

    The window that begins at ``first`` begins with the topic's oldest record. No bound lies before offsets up to which
    a window was ingested, by the window's end.
    """

    look: TopicMetadata
    first: datetime | None
    ingested: Mapping[datetime, Offsets]
    now: datetime

    def __call__(self, missing: Sequence[datetime], known: Mapping[datetime, Bound]) -> dict[datetime, Bound]:
        """The bounds to store, each between the known bounds before and after it."""
        bounds = {at: offsets_of(bound) for at, bound in known.items()}
        wanted = self._wanted([at for at in missing if at <= self.now])
        for at, offsets in wanted.items():
            before, after = (
                max((t for t in bounds if t < at), default=None),
                min((t for t in bounds if t > at), default=None),
            )
            lowest = {**self.ingested.get(at, {})}
            if before is not None:
                lowest = _highest(lowest, bounds[before])
            bound = _highest(offsets, lowest)
            if after is not None:  # topic partitions that are missing there were added later
                bound = {p: min(offset, bounds[after][p]) for p, offset in bound.items() if p in bounds[after]}
            bounds[at] = bound
        identity = self.look.identity
        return {
            at: {"cluster": identity.cluster, "topic": identity.topic, "offsets": _named(bounds[at])} for at in wanted
        }

    def _wanted(self, instants: Sequence[datetime]) -> dict[datetime, Offsets]:
        """The bounds by the records' times alone, ascending."""
        found = least_calls([at for at in instants if at != self.first], self.look.first_since) if instants else {}
        ends, now = self.look.ends(), round(self.now.timestamp() * 1000)
        # a record dated in the future says nothing about the arrival of the records after it
        wanted: dict[datetime, Offsets] = {
            at: {p: records[p].offset if p in records and records[p].time <= now else end for p, end in ends.items()}
            for at, records in found.items()
        }
        if self.first is not None and self.first in instants:
            wanted[self.first] = self.look.starts()
        return dict(sorted(wanted.items()))


def positions(
    table_name: str, look: TopicMetadata, lake: Lake, windows: Sequence[Window], chooser: Chooser
) -> dict[str, Position]:
    """The position of each window that has ended, or has begun and has records; the lake stores the window bounds."""
    begun = [window for window in windows if window.start <= chooser.now]
    if not begun:
        return {}
    written = WindowBounds(lake, table_name).at(
        [at for w in begun for at in (w.start, w.end) if at <= chooser.now], chooser
    )
    for bound in written.values():
        check_identity(table_name, look, Identity(bound["cluster"], bound["topic"]))
    ends, found = look.ends(), {}
    for window in begun:
        begin = offsets_of(written[window.start])
        stored = written.get(window.end)
        end = ends if stored is None else offsets_of(stored)
        if lost := sorted(p for p, offset in begin.items() if ends.get(p, 0) < offset):
            raise SourceUnreadable(
                f"{table_name} {window.key}: partition {lost[0]} of {look.place} ends at offset "
                f"{ends.get(lost[0], 0)}, "
                f"before {begin[lost[0]]}, where the window begins",
                rule="a log only grows at its end, and never loses records there",
                remedy="find out what the cluster lost; windows ingested before stay as they are",
            )
        ranges = {p: (begin.get(p, 0), offset) for p, offset in sorted(end.items()) if offset > begin.get(p, 0)}
        if ranges or stored is not None:
            found[window.key] = position_of(look.identity, ranges, closed=stored is not None)
    return found


def check_identity(table_name: str, look: TopicMetadata, expected: Identity) -> None:
    """Refuses a topic of the same name that is not the one that was read before."""
    if look.identity == expected:
        return
    other = "cluster" if look.identity.cluster != expected.cluster else "topic"
    raise SourceUnreadable(
        f"{table_name}: the {look.place} is not the one that was loaded: {other} id {getattr(look.identity, other)}, "
        f"formerly {getattr(expected, other)}",
        rule="offsets are only valid in one log, and a recreated topic is another log",
        remedy="declare a table with another name for the new topic, or restore the old topic",
    )


def offsets_of(bound: Mapping[str, Any]) -> dict[int, int]:
    """The offsets of a window bound, by topic partition."""
    return {int(partition): offset for partition, offset in bound["offsets"].items()}


def ranges_of(position: Position) -> dict[int, tuple[int, int]]:
    """The offset ranges of a position, by topic partition; empty if it has none."""
    return {int(p): (begin, end) for p, (begin, end) in position.detail.get("offsets", {}).items()}


def identity_of(position: Position) -> Identity:
    """The identity of the log of a position that has offsets."""
    return Identity(position.detail["cluster"], position.detail["topic"])


def position_of(identity: Identity, ranges: Ranges, *, closed: bool) -> Position:
    """The position of a window with ranges of offsets, for partitions with records; ``closed``: its end is stored."""
    offsets = _named({partition: list(ends) for partition, ends in ranges.items()})
    detail = {"cluster": identity.cluster, "topic": identity.topic, "offsets": offsets}
    content = json.dumps(detail, sort_keys=True).encode()
    count = sum(end - begin for begin, end in ranges.values())
    return Position(
        fingerprint=hashlib.blake2b(content, digest_size=8).hexdigest(),
        detail={**detail, "count": count, "closed": closed},
        summary=f"{several(count, 'offset')} in {several(len(ranges), 'topic partition')}",
        size=count * BYTES_PER_RECORD,
    )


def gained_offsets(before: Position, now: Position) -> Position | None:
    """The offsets that a window has gained; None if it does not begin where it began before, or has lost some."""
    old, new = ranges_of(before), ranges_of(now)
    if not old or identity_of(before) != identity_of(now) or not old.keys() <= new.keys():
        return None
    if any(new[p][0] != begin or new[p][1] < end for p, (begin, end) in old.items()):
        return None
    since = {p: (old[p][1] if p in old else begin, end) for p, (begin, end) in new.items()}
    more = {p: (begin, end) for p, (begin, end) in since.items() if begin < end}
    return position_of(identity_of(now), more, closed=False) if more else None


def chunks_of(position: Position, number: int, known: Sequence[Position] = ()) -> list[Position]:
    """Positions of about ``number`` chunks; ``known`` ones of the same log stay as they are, within the position.

    Of known chunks that overlap the first stays.
    """
    ranges = ranges_of(position)
    if not ranges:
        return []
    identity = identity_of(position)
    kept: list[Position] = []
    for one in known:
        parts = ranges_of(one)
        inside = all(p in ranges and ranges[p][0] <= begin and end <= ranges[p][1] for p, (begin, end) in parts.items())
        if identity_of(one) == identity and inside and not any(_overlap(parts, ranges_of(other)) for other in kept):
            kept.append(one)
    most = max(1, -(-sum(end - begin for begin, end in ranges.values()) // number))
    chunk: dict[int, tuple[int, int]] = {}
    chunks = []
    for partition, (begin, end) in ranges.items():
        taken = sorted(ranges_of(one)[partition] for one in kept if partition in ranges_of(one))
        for until, then in [*taken, (end, end)]:
            while begin < until:
                room = most - sum(last - first for first, last in chunk.values())
                if room <= 0 or partition in chunk:
                    chunks.append(position_of(identity, chunk, closed=True))
                    chunk, room = {}, most
                chunk[partition] = (begin, min(begin + room, until))
                begin = chunk[partition][1]
            begin = then
    return [*kept, *chunks, *([position_of(identity, chunk, closed=True)] if chunk else [])]


def _overlap(left: Ranges, right: Ranges) -> bool:
    return any(left[p][0] < right[p][1] and right[p][0] < left[p][1] for p in left.keys() & right.keys())


def _highest(left: Offsets, right: Offsets) -> dict[int, int]:
    return {p: max(left.get(p, 0), right.get(p, 0)) for p in (*left, *right)}


def _named(per_partition: Mapping[int, Any]) -> dict[str, Any]:
    """Values by topic partition as a JSON object, whose keys must be strings."""
    return {str(partition): value for partition, value in sorted(per_partition.items())}
