"""Buckets that a new table's first load chooses by its size, and that stay as they are from then on."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from incload_assets.assets import History, Merge
from incload_assets.change_log.log import numbers_of_buckets
from incload_assets.declaration import layout
from incload_assets.declaration.explained import explained
from incload_assets.declaration.window import window_of
from incload_assets.load import load as module
from incload_assets.load.evolution import lake_differences
from incload_assets.load.ranges import load_first_windows
from incload_assets.maintenance.rebucket import as_wanted, rebucket, rebucket_alone
from tests.support.tables import Loaded, day, item, make

MANY = [item(f"key {n}", "v", 1) for n in range(40)]
FEW = [item("key 1", "w", 2), item("key 50", "w", 2)]


@pytest.fixture
def aim(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Sets the size of a bucket that is aimed at."""
    return lambda size: monkeypatch.setattr(layout, "BUCKET_BYTES", size)


def number(table: Loaded) -> int | None:
    """The number of buckets that a table has."""
    delta = table.lake.delta(table.uri)
    assert delta is not None
    [in_table], [in_log] = numbers_of_buckets(delta), numbers_of_buckets(table.context().log.open())
    assert in_table == in_log
    assert ("_bucket" in delta.metadata().partition_columns) == (in_table is not None)
    assert lake_differences(table.table, table.lake) == []
    return in_table


def load_together(table: Loaded, *numbers: int) -> None:
    windows = [window_of(table.table.partitions_def, day(one)) for one in numbers]
    reports = [*load_first_windows(table.context(), windows, lambda asked: {one.key for one in asked})]
    assert sum(map(len, reports)) == len(numbers)


def test_the_first_load_of_a_new_table_chooses_and_no_later_one_does(
    spark: SparkSession, tmp_path: Path, aim: Callable[[int], None]
) -> None:
    aim(2_000)
    table = make(spark, tmp_path, {day(1): MANY, day(2): FEW}, write=Merge(buckets="auto"))
    table.load(1)
    chosen = number(table)
    assert chosen in (4, 8, 16)
    table.content[day(3)] = [item(f"more {n}", "v" * 100, 1) for n in range(400)]
    assert table.load(2).record.partitions is not None
    table.load(3)
    assert number(table) == chosen
    whole = make(spark, tmp_path / "whole", table.content, write=Merge())
    load_together(whole, 1, 2, 3)
    assert table.rows() == whole.rows()
    again = replace(table, table=as_wanted(table.table, 32))
    assert rebucket_alone(again.context(), 32).after == 32
    assert table.load(2).evidence.pending == 0
    assert table.context().table.write.buckets == 32
    assert table.rows() == whole.rows()
    assert "as many as its first load chooses" in str(explained(table.table))


def test_a_small_table_and_one_that_exists_stay_as_they_are(
    spark: SparkSession, tmp_path: Path, aim: Callable[[int], None]
) -> None:
    small = make(spark, tmp_path / "small", {day(1): FEW, day(2): MANY}, write=History(buckets="auto"))
    load_together(small, 1, 2)
    assert number(small) is None
    aim(100)
    for declared in (None, 4):
        table = make(spark, tmp_path / str(declared), {day(1): MANY, day(2): FEW}, write=Merge(buckets=declared))
        table.load(1)
        left_open = replace(table, table=replace(table.table, write=Merge(buckets="auto")))
        assert left_open.load(2).evidence.pending == 0
        assert number(left_open) == declared
        assert rebucket(left_open.context()).rows is None


def test_a_load_that_is_killed_before_it_has_chosen_leaves_the_choice_to_the_next_one(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, aim: Callable[[int], None]
) -> None:
    aim(2_000)
    table, calls = make(spark, tmp_path, {day(1): MANY}, write=Merge(buckets="auto")), iter(range(9))
    ensure = module.ensure_tables

    def once(load: Any) -> None:
        if next(calls):
            raise KeyboardInterrupt
        ensure(load)

    with monkeypatch.context() as patch:
        patch.setattr(module, "ensure_tables", once)
        with pytest.raises(KeyboardInterrupt):
            table.load(1)
    assert table.lake.delta(table.uri) is None
    table.load(1)
    assert number(table) is not None
    assert len(table.rows()) == len(MANY)
