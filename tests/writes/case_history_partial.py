"""History of changes that set only some columns: at each moment what a merge makes of the changes until then."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pandera.pyspark as pa
import pyspark.sql.types as T
from hypothesis import strategies as st

from incload_assets.assets import History
from incload_assets.declaration.changes import Changes
from incload_assets.trial.literal_source import Record
from tests.writes.case import Case, Content, Order, crowds
from tests.writes.case_merge_partial import TwoValues, histories, newest_values, partial_crowds

COLUMNS = ("id", "value", "seq", "other", "valid_from", "valid_to", "is_current")
CHANGES = Changes(keys=["id"], sequence_by=["seq", "step"], delete_when="op = 'd'")


class Stepped(TwoValues):
    """An item with two values and a second sequence column."""

    step: T.LongType = pa.Field(nullable=True)


@st.composite
def stepped_crowds(draw: st.DrawFn) -> Content:
    """Crowds of partial changes, several of them at one moment, before and after a delete of the same moment."""
    content = draw(partial_crowds(crowds()))
    chance = Random(draw(st.integers(0, 2**32)))
    for record in (r for records in content.values() for r in records):
        record["step"] = chance.choice([None, "0", "1", "2"])
    return content


def moment(record: Record) -> int | None:
    """The time of a change."""
    return None if record["seq"] is None else int(record["seq"])


def versions(
    content: Mapping[str, Sequence[Record]], order: Order, tracked: Sequence[int] = (1, 3)
) -> set[tuple[Any, ...]]:
    """Merge at each moment what had happened by then; a version lasts while the tracked values are the same."""
    found = set()
    for history in histories(content, order).values():
        version: tuple[Any, ...] | None = None
        begin = None
        for number, record in enumerate(history):
            at = moment(record)
            if number + 1 < len(history) and moment(history[number + 1]) == at:
                continue
            row = next(iter(newest_values({"": history[: number + 1]}, order)), None)
            same = row and version and all(row[place] == version[place] for place in tracked)
            if version and not same:
                found.add((*version, begin, at, False))
            begin, version = (begin if same else at), row
        if version:
            found.add((*version, begin, None, True))
    return found


def versions_of_value(content: Mapping[str, Sequence[Record]], order: Order) -> set[tuple[Any, ...]]:
    """The same, if only the first value makes versions."""
    return versions(content, order, tracked=(1,))


PARTIAL: dict[str, Any] = {"columns": COLUMNS, "contract": Stepped, "changes": CHANGES, "contents": stepped_crowds()}
HISTORY_PARTIAL = Case("history_partial", History(partial=True, buckets=3), versions, **PARTIAL)
HISTORY_PARTIAL_TRACKED = Case(
    "history_partial_tracked", History(partial=True, track="value"), versions_of_value, **PARTIAL, daily=False
)
