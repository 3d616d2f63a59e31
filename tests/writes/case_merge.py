"""Merge: the newest change of each key, unless it is a delete."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from incload_assets.assets import Merge
from incload_assets.trial.literal_source import Record
from incload_assets.trial.oracle import Row, fold
from tests.writes.case import Case, Order, every, hash_of, hashed, is_delete


def newest_of(records: Iterable[Record], keys: Sequence[str], order: Order) -> Collection[Row]:
    """Of each key the newest change, unless it is a delete; its sequence is a number."""
    return fold(hashed(records, order), keys, ["seq"], is_delete, hash_of).values()


def newest(content: Mapping[str, Sequence[Record]], order: Order) -> set[tuple[Any, ...]]:
    """Sort, fold."""
    return {(row["id"], row["value"], row["seq"]) for row in newest_of(every(content), ["id"], order)}


MERGE = Case("merge", Merge(), newest)
