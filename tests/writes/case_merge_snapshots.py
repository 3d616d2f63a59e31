"""Merge of changes with snapshots and truncates among them: what they do not have is deleted, unless it is newer."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from hypothesis import strategies as st

from incload_assets.assets import Merge
from incload_assets.declaration.changes import Changes
from incload_assets.trial.literal_source import Record
from tests.support.tables import item
from tests.writes.case import Case, Content, Order
from tests.writes.case_merge_partial import truncated_crowds

CHANGES = Changes(
    keys=["id"], sequence_by=["seq"], delete_when="op = 'd'", truncate_when="op = 't'", snapshot_when="op = 's'"
)


@st.composite
def extracted_crowds(draw: st.DrawFn) -> Content:
    """Crowds, perhaps with truncates, and up to three snapshots of some of their keys, two perhaps of one window."""
    content = draw(truncated_crowds())
    chance = Random(draw(st.integers(0, 2**32)))
    keys = sorted(
        {str(record["id"]) for records in content.values() for record in records if record["id"]} | {"only there"}
    )
    for _ in range(chance.choice([0, 1, 2, 3])):
        seq, share = chance.randint(0, 4), chance.random()
        rows = [item(key, chance.choice("xyz"), seq, "s") for key in keys if chance.random() < share]
        content[chance.choice(sorted(content))] += rows
    return content


def newest(content: Mapping[str, Sequence[Record]], order: Order) -> set[tuple[Any, ...]]:
    """Sort, fold; and what is older than a snapshot goes."""
    records = [record for batch in content.values() for record in batch]
    taken = max((int(r["seq"] or 0) for r in records if r["op"] in "st"), default=-1)
    table = {str(r["id"]): r for r in sorted((r for r in records if r["op"] != "t"), key=order)}
    return {
        (key, r["value"], None if r["seq"] is None else int(r["seq"]))
        for key, r in table.items()
        if r["op"] != "d" and (-1 if r["seq"] is None else int(r["seq"])) >= taken
    }


MERGE_SNAPSHOTS = Case(
    "merge_snapshots",
    Merge(max_shrink=1.0, buckets=3),
    newest,
    columns=("id", "value", "seq"),
    changes=CHANGES,
    contents=extracted_crowds(),
)
