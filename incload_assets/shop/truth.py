"""The expected content of tables, computed from what the shop sent and independent of the loader."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from incload_assets.shop.feed import Delivery, ExportFeed, Feed, Record, RecordFeed

Key = tuple[Any, ...]


@dataclass(frozen=True)
class Truth:
    """The expected content of one table: rows by key, and numbers of rejected records by partition key, if any.

    Values are in Python's types, instants aware and in UTC.
    """

    rows: dict[Key, dict[str, Any]]
    quarantined: dict[str, int]


def truth(feed: Feed, deliveries: Iterable[Delivery]) -> Truth:
    """The expected content of a table after its files are loaded.

    * For a stream of records, the newest version of each file counts: for each key the change with the greatest
      sequence, unless that is a delete.
    * For full extracts, the newest valid one counts, if it was loaded before it was replaced. The load of an invalid
      one stops as a whole: none of its records is quarantined.

    Raises AssertionError if the generator sent two different changes with the same sequence: no content is right.
    """
    if isinstance(feed, ExportFeed):
        return _exported(feed, deliveries)
    assert isinstance(feed, RecordFeed)
    return _folded(feed, deliveries)


def _exported(feed: ExportFeed, deliveries: Iterable[Delivery]) -> Truth:
    good = [delivery for delivery in deliveries if all(record.row is not None for record in delivery.records)]
    newest = max(good, key=lambda delivery: delivery.due).records if good else ()
    rows = (dict(record.row or {}) for record in newest)
    return Truth({tuple(row[column] for column in feed.keys): row for row in rows}, {})


def _folded(feed: RecordFeed, deliveries: Iterable[Delivery]) -> Truth:
    newest = {delivery.path: delivery for delivery in sorted(deliveries, key=lambda delivery: delivery.due)}
    last: dict[Key, tuple[Key, Record]] = {}
    quarantined: Counter[str] = Counter()
    for delivery in newest.values():
        for record in delivery.records:
            if record.row is None:
                quarantined[delivery.partition] += 1
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
