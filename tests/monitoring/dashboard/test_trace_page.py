"""The form that traces a row, where the key itself is a personal value."""

from pathlib import Path

import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest

from incload_assets.assets import Append, Changes
from incload_assets.monitoring.dashboard.drawing import Links
from incload_assets.monitoring.dashboard.trace_page import traced
from tests.support.html import parsed
from tests.support.tables import make


class Person(pa.DataFrameModel):
    """A person, whose number is nobody's business."""

    number: T.LongType = pa.Field(nullable=False, metadata={"personal": True})
    seq: T.LongType = pa.Field(nullable=True)


@pytest.mark.parametrize(
    ("query", "status", "says"),
    [
        ("number=4711", 200, "number=***: there is no log: nothing was ever loaded into the table."),
        ("number=4711x", 400, "number: the value is not bigint"),
        ("number=4711&number=4711", 400, "'number' is given twice"),
        ("%3D4711=4711", 400, "the key lacks 'number'"),
    ],
)
def test_a_personal_key_is_not_repeated_by_form_trace_or_message(
    tmp_path: Path, query: str, status: int, says: str
) -> None:
    people = make(None, tmp_path, contract=Person, changes=Changes(keys=["number"], sequence_by=["seq"]))  # type: ignore[arg-type]
    found, text = traced(people.table, people.lake, query, Links())
    assert found == status and says in parsed(text).text and "4711" not in text
    assert "value" not in parsed(text).one("input").attributes


def test_rows_without_a_key_are_left_to_the_terminal(tmp_path: Path) -> None:
    items = make(None, tmp_path, contract=Person, changes=Changes(), write=Append())  # type: ignore[arg-type]
    assert "incload trace items COLUMN=VALUE" in parsed(traced(items.table, items.lake, "", Links())[1]).text
