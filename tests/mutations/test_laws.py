"""Literal cases of the laws that only one line of the program keeps, line by line."""

from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from incload_assets.assets import Append, Changes, Merge
from incload_assets.change_log.context import LoadContext
from incload_assets.declaration.window import Window, window_of
from incload_assets.delta import data_files as parquet_files
from incload_assets.ingest.ingest import ingest
from incload_assets.ingest.ingestion import Ingestion
from incload_assets.load.load import _ingest
from incload_assets.load.reconcile import examine
from incload_assets.load.tables import ensure_tables
from incload_assets.platform.lake import Lake, data_files
from incload_assets.progress.checkpoint import Checkpoint
from incload_assets.trial.literal_source import Record
from incload_assets.writes.merge_into import app_id, merge
from incload_assets.writes.strategy import strategy_of
from tests.support.detection import detected
from tests.support.tables import DAYS, DatedItem, Loaded, day, item, make

FIRST = window_of(DAYS, day(1))


def context(table: Loaded) -> LoadContext:
    return table.context()


def only_land(table: Loaded, window: Window) -> None:
    """What a load does that is killed after its landing."""
    ensure_tables(context(table))
    _ingest(context(table), window, Checkpoint())


@pytest.mark.parametrize("full", [False, True])
def test_a_plan_that_another_window_overtook_leaves_its_newer_row_alone(
    spark: SparkSession, tmp_path: Path, full: bool
) -> None:
    table = make(spark, tmp_path, {day(n): [item("k", value, n)] for n, value in ((1, "old"), (2, "a"), (3, "b"))})
    table.load(1)
    second = window_of(DAYS, day(2))
    only_land(table, second)
    at = context(table).read_view((second,), app_id(table.table, second))
    plan = table.table.write.plan(context(table), at, full=full)
    table.load(3)
    merged = merge(context(table), at, plan)
    assert merged is None or merged.updated == 0
    assert table.rows() == {("k", "b", 3)}


@pytest.mark.parametrize("full", [False, True])
def test_a_plan_to_append_that_an_older_content_of_its_event_overtook_leaves_it_alone(
    spark: SparkSession, tmp_path: Path, full: bool
) -> None:
    content = {day(1): [item("k", "second", 2)], day(2): [item("k", "first", 1)]}
    declared: dict[str, Any] = {"write": Append(), "changes": Changes(keys=["id"], sequence_by=["seq"])}
    table = make(spark, tmp_path, content, **declared)
    only_land(table, FIRST)
    at = context(table).read_view((FIRST,), app_id(table.table, FIRST))
    plan = table.table.write.plan(context(table), at, full=full)
    table.load(2)
    merged = merge(context(table), at, plan)
    assert merged is None or merged.updated == 0
    assert table.rows() == {("k", "first", 1)}


def test_a_plan_of_single_columns_that_another_window_overtook_leaves_its_newer_row_alone(
    spark: SparkSession, tmp_path: Path
) -> None:
    content = {day(1): [item("k", "a", 1)], day(2): [item("k", None, 2, "d")], day(3): [item("k", "b", 3)]}
    table = make(spark, tmp_path, content, write=Merge(soft_delete="is_deleted"))
    table.load(1)
    second = window_of(DAYS, day(2))
    only_land(table, second)
    at = context(table).read_view((second,), app_id(table.table, second))
    plan = table.table.write.plan(context(table), at, full=False)
    table.load(3)
    merged = merge(context(table), at, plan)
    assert merged is None or merged.updated == 0
    assert table.rows("id", "value", "seq", "is_deleted") == {("k", "b", 3, False)}


@pytest.mark.parametrize("max_files", [0, parquet_files.MAX_FILES], ids=["Delta reads", "files are read"])
def test_a_plan_is_of_the_versions_that_it_was_made_from(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, max_files: int
) -> None:
    monkeypatch.setattr(parquet_files, "MAX_FILES", max_files)
    content = {day(1): [item("k", "a", 1), item("m", "a", 1)], day(2): [item("k", None, 2, "d")]}
    table = make(spark, tmp_path, {**content, day(3): [item("x", None, 1, "d")]})
    table.load(3)  # without a delete in another window there would be nothing to read of the log's others
    table.load(1)
    at = context(table).read_view((FIRST,), app_id(table.table, FIRST))
    plan = table.table.write.plan(context(table), at, full=False)
    before = examine(plan, at)[FIRST.key]
    only_land(table, window_of(DAYS, day(2)))
    assert examine(plan, at)[FIRST.key] == before  # whatever the log has become
    spark.sql(f"DELETE FROM {table.lake.sql_name(table.uri)} WHERE id = 'm'")
    assert examine(plan, at)[FIRST.key] == before  # whatever the table has become


