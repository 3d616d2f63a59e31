"""Append: the oldest content of each event, by key or by content."""

from collections.abc import Mapping, Sequence
from typing import Any

from incload_assets.assets import Append, Changes
from incload_assets.trial import oracle
from incload_assets.trial.literal_source import Record
from tests.writes.case import Case, Order, crowds, every, hash_of, hashed

Rows = set[tuple[Any, ...]]


def _row(r: Mapping[str, Any]) -> tuple[Any, ...]:
    return (r["id"], r["value"], r["seq"] and int(r["seq"]))


def oldest(content: Mapping[str, Sequence[Record]], order: Order, sequence: Sequence[str] = ("seq",)) -> Rows:
    """Of each event the oldest content."""
    return {_row(row) for row in oracle.oldest(hashed(every(content), order), ["id"], sequence, hash_of).values()}


def distinct(content: Mapping[str, Sequence[Record]], order: Order) -> Rows:
    """Each row once."""
    return {_row(r) for records in content.values() for r in records}


events = crowds(deletes=False)
APPEND = Case("append", Append(), oldest, changes=Changes(keys=["id"], sequence_by=["seq"]), contents=events)
APPEND_UNORDERED = Case(
    "append_unordered",
    Append(),
    lambda content, order: oldest(content, order, ()),
    changes=Changes(keys=["id"]),
    contents=events,
    daily=False,
)
APPEND_ROWS = Case("append_rows", Append(), distinct, changes=Changes(), contents=events)
