"""Merge of changes that set only some columns, with deletes and truncates: each column has its newest value."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pandera.pyspark as pa
import pyspark.sql.types as T
from hypothesis import strategies as st

from incload_assets.assets import Merge
from incload_assets.declaration.changes import Changes
from incload_assets.trial.literal_source import Record
from tests.support.tables import Item, item
from tests.writes.case import Case, Content, Order, crowds

OLDEST = -(2**63)
CHANGES = Changes(keys=["id"], sequence_by=["seq"], delete_when="op = 'd'", truncate_when="op = 't'")


class TwoValues(Item):
    """An item with a second value, which it cannot be without."""

    other: T.StringType = pa.Field(nullable=False)


@st.composite
def truncated_crowds(draw: st.DrawFn) -> Content:
    """Crowds, and in half of the contents one or two truncates that are older than some changes."""
    content = draw(crowds())
    chance = Random(draw(st.integers(0, 2**32)))
    for _ in range(chance.choice([0, 0, 1, 2])):
        content[chance.choice(sorted(content))].append(item(None, None, chance.randint(0, 3), "t"))
    return content


@st.composite
def partial_crowds(draw: st.DrawFn, of: st.SearchStrategy[Content]) -> Content:
    """The same, but each upsert sets the first value, the second one, both or neither."""
    content = draw(of)
    chance = Random(draw(st.integers(0, 2**32)))
    for record in (r for records in content.values() for r in records if r["op"] == "u"):
        if chance.random() < 0.5:
            del record["value"]
        if chance.random() < 0.5:
            record["other"] = chance.choice("xy")
    return content


def histories(content: Mapping[str, Sequence[Record]], order: Order) -> dict[str, list[Record]]:
    """Each key's changes and the truncates, oldest first."""

    def age(record: Record) -> Any:
        seq = record["seq"]
        return order(record) if record["op"] != "t" else (True, int(seq or 0), False, OLDEST)

    records = [record for batch in content.values() for record in batch]
    keys = {str(record["id"]) for record in records if record["op"] != "t"}
    return {key: sorted((r for r in records if r["op"] == "t" or r["id"] == key), key=age) for key in keys}


def newest_values(content: Mapping[str, Sequence[Record]], order: Order) -> set[tuple[Any, ...]]:
    """Sort, fold column by column."""
    table = set()
    for key, history in histories(content, order).items():
        known: Record = {}
        for record in history:
            known = {} if record["op"] != "u" else known | record
        if known.get("other") is not None:
            table.add((key, known.get("value"), known["seq"] and int(known["seq"]), known["other"]))
    return table


MERGE_PARTIAL = Case(
    "merge_partial",
    Merge(partial=True),
    newest_values,
    columns=("id", "value", "seq", "other"),
    contract=TwoValues,
    changes=CHANGES,
    contents=partial_crowds(truncated_crowds()),
)
