"""Merge: the newest change of each key, unless it is a delete."""

from collections.abc import Mapping, Sequence
from typing import Any

from incload_assets.loading import Merge
from tests.loading.literal_source import Record
from tests.loading.writes.case import Case, Order


def newest(content: Mapping[str, Sequence[Record]], order: Order) -> set[tuple[Any, ...]]:
    """Sort, fold."""
    last = {r["id"]: r for r in sorted((r for records in content.values() for r in records), key=order)}
    return {(r["id"], r["value"], r["seq"] and int(r["seq"])) for r in last.values() if r["op"] != "d"}


MERGE = Case("merge", Merge(), newest)
