"""DeleteInsert: what the docstring of the class says, sentence by sentence."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from incload_assets.assets import Changes, DeleteInsert, Quarantine
from incload_assets.change_log.context import LoadContext
from incload_assets.declaration.window import window_of
from incload_assets.load.reconcile import Evidence
from incload_assets.platform.errors import DeclarationError
from incload_assets.writes.merge_into import app_id
from incload_assets.writes.plan import Merged
from tests.support.tables import DAYS, DatedItem, GoodItem, Loaded, day, item, make
from tests.writes.case_delete_insert import held

VERSIONED = Changes(sequence_by=["seq"], delete_when="op = 'd'")


def bins(evidence: Evidence) -> tuple[int, int, int, int]:
    return evidence.applied, evidence.stale, evidence.duplicate, evidence.quarantined


def invoices(spark: SparkSession, folder: Path, content: dict[str, Any], **more: Any) -> Loaded:
    more = {"write": DeleteInsert(by=["id"]), "changes": VERSIONED, "quarantine": Quarantine(max_share=1), **more}
    return make(spark, folder, content, **more)


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1)])
def test_the_newest_set_of_a_group_is_all_there_is_of_it_whatever_the_order_of_loads(
    spark: SparkSession, tmp_path: Path, order: tuple[int, ...]
) -> None:
    content = {
        day(1): [item("1", "pen", 1), item("1", "ink", 1), item("2", "cup", 1), item("2", "pot", None)],
        day(2): [item("1", "pen", 2), item("1", "pen", 2), item("1", "cap", 2)],
        day(3): [item("1", "ink", 1), item("2", None, 1, "d"), item("3", "hat", 5), item("3", None, 4, "d")],
    }
    table = invoices(spark, tmp_path, content)
    for number in order:
        table.load(number)
    assert held(table) == {("1", "pen", 2, 2), ("1", "cap", 2, 1), ("3", "hat", 5, 1)}
    assert bins(table.load(1).evidence) == (0, 4, 0, 0)
    assert bins(table.load(2).evidence) == (3, 0, 0, 0)
    last = table.load(3)
    assert bins(last.evidence) == (2, 2, 0, 0)
    files = table.files()
    assert table.replay(last).committed is False
    assert table.files() == files


def test_a_set_that_comes_again_changes_nothing_and_a_window_taken_back_gives_way_to_the_older_set(
    spark: SparkSession, tmp_path: Path
) -> None:
    old, new = [item("1", "pen", 1), item("1", "pen", 1)], [item("1", "cap", 2)]
    table = invoices(spark, tmp_path, {day(1): old, day(2): new, day(3): new})
    table.load(1)
    table.load(2)
    files = table.files()
    assert bins(table.load(3).evidence) == (1, 0, 0, 0)
    assert table.files() == files
    table.content[day(3)] = []
    table.load(3)
    assert held(table) == {("1", "cap", 2, 1)}
    table.content[day(2)] = []
    merged = table.load(2).merged
    assert held(table) == {("1", "pen", 1, 2)}
    assert (merged.inserted, merged.deleted) == (2, 1)
    table.content[day(1)] = old[:1]
    table.load(1)
    assert held(table) == {("1", "pen", 1, 1)}


def test_one_bad_row_keeps_its_whole_set_out(spark: SparkSession, tmp_path: Path) -> None:
    content = {
        day(1): [item("1", "pen", 1), item("2", "cup", 1)],
        day(2): [item("1", "cap", 2), item("1", "bad", 2), item("2", "pot", 2), item(None, "x", 2)],
    }
    table = invoices(spark, tmp_path, content, contract=GoodItem)
    table.load(1)
    assert bins(table.load(2).evidence) == (1, 0, 0, 3)
    assert held(table) == {("1", "pen", 1, 1), ("2", "pot", 2, 1)}
    assert (["id: another row of the group is quarantined, and a group is never split"],) in table.log(
        "rejected", "_reasons"
    )


def test_a_plan_made_before_another_set_came_does_not_mix_with_it(spark: SparkSession, tmp_path: Path) -> None:
    table = invoices(spark, tmp_path, {day(1): [item("1", "a", 1), item("1", "b", 1)]})
    table.load(1)
    context, window = LoadContext(spark, table.table, table.lake), window_of(DAYS, day(1))
    at = context.read_view((window,), app_id(table.table, window))
    at_first = replace(at, table_version=0, near_files=None)  # when the table was still empty
    plan = table.table.write.plan(context, at_first, full=True)
    assert [tuple(row) for row in plan.actions.groupBy("_action").count().collect()] == [("insert", 2)]
    assert table.table.write.apply(context, at, plan) == Merged()
    assert held(table) == {("1", "a", 1, 1), ("1", "b", 1, 1)}


def test_groups_of_a_partitioned_table_are_looked_for_in_their_partition_only(
    spark: SparkSession, tmp_path: Path
) -> None:
    content = {
        day(1): [item("1", "a", 1, day=day(1)), item("2", "b", 1, day=day(2))],
        day(2): [item("2", "c", 2, day=day(2)), item("2", "d", 2, day=day(2))],
    }
    write = DeleteInsert(by=["id", "day"], partition_by="day")
    table = invoices(spark, tmp_path, content, contract=DatedItem, write=write)
    table.load(1)
    [kept] = [file for file in table.files() if f"day={day(1)}" in file]
    table.load(2)
    assert kept in table.files()
    assert table.rows("id", "value") == {("1", "a"), ("2", "c"), ("2", "d")}


@pytest.mark.parametrize(
    ("write", "changes", "message"),
    [
        (DeleteInsert(by=[]), VERSIONED, "by names the columns that identify a group, each once"),
        (DeleteInsert(by=["id", "id"]), VERSIONED, "by names the columns that identify a group, each once"),
        (
            DeleteInsert(by=["other"]),
            VERSIONED,
            r"with 'other', which DatedItem does not have.*Remedy: name some of day, id, value",
        ),
        (DeleteInsert(by=["seq"]), VERSIONED, "of plain types, other than the sequence"),
        (DeleteInsert(by=["id"], partition_by="day"), VERSIONED, "all rows of a group are in one partition"),
        (DeleteInsert(by=["id"]), Changes(), "changes.sequence_by is empty"),
        (DeleteInsert(by=["id"]), Changes(keys=["value"], sequence_by=["seq"]), "identifies a row within its group"),
    ],
)
def test_a_declaration_that_cannot_be_held_is_refused(
    spark: SparkSession, tmp_path: Path, write: DeleteInsert, changes: Changes, message: str
) -> None:
    with pytest.raises(DeclarationError, match=message):
        invoices(spark, tmp_path, {}, contract=DatedItem, write=write, changes=changes)
