"""Fold: sums, extremes and last states of what all windows say."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import pandera.pyspark as pa
import pyspark.sql.types as T
from hypothesis import strategies as st

from incload_assets.assets import Changes, Fold
from incload_assets.trial.literal_source import Record
from tests.support.tables import Item, day, item
from tests.writes.case import WINDOWS, Case, Content, Order


class Tally(Item):
    """An item with something to count."""

    amount: T.LongType = pa.Field(nullable=True)
    least: T.StringType = pa.Field(nullable=True)


def folded(content: Mapping[str, Sequence[Record]], order: Order) -> set[tuple[Any, ...]]:
    """Group, sort, add."""
    of_key: dict[str | None, list[Record]] = defaultdict(list)
    for records in content.values():
        for record in records:
            of_key[record["id"]].append(record)
    found = set()
    for id, records in of_key.items():
        newest = max(records, key=order)
        amounts = [int(r["amount"]) for r in records if r["amount"] is not None]
        least = [r["least"] for r in records if r["least"] is not None]
        seq = newest["seq"] and int(newest["seq"])
        found.add((id, newest["value"], seq, sum(amounts) if amounts else None, min(least, default=None)))
    return found


def _row() -> st.SearchStrategy[Record]:
    return st.builds(
        item,
        st.integers(1, 12).map(str),
        st.sampled_from(["a", "b", "", None]),
        st.none() | st.integers(0, 3),
        amount=st.none() | st.integers(-3, 3).map(str),
        least=st.sampled_from(["x", "y", None]),
    )


CONTENTS: st.SearchStrategy[Content] = st.fixed_dictionaries(
    {day(n): st.lists(_row(), max_size=20) for n in range(1, WINDOWS + 1)}
)

FOLD = Case(
    "fold",
    Fold(sums=["amount"], mins=["least"]),
    folded,
    contract=Tally,
    changes=Changes(keys=["id"], sequence_by=["seq"]),
    contents=CONTENTS,
)