def test_a_load_between_the_two_looks_of_a_snapshot_is_not_undone(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(spark, tmp_path, {day(1): [item("k", "a", 1)], day(2): [item("k", "b", 2)]})
    table.load(1)
    look, looks = Lake.delta, []

    def delta(lake: Lake, uri: str, version: int | None = None) -> DeltaTable | None:
        found = look(lake, uri, version)
        looks.append(uri)
        if len(looks) == 1:
            table.load(2)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(Lake, "delta", delta)
        at = context(table).read_view((FIRST,), app_id(table.table, FIRST))
    merge(context(table), at, table.table.write.plan(context(table), at, full=True))
    assert table.rows() == {("k", "b", 2)}


def test_a_landing_that_was_held_back_is_refused_after_its_repetition(spark: SparkSession, tmp_path: Path) -> None:
    """The source changes, a load of that is held before its landing, the source changes back, the load is repeated."""
    table = make(spark, tmp_path, {day(1): [item("k", "right", 1)]})
    table.load(1)
    record = context(table).log.record(FIRST.key)
    version = context(table).log.version()
    assert record is not None
    assert version is not None
    wrong: dict[str, list[Record]] = {day(1): [item("k", "wrong", 1)]}
    position = detected(make(spark, tmp_path, wrong).table.source, "items", [FIRST], {})[FIRST.key]
    held = Ingestion(FIRST, position, record, version, settled=False)
    table.load(1)
    assert not ingest(context(table), held, strategy_of(table.table).guard)
    assert table.log("upsert", "id", "value") == [("k", "right")]


def test_a_key_withdrawn_by_a_load_that_was_killed_is_withdrawn_by_the_next(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = make(spark, tmp_path, {day(1): [item("kept", "a", 1), item("withdrawn", "a", 1)]})
    table.load(1)
    table.content[day(1)] = [item("kept", "a", 1)]
    only_land(table, FIRST)
    table.load(1)
    assert table.rows() == {("kept", "a", 1)}


def test_a_delete_wins_against_upserts_of_its_sequence_from_any_window(spark: SparkSession, tmp_path: Path) -> None:
    keys = [f"k{n}" for n in range(10)]
    deletes = [item(key, None, 5, "d") for key in keys]
    upserts = [item(key, f"of {key}", 5) for key in keys]
    table = make(spark, tmp_path, {day(1): deletes, day(2): upserts})
    table.load(1)
    table.load(2)
    assert table.rows() == set()


def test_a_load_reads_no_file_of_other_partitions_and_windows(spark: SparkSession, tmp_path: Path) -> None:
    """Files that are gone cannot be read: so the load that succeeds has not tried."""
    content = {day(n): [item(str(n), "a", 1, day=day(n))] for n in (1, 2)}
    declared: dict[str, Any] = {"contract": DatedItem, "write": Merge(partition_by="day")}
    table = make(spark, tmp_path, content, **declared)
    table.load(1)
    table.load(2)
    log = table.lake.delta(table.lake.log_uri(table.table.key.path))
    assert log is not None
    foreign = [file for file in table.files() if day(1) in file]
    places = [
        (file["path"], file["partition._window"], file["partition._kind"]) for file in data_files(log).to_pylist()
    ]
    foreign += [f"{log.table_uri}/{path}" for path, window, kind in places if (window, kind) == (day(1), "upsert")]
    assert len(foreign) == 2
    for file in foreign:
        Path(file.removeprefix("file://")).unlink()
    table.content[day(2)] = [item("2", "b", 2, day=day(2)), item("new", "b", 2, day=day(2))]
    assert (table.load(2).merged.updated, table.load(2).merged.updated) == (1, 0)
