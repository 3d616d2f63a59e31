"""What the tables have to hold, known from what the shop did and not from how it is loaded."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from incload_assets.shop.feed import Delivery, Feed, Record

Key = tuple[Any, ...]


@dataclass(frozen=True)
class Truth:
    """The right content of one table.

    Args:
        rows: Row by key; values in Python's types, instants aware and in UTC.
        quarantined: Records the contract rejects, by partition key; partitions without any are left out.
    """

    rows: dict[Key, dict[str, Any]]
    quarantined: dict[str, int]


def truth(feed: Feed, deliveries: Iterable[Delivery]) -> Truth:
    """Fold the newest version of each file: per key the change with the greatest sequence, unless that deletes.

    Raises:
        AssertionError: The generator sent two different changes with one sequence, so that no content is right.
    """
    newest = {delivery.path: delivery for delivery in sorted(deliveries, key=lambda delivery: delivery.due)}
    last: dict[Key, tuple[Key, Record]] = {}
    quarantined: Counter[str] = Counter()
    for delivery in newest.values():
        for record in delivery.records:
            if record.row is None:
                quarantined[delivery.window.isoformat()] += 1
                continue
            key = tuple(record.row[column] for column in feed.keys)
            sequence = tuple(record.row[column] for column in feed.sequence)
            held = last.get(key)
            if held and held[0] == sequence:
                same = (held[1].row, held[1].delete) == (record.row, record.delete)
                assert same, f"{feed.table}: two different changes of {key} at {sequence}"
            if held is None or held[0] < sequence:
                last[key] = (sequence, record)
    rows = {key: dict(record.row) for key, (_, record) in last.items() if record.row and not record.delete}
    return Truth(rows, dict(quarantined))
