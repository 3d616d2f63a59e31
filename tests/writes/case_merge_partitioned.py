"""Merge of events: the newest change of each key and day; a key whose day moves within a window is quarantined."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from incload_assets.assets import Merge
from incload_assets.trial.literal_source import Record
from tests.support.tables import DatedItem, day
from tests.writes.case import Case, Content, Order, crowds
from tests.writes.case_merge import newest_of


def newest_by_day(content: Mapping[str, Sequence[Record]], order: Order) -> set[tuple[Any, ...]]:
    """Leave out keys with two days in a window; sort, fold."""
    good = [
        record
        for records in content.values()
        for record in records
        if len({other["day"] for other in records if other["id"] == record["id"]}) == 1
    ]
    last = newest_of(good, ["id", "day"], order)
    return {(row["id"], row["value"], row["seq"], date.fromisoformat(row["day"])) for row in last}


def dated(content: Content) -> Content:
    """The events of two streams in three keep their day, those of the third move from window to window, or within."""

    def day_of(record: Record, window: int) -> str:
        stream, _, key = str(record["id"]).partition("/")
        moves = window + (key == "3") * len(record["value"] or "")
        return day(1 + (moves if int(stream) % 3 == 0 else int(stream)) % 3)

    return {
        window: [{**record, "day": day_of(record, number)} for record in records]
        for number, (window, records) in enumerate(content.items())
    }


MERGE_PARTITIONED = Case(
    "merge_partitioned",
    Merge(partition_by="day"),
    newest_by_day,
    columns=("id", "value", "seq", "day"),
    contract=DatedItem,
    contents=crowds().map(dated),
)
