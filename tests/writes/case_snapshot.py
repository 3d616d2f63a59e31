"""Snapshot: the newest extract, where bad rows say nothing."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from incload_assets.assets import Changes, Snapshot
from incload_assets.trial.literal_source import Record
from tests.support.tables import GoodItem, day, item
from tests.writes.case import WINDOWS, Case, Content, Order

KEYS = 40


def _contents() -> st.SearchStrategy[Content]:
    """Extracts with few values, so that equal rows are frequent; a key may come twice, and every tenth row is bad."""
    row = st.builds(
        item,
        st.integers(1, KEYS).map(str),
        st.sampled_from(["a", "b", "", None]),
        st.none() | st.integers(0, 2),
    )
    bad = st.builds(item, st.none() | st.integers(1, KEYS).map(str), st.just("bad"), st.just(1))

    @st.composite
    def extract(draw: st.DrawFn) -> list[Record]:
        rows = draw(st.lists(row, min_size=draw(st.sampled_from([0, 20])), max_size=60))
        return draw(st.permutations(rows + draw(st.lists(bad, max_size=len(rows) // 10))))

    return st.fixed_dictionaries({day(n): extract() for n in range(1, WINDOWS + 1)})


def _oracle(
    *, delete_missing: bool, sequence: bool
) -> Callable[[Mapping[str, Sequence[Record]], Order], set[tuple[Any, ...]]]:
    def expected(content: Mapping[str, Sequence[Record]], order: Order) -> set[tuple[Any, ...]]:
        table: dict[str | None, Record] = {}
        for window in sorted(content):
            good = [r for r in content[window] if r["value"] != "bad"]
            bad = {r["id"] for r in content[window] if r["value"] == "bad"}
            if delete_missing and None not in bad:
                table = {key: row for key, row in table.items() if key in bad}
            table |= {r["id"]: r for r in sorted(good, key=lambda r: order(r) if sequence else order(r)[-1])}
        return {(r["id"], r["value"], r["seq"] and int(r["seq"])) for r in table.values()}

    return expected


SNAPSHOT = Case(
    "snapshot",
    Snapshot(max_shrink=1.0),
    _oracle(delete_missing=True, sequence=False),
    contract=GoodItem,
    changes=Changes(keys=["id"]),
    contents=_contents(),
)
SNAPSHOT_KEEPING = Case(
    "snapshot_keeping",
    Snapshot(delete_missing=False),
    _oracle(delete_missing=False, sequence=True),
    contract=GoodItem,
    changes=Changes(keys=["id"], sequence_by=["seq"]),
    contents=_contents(),
    daily=False,
)
