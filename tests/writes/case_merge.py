"""Merge: the newest change of each key, unless it is a delete."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from incload_assets.assets import Merge
from tests.support.literal_source import Record
from tests.support.oracle import Row, fold
from tests.writes.case import Case, Order


def newest_of(records: Iterable[Record], keys: Sequence[str], order: Order) -> Collection[Row]:
    """Of each key the newest change, unless it is a delete; its sequence is a number."""
    rows = [{**r, "seq": r["seq"] and int(r["seq"]), "hash": order(r)[-1]} for r in records]
    return fold(rows, keys, ["seq"], lambda row: row["op"] == "d", lambda row: row["hash"]).values()


def newest(content: Mapping[str, Sequence[Record]], order: Order) -> set[tuple[Any, ...]]:
    """Sort, fold."""
    every = (record for records in content.values() for record in records)
    return {(row["id"], row["value"], row["seq"]) for row in newest_of(every, ["id"], order)}


MERGE = Case("merge", Merge(), newest)
