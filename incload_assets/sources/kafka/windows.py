"""Windows of a Kafka topic: from one cut to the next, offset by offset, so that no record falls between two of them.

What a record says of its time only helps to find a cut when it is written down. A record that comes late, or is dated
in the future, is in the window that its offset is in.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from incload_assets.declaration.source import Position
from incload_assets.declaration.window import Window
from incload_assets.sources.kafka.topic import Identity, Offsets, TopicMetadata, least_calls
from incload_assets.sources.window_bounds import Bound, WindowBounds
from resources.errors import SourceUnreadable
from resources.lake import Lake

BYTES_PER_RECORD = 500
"""A guess: Kafka tells how many records there are, not how large they are."""

Ranges = Mapping[int, tuple[int, int]]
"""Per topic partition the first offset and the one after the last."""


@dataclass(frozen=True)
class Chooser:
    """Finds cuts, as :data:`~incload_assets.sources.window_bounds.Choose` has it.

    Args:
        look: At the topic.
        first: The start of the table's first window: whatever the topic holds by then or since is in a window.
        ingested: Up to where the windows that end at an instant were ingested: no cut takes that back.
        now: The present instant.
    """

    look: TopicMetadata
    first: datetime | None
    ingested: Mapping[datetime, Offsets]
    now: datetime

    def __call__(self, missing: Sequence[datetime], known: Mapping[datetime, Bound]) -> dict[datetime, Bound]:
        """The cuts to write, between those there are."""
        cuts = {at: offsets_of(cut) for at, cut in known.items()}
        wanted = self._wanted([at for at in missing if at <= self.now])
        for at, offsets in wanted.items():
            before, after = (
                max((t for t in cuts if t < at), default=None),
                min((t for t in cuts if t > at), default=None),
            )
            lowest = {**self.ingested.get(at, {})}
            if before is not None:
                lowest = _highest(lowest, cuts[before])
            cut = _highest(offsets, lowest)
            if after is not None:  # a topic partition that came later was not there yet
                cut = {p: min(offset, cuts[after][p]) for p, offset in cut.items() if p in cuts[after]}
            cuts[at] = cut
        identity = self.look.identity
        return {
            at: {"cluster": identity.cluster, "topic": identity.topic, "offsets": _named(cuts[at])} for at in wanted
        }

    def _wanted(self, instants: Sequence[datetime]) -> dict[datetime, Offsets]:
        """Where the cuts would be by the records' times, ascending."""
        found = least_calls([at for at in instants if at != self.first], self.look.first_since) if instants else {}
        ends, now = self.look.ends(), round(self.now.timestamp() * 1000)
        # the first record that is not older tells nothing if it is dated in the future
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
    """The position of each window that has begun; of one that has not ended yet, where it has records.

    Args:
        table_name: The asset's name.
        look: At the topic.
        lake: Where cuts are written down.
        windows: Which.
        chooser: For the cuts that are not there yet.

    Raises:
        SourceUnreadable: The topic is not the one that the cuts are of, or lost what it had at its end.
        IncrementalLoadError: The cluster does not answer, or refuses.
    """
    begun = [window for window in windows if window.start <= chooser.now]
    if not begun:
        return {}
    written = WindowBounds(lake, table_name).at(
        [at for w in begun for at in (w.start, w.end) if at <= chooser.now], chooser
    )
    for found_cut in written.values():
        check_identity(table_name, look, Identity(found_cut["cluster"], found_cut["topic"]))
    ends, found = look.ends(), {}
    for window in begun:
        begin = offsets_of(written[window.start])
        cut = written.get(window.end)
        end = ends if cut is None else offsets_of(cut)
        if lost := sorted(p for p, offset in begin.items() if ends.get(p, 0) < offset):
            raise SourceUnreadable(
                f"{table_name} {window.key}: partition {lost[0]} of {look.place} ends at offset "
                f"{ends.get(lost[0], 0)}, "
                f"before {begin[lost[0]]}, where the window begins",
                rule="a log grows at its end and loses nothing there",
                remedy="find out what the cluster lost; windows ingested before stay as they are",
            )
        ranges = {p: (begin.get(p, 0), offset) for p, offset in sorted(end.items()) if offset > begin.get(p, 0)}
        if ranges or cut is not None:
            found[window.key] = position_of(look.identity, ranges, closed=cut is not None)
    return found


def check_identity(table_name: str, look: TopicMetadata, expected: Identity) -> None:
    """Refuse a topic that is not the one which was read before.

    Raises:
        SourceUnreadable: It is another one of the same name.
    """
    if look.identity == expected:
        return
    other = "cluster" if look.identity.cluster != expected.cluster else "topic"
    raise SourceUnreadable(
        f"{table_name}: the {look.place} is not the one that was loaded: {other} id {getattr(look.identity, other)}, "
        f"formerly {getattr(expected, other)}",
        rule="offsets mean something in one log only, and a topic that is made again is another log",
        remedy="declare a table of another name for the new topic, or bring the old one back",
    )


def offsets_of(cut: Mapping[str, Any]) -> dict[int, int]:
    """The offsets of a cut."""
    return {int(partition): offset for partition, offset in cut["offsets"].items()}


def ranges_of(position: Position) -> dict[int, tuple[int, int]]:
    """The offsets of a position, where it has any."""
    return {int(p): (begin, end) for p, (begin, end) in position.detail.get("offsets", {}).items()}


def identity_of(position: Position) -> Identity:
    """The log that a position, which has offsets, is of."""
    return Identity(position.detail["cluster"], position.detail["topic"])


def position_of(identity: Identity, ranges: Ranges, *, closed: bool) -> Position:
    """A window's position.

    Args:
        identity: Of the log.
        ranges: Of the topic partitions with records.
        closed: Whether the window's end is written down.
    """
    offsets = _named({partition: list(ends) for partition, ends in ranges.items()})
    detail = {"cluster": identity.cluster, "topic": identity.topic, "offsets": offsets}
    told = json.dumps(detail, sort_keys=True).encode()
    count = sum(end - begin for begin, end in ranges.values())
    return Position(
        fingerprint=hashlib.blake2b(told, digest_size=8).hexdigest(),
        detail={**detail, "count": count, "closed": closed},
        summary=f"{count} offsets in {len(ranges)} topic partition{'' if len(ranges) == 1 else 's'}",
        size=count * BYTES_PER_RECORD,
    )


def _highest(left: Offsets, right: Offsets) -> dict[int, int]:
    return {p: max(left.get(p, 0), right.get(p, 0)) for p in (*left, *right)}


def _named(per_partition: Mapping[int, Any]) -> dict[str, Any]:
    """JSON has names, not numbers, for the members of an object."""
    return {str(partition): value for partition, value in sorted(per_partition.items())}
