"""Append: what the docstring of the class says, sentence by sentence."""

from pathlib import Path
from typing import Any

import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest
from pyspark.sql import SparkSession

from incload_assets.assets import Append, Changes, Quarantine
from incload_assets.load.reconcile import Evidence
from incload_assets.platform.errors import DeclarationError
from tests.support.tables import DatedItem, Loaded, day, item, make

BY_KEY = Changes(keys=["id"], sequence_by=["seq"])


class Pair(pa.DataFrameModel):
    """Two texts."""

    left: T.StringType = pa.Field(nullable=True)
    right: T.StringType = pa.Field(nullable=True)


class Measured(pa.DataFrameModel):
    """What was said at a place."""

    at: T.DoubleType = pa.Field(nullable=False)
    says: T.StringType = pa.Field(nullable=False)


def bins(evidence: Evidence) -> tuple[int, int, int, int]:
    return evidence.applied, evidence.stale, evidence.duplicate, evidence.quarantined


def append(spark: SparkSession, folder: Path, content: dict[str, Any], changes: Changes, **more: Any) -> Loaded:
    write = Append(partition_by=more.pop("partition_by", None))
    return make(spark, folder, content, write=write, changes=changes, quarantine=Quarantine(max_share=0.5), **more)


def test_an_event_delivered_again_is_there_once_and_every_row_is_in_one_bin(
    spark: SparkSession, tmp_path: Path
) -> None:
    content = {
        day(1): [item("1", "a", 1), item("1", "a", 1), item("2", "b", 1), item(None, "x", 1)],
        day(2): [item("2", "b", 1), item("3", "c", 1)],
    }
    table = append(spark, tmp_path, content, BY_KEY)
    first = table.load(1)
    assert bins(first.evidence) == (2, 0, 1, 1)
    assert bins(table.load(2).evidence) == (2, 0, 0, 0)
    assert table.rows() == {("1", "a", 1), ("2", "b", 1), ("3", "c", 1)}
    files = table.files()
    assert table.replay(table.load(1)).committed is False
    assert table.files() == files


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1)])
def test_of_two_contents_of_one_event_the_oldest_stays_whatever_the_order_of_loads(
    spark: SparkSession, tmp_path: Path, order: tuple[int, ...]
) -> None:
    content = {
        day(1): [item("1", "second", 2), item("2", "new", None)],
        day(2): [item("1", "first", 1), item("1", "third", 3)],
        day(3): [item("1", "third", 3), item("2", "old", 1)],
    }
    table = append(spark, tmp_path, content, BY_KEY)
    reports = {number: table.load(number) for number in order}
    assert table.rows() == {("1", "first", 1), ("2", "new", None)}  # without a sequence: older than any
    assert bins(reports[2].evidence) == (1, 1, 0, 0)
    assert bins(table.load(3).evidence) == (0, 2, 0, 0)


def test_an_event_taken_back_leaves_unless_another_window_has_it(spark: SparkSession, tmp_path: Path) -> None:
    content = {
        day(1): [item("1", "a", 1), item("2", "b", 1), item("3", "c", 1)],
        day(2): [item("2", "b", 1), item("3", "later", 2)],
    }
    table = append(spark, tmp_path, content, BY_KEY)
    table.load(1)
    table.load(2)
    table.content[day(1)] = []
    merged = table.load(1).merged
    assert table.rows() == {("2", "b", 1), ("3", "later", 2)}
    assert (merged.inserted, merged.updated, merged.deleted) == (0, 1, 1)


def test_rows_without_a_key_are_told_apart_by_all_they_say(spark: SparkSession, tmp_path: Path) -> None:
    values = ["", "null", "a", "ab", "bc", "c", "a|", "|b", 'a","right":"b', "😀"]
    pairs = {(left, right) for left in (None, *values) for right in (None, *values)}
    rows = [{"left": left, "right": right} for left, right in sorted(pairs, key=repr)]
    content = {day(1): [*rows, rows[0]], day(2): rows}
    table = append(spark, tmp_path, content, Changes(), contract=Pair)
    assert bins(table.load(1).evidence) == (len(pairs), 0, 1, 0)
    assert table.load(2).merged.inserted == 0
    assert table.rows() == pairs
    table.content[day(1)] = []
    table.content[day(2)] = rows[:2]
    table.load(1)
    assert table.rows() == pairs
    table.load(2)
    assert table.rows() == {(row["left"], row["right"]) for row in rows[:2]}


def test_a_partition_that_a_load_does_not_touch_keeps_its_files(spark: SparkSession, tmp_path: Path) -> None:
    content = {
        day(1): [item("1", "a", 1, day=day(1))],
        day(2): [item("2", "b", 1, day=day(2)), item("2", "b", 1, day=day(2)), item("3", "c", 1)],
    }
    for name, changes in (("keyed", BY_KEY), ("rows", Changes())):
        table = append(spark, tmp_path, content, changes, contract=DatedItem, partition_by="day", name=name)
        table.load(1)
        before = table.files()
        assert bins(table.load(2).evidence) == (1, 0, 1, 1)
        assert before < table.files()
        assert table.rows("id") == {("1",), ("2",)}


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_an_event_whose_key_is_zero_is_there_once_whatever_its_sign(
    spark: SparkSession, tmp_path: Path, order: tuple[int, ...]
) -> None:
    content = {day(1): [{"at": "0.0", "says": "a"}], day(2): [{"at": "-0.0", "says": "b"}, {"at": "1.5", "says": "c"}]}
    table = append(spark, tmp_path, content, Changes(keys=["at"], sequence_by=["says"]), contract=Measured)
    for window in order:
        table.load(window)
    assert table.rows() == {(0.0, "a"), (1.5, "c")}


def test_deletes_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    changes = Changes(keys=["id"], delete_when="op = 'd'")
    with pytest.raises(DeclarationError, match="but Append does not support deletes"):
        append(spark, tmp_path, {}, changes)
