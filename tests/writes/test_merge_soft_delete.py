"""Merge with soft deletes, on literal rows."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from incload_assets.assets import Changes, Merge
from incload_assets.load.reconcile import Evidence
from incload_assets.platform.errors import DeclarationError
from tests.support.tables import day, item, make

SOFT = Merge(soft_delete="is_deleted")
COLUMNS = ("id", "value", "seq", "is_deleted")


def bins(evidence: Evidence) -> tuple[int, int, int, int]:
    return evidence.applied, evidence.stale, evidence.duplicate, evidence.waiting


def test_a_deleted_row_stays_with_its_last_values_and_the_sequence_of_the_delete(
    spark: SparkSession, tmp_path: Path
) -> None:
    content = {
        day(1): [item("kept", "a", 1), item("deleted", "old", 1), item("deleted", "b", 2), item("revived", "c", 1)],
        day(2): [item("deleted", None, 3, "d"), item("revived", None, 2, "d"), item("never there", None, 1, "d")],
        day(3): [item("revived", "d", 3)],
    }
    table = make(spark, tmp_path, content, write=SOFT)
    table.load(1)
    assert table.rows(*COLUMNS) == {("kept", "a", 1, False), ("deleted", "b", 2, False), ("revived", "c", 1, False)}
    second = table.load(2)
    assert bins(second.evidence) == (3, 0, 0, 0)
    assert (second.merged.updated, second.merged.deleted) == (2, 0)
    assert table.rows(*COLUMNS) == {("kept", "a", 1, False), ("deleted", "b", 3, True), ("revived", "c", 2, True)}
    table.load(3)
    assert table.rows(*COLUMNS) == {("kept", "a", 1, False), ("deleted", "b", 3, True), ("revived", "d", 3, False)}


def test_a_delete_before_its_upsert_gives_the_same_row_in_any_order_of_loads(
    spark: SparkSession, tmp_path: Path
) -> None:
    content = {day(1): [item("k", "a", 1)], day(2): [item("k", None, 5, "d")], day(3): [item("k", "b", 3)]}
    for number, order in enumerate([(2, 1, 3), (2, 3, 1)]):
        table = make(spark, tmp_path / str(number), content, write=SOFT)
        reports = [table.load(window) for window in order]
        assert reports[0].merged.inserted == 0
        assert table.rows(*COLUMNS) == {("k", "b", 5, True)}
        files = table.files()
        table.replay(table.load(2))
        assert table.files() == files


def test_a_delete_that_is_taken_back_or_older_than_the_row_marks_nothing(spark: SparkSession, tmp_path: Path) -> None:
    content = {day(1): [item("k", "a", 2)], day(2): [item("k", None, 1, "d")], day(3): [item("k", None, 3, "d")]}
    table = make(spark, tmp_path, content, write=SOFT)
    table.load(1)
    assert bins(table.load(2).evidence) == (0, 1, 0, 0)
    assert table.rows(*COLUMNS) == {("k", "a", 2, False)}
    table.load(3)
    assert table.rows(*COLUMNS) == {("k", "a", 3, True)}
    table.content[day(3)] = []
    table.load(3)
    assert table.rows(*COLUMNS) == {("k", "a", 2, False)}


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("value", Changes(keys="id", sequence_by="seq", delete_when="op = 'd'"), "'value', which Item also has"),
        ("gone", Changes(keys="id", sequence_by="seq"), "'gone', but nothing declares which changes are deletes"),
        ("is gone", Changes(keys="id", sequence_by="seq", delete_when="op = 'd'"), "it is the name of a column"),
    ],
)
def test_a_column_that_cannot_mark_deletes_is_refused(
    spark: SparkSession, tmp_path: Path, name: str, changes: Changes, message: str
) -> None:
    with pytest.raises(DeclarationError, match=message):
        make(spark, tmp_path, changes=changes, write=Merge(soft_delete=name))


def test_an_old_table_gets_the_column_and_its_deleted_rows_come_back_with_their_windows(
    spark: SparkSession, tmp_path: Path
) -> None:
    content = {day(1): [item("k", "a", 1), item("m", "b", 1)], day(2): [item("k", None, 2, "d")]}
    for window in (1, 2):
        make(spark, tmp_path, content).load(window)
    soft = make(spark, tmp_path, content, write=SOFT, code_version="2")
    soft.load(2)
    assert soft.rows(*COLUMNS) == {("k", "a", 2, True), ("m", "b", 1, None)}
    soft.load(1)
    assert soft.rows(*COLUMNS) == {("k", "a", 2, True), ("m", "b", 1, False)}
