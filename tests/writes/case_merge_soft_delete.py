"""Merge with soft deletes and truncates: a deleted row stays, with the sequence of its deletion."""

from collections.abc import Mapping, Sequence
from typing import Any

from incload_assets.assets import Merge
from incload_assets.trial.literal_source import Record
from tests.writes.case import Case, Order
from tests.writes.case_merge_partial import CHANGES, histories, truncated_crowds


def marked(content: Mapping[str, Sequence[Record]], order: Order) -> set[tuple[Any, ...]]:
    """Sort, fold, but keep what is deleted."""
    table = {}
    for key, history in histories(content, order).items():
        for record in history:
            seq = record["seq"] and int(record["seq"])
            if record["op"] == "u":
                table[key] = (key, record["value"], seq, False)
            elif key in table:
                table[key] = (key, table[key][1], seq, True)
    return set(table.values())


MERGE_SOFT_DELETE = Case(
    "merge_soft_delete",
    Merge(soft_delete="is_deleted"),
    marked,
    columns=("id", "value", "seq", "is_deleted"),
    changes=CHANGES,
    contents=truncated_crowds(),
)
