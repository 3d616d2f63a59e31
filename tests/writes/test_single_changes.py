"""Large windows in which each key has one change: not sorted, inserted by a MERGE, and proven by sums."""

import threading
from pathlib import Path
from typing import Any
from unittest import mock

import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest
from pyspark.sql import SparkSession

from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.read_view import ReadView
from incload_assets.declaration.write import Write
from incload_assets.writes import merge_into, row_fold
from incload_assets.writes.plan import Merged, MergePlan
from tests.integration.loader import STATEMENT_IS_SENT_SECONDS, slowed
from tests.support.tables import DatedItem, Item, Loaded, day, item, make
from tests.writes.case_merge_many import OfMany, as_many

SINGLE = {day(1): [item("a", "1", 1), item("b", None, 1), item("c", "3", 1)]}
ROWS = {("a", "1", 1), ("b", None, 1), ("c", "3", 1)}


class NestedItem(Item):
    """An item with values of types that Spark cannot hash."""

    tags: T.MapType(T.StringType(), T.StringType()) = pa.Field(nullable=True)  # type: ignore[valid-type]


def operations(table: Loaded) -> list[str]:
    """What the commits of a table did, the newest first."""
    delta = table.lake.delta(table.uri)
    assert delta is not None
    return [str(commit["operation"]) for commit in delta.history()]


@pytest.fixture
def summed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The windows that were proven by sums."""
    made, found = row_fold.ledger_of_sums, list[str]()

    def noted(window: str, *arguments: Any) -> Any:
        found.append(window)
        return made(window, *arguments)

    monkeypatch.setattr(row_fold, "ledger_of_sums", noted)
    return found


@pytest.mark.parametrize("write", [OfMany(), OfMany(buckets=2)], ids=["unpartitioned", "buckets"])
def test_a_first_window_is_inserted_by_one_merge_and_proven_by_sums(
    spark: SparkSession, tmp_path: Path, summed: list[str], write: Write
) -> None:
    table = make(spark, tmp_path, SINGLE, write=write)
    evidence = table.load(1).evidence
    assert table.rows() == ROWS
    assert operations(table)[0] == "MERGE"
    assert summed == [day(1)]
    assert (evidence.keys, evidence.applied, evidence.present, evidence.pending) == (3, 3, 3, 0)
    assert evidence.log_hash == evidence.table_hash != 0


def test_a_first_window_of_one_partition_is_proven_by_sums(
    spark: SparkSession, tmp_path: Path, summed: list[str]
) -> None:
    content = {
        day(number): [item(f"{number}", "v", 1, day=day(number)), item(f"{number}x", None, 1, day=day(number))]
        for number in (1, 2)
    }
    table = make(spark, tmp_path, content, contract=DatedItem, write=OfMany(partition_by="day"))
    assert [table.load(number).evidence.applied for number in (1, 2)] == [2, 2]
    assert summed == [day(1), day(2)]
    assert table.rows("id", "value") == {("1", "v"), ("1x", None), ("2", "v"), ("2x", None)}


@pytest.mark.parametrize(
    "changes",
    [
        [item("a", "1", 1), item("a", "2", 2)],
        [item("a", "2", 2), item("a", "2", 2)],
        [item("a", "2", 2), item("b", None, 1, "d")],
    ],
    ids=["two changes", "a repetition", "a delete"],
)
def test_other_windows_are_proven_key_by_key(
    spark: SparkSession, tmp_path: Path, summed: list[str], changes: list[dict[str, str | None]]
) -> None:
    table = make(spark, tmp_path, {day(1): changes}, write=OfMany())
    assert table.load(1).evidence.rows_read == 2
    assert table.rows() == {("a", "2", 2)}
    assert summed == []


@pytest.mark.parametrize(
    "edit",
    ["value = 'edited' WHERE id = 'b'", "value = NULL, seq = 0 WHERE id = 'a'", "tags = map('x', 'z') WHERE id = 'a'"],
    ids=["a value", "an older row", "a nested value"],
)
def test_rows_that_another_writer_has_changed_are_found_and_repaired(
    spark: SparkSession, tmp_path: Path, summed: list[str], edit: str
) -> None:
    nested = {day(1): [{**record, "tags": '{"x": "y"}'} for record in SINGLE[day(1)]]}
    table = make(spark, tmp_path, nested, contract=NestedItem, write=OfMany())
    merge = merge_into.merge

    def edited(load: LoadContext, at: ReadView, plan: MergePlan) -> Merged | None:
        done = merge(load, at, plan)
        if not at.near_bytes:
            spark.sql(f"UPDATE {table.lake.sql_name(table.uri)} SET {edit}")
        return done

    with mock.patch("incload_assets.writes.merge.merge", edited):
        assert table.load(1).evidence.applied == 3
    assert summed == [day(1)]
    assert table.rows("id", "value", "seq") == ROWS
    kept = spark.read.format("delta").load(table.uri).selectExpr("to_json(tags) AS tags").distinct().collect()
    assert [row.tags for row in kept] == ['{"x":"y"}']


@pytest.mark.parametrize("meanwhile", [False, True], ids=["before it is merged", "while it is merged"])
def test_rows_that_another_load_brings_into_an_empty_table_stay(
    spark: SparkSession, spark_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, meanwhile: bool
) -> None:
    content = SINGLE | {day(2): [item("a", "2", 2), item("b", None, 2, "d"), item("d", "2", 2)]}
    table = make(spark, tmp_path, content)
    beside = make(SparkSession.builder.remote(spark_url).create(), tmp_path, content)
    merge, outcomes, here = merge_into.merge, [], threading.current_thread()
    other = threading.Timer(STATEMENT_IS_SENT_SECONDS if meanwhile else 0, lambda: beside.load(2))

    def overtaken(load: LoadContext, at: ReadView, plan: MergePlan) -> Merged | None:
        if threading.current_thread() is not here:
            return merge(load, at, plan)
        if not outcomes:
            other.start()
            if not meanwhile:
                other.join()
        outcomes.append(merge(load, at, slowed(plan) if meanwhile and not outcomes else plan))
        return outcomes[-1]

    monkeypatch.setattr("incload_assets.writes.merge.merge", overtaken)
    with as_many():
        table.load(1)
    other.join()
    assert table.rows() == {("a", "2", 2), ("c", "3", 1), ("d", "2", 2)}
    assert (outcomes[0] is None) == meanwhile
