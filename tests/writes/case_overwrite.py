"""Overwrite: each partition is what its window holds of its own."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from hypothesis import strategies as st

from incload_assets.assets import Changes, Overwrite
from incload_assets.trial.literal_source import Record
from tests.support.tables import DatedItem, day, item
from tests.writes.case import WINDOWS, Case, Content, Order
from tests.writes.case_full_reload import counted, held


def own(content: Mapping[str, Sequence[Record]], order: Order) -> set[tuple[Any, ...]]:
    """The rows whose day is the window's."""
    return counted(
        (r["id"], r["value"], r["seq"] and int(r["seq"]), date.fromisoformat(window))
        for window, records in content.items()
        for r in records
        if r["day"] == window
    )


@st.composite
def _contents(draw: st.DrawFn) -> Content:
    content: Content = {}
    for n in range(1, WINDOWS + 1):
        values, sequences = st.sampled_from(["a", "b", "", None]), st.none() | st.integers(0, 2)
        row = st.builds(item, st.integers(1, 3).map(str), values, sequences, day=st.just(day(n)))
        elsewhere = st.builds(item, st.just("1"), values, sequences, day=st.sampled_from([day(n - 1), day(n + 1)]))
        rows = draw(st.lists(row, max_size=30))
        content[day(n)] = draw(st.permutations(rows + draw(st.lists(elsewhere, max_size=len(rows) // 10))))
    return content


OVERWRITE = Case(
    "overwrite",
    Overwrite(partition_by="day"),
    own,
    contract=DatedItem,
    changes=Changes(),
    contents=_contents(),
    rows=held,
)
