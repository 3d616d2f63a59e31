"""A partition of which much changes is written again, in one commit that does what a MERGE would do."""

import threading
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandera.pyspark as pa
import pyarrow
import pyspark.sql.types as T
import pytest
from pyspark.sql import SparkSession

from incload_assets.assets import Merge
from incload_assets.assets.metadata import metadata_of
from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.read_view import ReadView
from incload_assets.change_log.window_records import WindowRecord
from incload_assets.declaration.window import window_of
from incload_assets.load.load import _ingest
from incload_assets.load.tables import ensure_tables
from incload_assets.progress.checkpoint import Checkpoint
from incload_assets.writes import merge, replace_where
from incload_assets.writes.merge_into import app_id
from incload_assets.writes.plan import Merged
from tests.integration.loader import STATEMENT_IS_SENT_SECONDS, slowed
from tests.support.tables import DAYS, DatedItem, Item, Loaded, StampedItem, day, item, make
from tests.writes.case_merge_rewritten import MERGE_REWRITTEN, Rewritten

EVENTS: dict[str, Any] = {"contract": DatedItem, "write": Merge(partition_by="day")}
CONTENT = {
    day(1): [*(item(key, "a", 1, day=day(1)) for key in ("kept", "changed", "deleted")), item("x", "a", 1, day=day(2))],
    day(2): [
        item("changed", "b", 2, day=day(1)),
        item("changed", "c", 3, day=day(1)),
        item("deleted", None, 2, "d", day=day(1)),
        item("never there", None, 2, "d", day=day(1)),
        item("new", "b", 2, day=day(1)),
    ],
}
RIGHT = {("kept", "a", 1), ("changed", "c", 3), ("new", "b", 2), ("x", "a", 1)}


class NamedItem(Item):
    """An item that lies in a partition with a name."""

    place: T.StringType = pa.Field(nullable=False)


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """However small a batch is, it is large enough."""
    monkeypatch.setattr(replace_where, "LEAST_ROWS", 0)


def loaded(spark: SparkSession, folder: Path, **declared: Any) -> Loaded:
    table = make(spark, folder, CONTENT, **EVENTS | declared)
    table.load(1)
    return table


def last_commit(table: Loaded) -> dict[str, Any]:
    delta = table.lake.delta(table.uri)
    assert delta is not None
    return dict(delta.history(1)[0])


