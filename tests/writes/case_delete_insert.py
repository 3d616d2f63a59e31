"""DeleteInsert: of each group the newest set, unless it is a delete."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from incload_assets.assets import Changes, DeleteInsert
from incload_assets.trial.literal_source import Record
from tests.support.tables import DatedItem, Loaded, day
from tests.writes.case import Case, Content, Order, crowds


def newest_sets(content: Mapping[str, Sequence[Record]], order: Order) -> set[tuple[Any, ...]]:
    """Gather what came together, sort, keep the last: rows, and how often each stands there."""
    sets: dict[tuple[Any, ...], list[Record]] = {}
    for window, records in content.items():
        for record in records:
            sets.setdefault((record["id"], *order(record)[:-1], window), []).append(record)

    def age(place: tuple[Any, ...]) -> tuple[Any, ...]:
        _, some, seq, is_delete, _ = place
        return some, seq, is_delete, 0 if is_delete else sum(order(record)[-1] for record in sets[place])

    last = {place[0]: sets[place] for place in sorted(sets, key=age)}
    rows = (_row(r) for records in last.values() for r in records if r["op"] != "d")
    return {(*row, count) for row, count in Counter(rows).items()}


def _row(r: Record) -> tuple[Any, ...]:
    known = (r["id"], r["value"], r["seq"] and int(r["seq"]))
    return (*known, date.fromisoformat(r["day"])) if r.get("day") else known


def held(table: Loaded) -> set[tuple[Any, ...]]:
    """The table's rows, and how often each stands there."""
    delta = table.lake.delta(table.uri)
    assert delta is not None
    rows = delta.to_pyarrow_table(columns=list(table.table.columns)).to_pylist()
    return {(*row, count) for row, count in Counter(tuple(row.values()) for row in rows).items()}


def dated(content: Content) -> Content:
    """Each group belongs to one of two days."""
    return {key: [{**r, "day": day(1 + len(r["id"] or "") % 2)} for r in rows] for key, rows in content.items()}


changes = Changes(sequence_by=["seq"], delete_when="op = 'd'")
DELETE_INSERT = Case("delete_insert", DeleteInsert(by=["id"]), newest_sets, changes=changes, rows=held)
DELETE_INSERT_PARTITIONED = Case(
    "delete_insert_partitioned",
    DeleteInsert(by=["id", "day"], partition_by="day"),
    newest_sets,
    contract=DatedItem,
    changes=changes,
    contents=crowds().map(dated),
    rows=held,
    daily=False,
)
