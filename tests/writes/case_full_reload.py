"""FullReload: what the newest window holds."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from incload_assets.assets import Changes, FullReload
from incload_assets.trial.literal_source import Record
from tests.support.tables import Loaded, day, item
from tests.writes.case import WINDOWS, Case, Content, Order


def counted(rows: Iterable[tuple[Any, ...]]) -> set[tuple[Any, ...]]:
    """Each row and how often it occurs."""
    return set(Counter(rows).items())


def held(table: Loaded) -> set[tuple[Any, ...]]:
    """The table's rows, counted."""
    delta = table.lake.delta(table.uri)
    assert delta is not None
    return counted(tuple(row[name] for name in table.table.columns) for row in delta.to_pyarrow_table().to_pylist())


def newest(content: Mapping[str, Sequence[Record]], order: Order) -> set[tuple[Any, ...]]:
    """The last in the order of windows."""
    return counted((r["id"], r["value"], r["seq"] and int(r["seq"])) for r in content[max(content)])


def _contents() -> st.SearchStrategy[Content]:
    row = st.builds(
        item, st.integers(1, 3).map(str), st.sampled_from(["a", "b", "", None]), st.none() | st.integers(0, 2)
    )
    return st.fixed_dictionaries({day(n): st.lists(row, max_size=30) for n in range(1, WINDOWS + 1)})


FULL_RELOAD = Case(
    "full_reload", FullReload(max_shrink=1.0), newest, changes=Changes(), contents=_contents(), rows=held
)