@pytest.mark.usefixtures("eager")
def test_news_of_one_partition_replace_it_in_one_commit_and_the_materialization_says_so(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = loaded(spark, tmp_path)
    before = table.files()
    others = {file for file in before if f"day={day(2)}" in file}
    report = table.load(2)
    commit = last_commit(table)
    assert (commit["operation"], commit["operationParameters"]["mode"]) == ("WRITE", "Overwrite")
    assert commit["version"] == report.table_version
    assert report.merged == Merged(inserted=1, updated=1, deleted=1, rewrites=1)
    assert table.rows("id", "value", "seq") == RIGHT
    assert others <= table.files()
    told = metadata_of(LoadContext(spark, table.table, table.lake), [report])[day(2)]
    assert told["commit"].value == "atomic rewrite of a part"
    written = [Path(file.removeprefix("file://")).stat().st_size for file in table.files() - before]
    assert told["bytes_written"].value == sum(written) > 0
    again = metadata_of(LoadContext(spark, table.table, table.lake), [table.replay(report)])[day(2)]
    assert "bytes_written" not in again, "nothing was written"


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("declared", [Merge(partition_by="day", rewrite=False), None], ids=["off", "change feed"])
def test_a_rewrite_can_be_switched_off_and_is_not_made_where_the_change_feed_would_tell_of_every_row(
    spark: SparkSession, tmp_path: Path, declared: Merge | None
) -> None:
    table = loaded(spark, tmp_path, **({"write": declared} if declared else {}))
    if declared is None:
        feed = "SET TBLPROPERTIES (delta.enableChangeDataFeed = true)"
        spark.sql(f"ALTER TABLE {table.lake.sql_name(table.uri)} {feed}")
    report = table.load(2)
    assert last_commit(table)["operation"] == "MERGE"
    assert report.merged == Merged(inserted=1, updated=1, deleted=1)
    assert table.rows("id", "value", "seq") == RIGHT
    told = metadata_of(LoadContext(spark, table.table, table.lake), [report])[day(2)]
    assert told["commit"].value == "MERGE"


@pytest.mark.usefixtures("eager")
def test_what_is_no_news_or_touches_two_partitions_is_merged(spark: SparkSession, tmp_path: Path) -> None:
    table = loaded(spark, tmp_path)
    table.load(2)
    table.content[day(3)] = [item("new", "late", 1, day=day(1)), item("added", "late", 1, day=day(1))]
    assert table.load(3).merged == Merged(inserted=1)
    assert last_commit(table)["operation"] == "MERGE"
    table.content[day(4)] = [item(f"new {of}", "b", 9, day=day(of)) for of in (1, 2)]
    table.load(4)
    assert last_commit(table)["operation"] == "MERGE"


@pytest.mark.parametrize("declared", [{}, {"write": Merge()}], ids=["of two days", "without partitions"])
def test_what_comes_into_empty_partitions_is_written_without_a_merge(
    spark: SparkSession, tmp_path: Path, declared: dict[str, Any]
) -> None:
    table = make(spark, tmp_path, CONTENT, **EVENTS | declared)
    assert table.load(1).merged == Merged(inserted=4, rewrites=1)
    assert last_commit(table)["operation"] == "WRITE"
    table.load(2)
    assert table.rows("id", "value", "seq") == RIGHT


def test_a_few_changes_of_a_large_partition_are_merged() -> None:
    record = WindowRecord(
        landing=1, fingerprint="", position="{}", summary="", run_id="", code_version="1", landed_at=datetime.now(UTC),
        rows_read=replace_where.LEAST_ROWS, rejected=0, replaced=0, partitions=[day(1)],
    )  # fmt: skip
    at = ReadView(
        1, 1, "", 0, {day(2): record}, whole=False, of_range=False, by_place=True, table_bytes=1, near_bytes=1,
        log_bytes=1, sizes={day(2): 1}, windows_bytes=1, others_delete=False, empties=False, moves=False, newer=True,
        near_rows=20 * replace_where.LEAST_ROWS, feeds=False, buckets=None, buckets_of={day(2): None}, near_files=None,
        log_files=None, window_files=None, near=pyarrow.table({}), of_windows=pyarrow.table({}),
    )  # fmt: skip
    assert replace_where.pays(at)
    assert not replace_where.pays(replace(at, near_rows=21 * replace_where.LEAST_ROWS))
    assert not replace_where.pays(replace(at, near_rows=0))  # nothing there, or nothing known
    assert not replace_where.pays(replace(at, newer=False))


@pytest.mark.parametrize("column", ["note", "_held", "_Planned", "__does"])
def test_a_column_that_the_contract_does_not_know_stays_as_it_is_whatever_its_name(
    spark: SparkSession, tmp_path: Path, column: str
) -> None:
    table = make(spark, tmp_path, CONTENT, **MERGE_REWRITTEN.declared)
    table.load(1)
    name = table.lake.sql_name(table.uri)
    spark.sql(f"ALTER TABLE {name} ADD COLUMNS ({column} string)")
    spark.sql(f"UPDATE {name} SET {column} = concat('of ', id)")
    table.load(2)
    assert table.rows("id", "value", column) == {
        ("kept", "a", "of kept"), ("changed", "c", "of changed"), ("new", "b", None), ("x", "a", "of x"),
    }  # fmt: skip


def test_rows_that_another_load_brings_between_plan_and_rewrite_stay(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another window commits to the partition when the rewrite is planned: it is not of the plan, and not lost."""
    table = make(spark, tmp_path, CONTENT, **MERGE_REWRITTEN.declared)
    table.load(1)
    table.content[day(3)] = [item("between", "b", 9, day=day(1)), item("changed", "newest", 9, day=day(1))]
    rewrite, told = merge.rewrite, []

    def overtaken(load: LoadContext, at: ReadView, plan: Any) -> Merged | None:
        if not told:
            told.append("planned")
            table.load(3)
        return rewrite(load, at, plan)

    monkeypatch.setattr(merge, "rewrite", overtaken)
    table.load(2)
    right = {row for row in RIGHT if row[0] != "changed"} | {("between", "b", 9), ("changed", "newest", 9)}
    assert table.rows("id", "value", "seq") == right


def test_a_rewrite_that_is_overtaken_while_it_writes_is_refused_and_planned_again(
    spark: SparkSession, spark_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(spark, tmp_path, CONTENT, **MERGE_REWRITTEN.declared)
    table.load(1)
    table.content[day(3)] = [item("between", "b", 9, day=day(1))]
    beside = make(SparkSession.builder.remote(spark_url).create(), tmp_path, table.content, **MERGE_REWRITTEN.declared)
    rewrite, outcomes = merge.rewrite, []
    other = threading.Timer(STATEMENT_IS_SENT_SECONDS, lambda: beside.load(3))
    here = threading.current_thread()

    def slow_at_first(load: LoadContext, at: ReadView, plan: Any) -> Merged | None:
        if threading.current_thread() is not here:
            return rewrite(load, at, plan)
        if not outcomes:
            other.start()
        outcomes.append(rewrite(load, at, plan if outcomes else slowed(plan)))
        return outcomes[-1]

    monkeypatch.setattr(merge, "rewrite", slow_at_first)
    table.load(2)
    other.join()
    assert outcomes[0] is None
    assert table.rows("id", "value", "seq") == RIGHT | {("between", "b", 9)}


@pytest.mark.parametrize("meanwhile", [False, True], ids=["before it is written", "while it is written"])
def test_rows_that_another_load_brings_into_an_empty_table_are_not_written_over(
    spark: SparkSession, spark_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, meanwhile: bool
) -> None:
    content = {day(1): [item("kept", "a", 1), item("both", "a", 1)], day(2): [item("both", "b", 2)]}
    table = make(spark, tmp_path, content)
    beside = make(SparkSession.builder.remote(spark_url).create(), tmp_path, content)
    rewrite, outcomes, here = merge.rewrite, [], threading.current_thread()
    other = threading.Timer(STATEMENT_IS_SENT_SECONDS if meanwhile else 0, lambda: beside.load(2))

    def overtaken(load: LoadContext, at: ReadView, plan: Any) -> Merged | None:
        if threading.current_thread() is not here:
            return rewrite(load, at, plan)
        if not outcomes:
            other.start()
            if not meanwhile:
                other.join()
        outcomes.append(rewrite(load, at, slowed(plan) if meanwhile and not outcomes else plan))
        return outcomes[-1]

    monkeypatch.setattr(merge, "rewrite", overtaken)
    table.load(1)
    other.join()
    assert table.rows() == {("kept", "a", 1), ("both", "b", 2)}
    assert (outcomes[0] is None) == meanwhile


def test_a_rewrite_that_begins_after_its_successor_finished_changes_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = make(spark, tmp_path, CONTENT, **MERGE_REWRITTEN.declared)
    window = window_of(DAYS, day(2))
    held = LoadContext(spark, table.table, table.lake)
    ensure_tables(held)
    _ingest(held, window, Checkpoint())
    at = held.read_view((window,), app_id(table.table, window))
    plan = table.table.write.plan(held, at, full=False)
    table.load(2)
    table.content[day(3)] = [item(key, None, 5, "d", day=day(1)) for key in ("new", "changed")]
    table.load(3)
    assert replace_where.rewrite(held, at, plan) is None
    assert table.rows() == set()


@pytest.mark.parametrize(
    ("contract", "place"),
    [(StampedItem, "2026-01-05T10:00:00.123456Z"), (NamedItem, "it's a/b \\ c%20 = é")],
    ids=["timestamp", "text"],
)
def test_a_partition_of_any_name_is_found_again(
    spark: SparkSession, tmp_path: Path, contract: type, place: str
) -> None:
    column = "at" if contract is StampedItem else "place"
    content = {
        day(1): [item("kept", "a", 1, **{column: place}), item("changed", "a", 1, **{column: place})],
        day(2): [item("changed", "b", 2, **{column: place})],
    }
    table = make(spark, tmp_path, content, contract=contract, write=Rewritten(partition_by=column))
    assert [table.load(number).merged.rewrites for number in (1, 2)] == [1, 1]
    assert table.rows("id", "value", "seq") == {("kept", "a", 1), ("changed", "b", 2)}
