"""Answers about many tables are those about each: what is remembered, read together or looked at side by side."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.events import AssetMaterializationPlannedData
from dagster._core.test_utils import create_run_for_test

from incload_assets.change_log import window_records
from incload_assets.change_log.change import CONTROL
from incload_assets.change_log.log import ChangeLog
from incload_assets.declaration.window import known_windows, window_of
from incload_assets.delta.fences import transaction_versions
from incload_assets.load.faults import unreadable_tables
from incload_assets.platform.dagster_private import AssetPartitionStatus
from incload_assets.platform.lake import files_in
from incload_assets.platform.settings import current_settings
from incload_assets.progress.progress import progress_of, windows_to_look_at
from incload_assets.progress.status import table_status
from incload_assets.restore.doctor import examine
from incload_assets.writes.merge_into import app_id
from tests.support.many_tables import ManyTables, many_tables

PARTITIONS = 40


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> ManyTables:
    return many_tables(tmp_path_factory.mktemp("project") / "shop", 4, PARTITIONS)


@pytest.fixture
def instance(lake: ManyTables, monkeypatch: pytest.MonkeyPatch) -> Iterator[dg.DagsterInstance]:
    monkeypatch.setattr(window_records, "_remembered", {})
    with lake.entered() as instance:
        yield instance


def test_tables_that_were_made_without_a_load_are_loaded_and_agree(
    lake: ManyTables, instance: dg.DagsterInstance
) -> None:
    tables = lake.tables()
    states = [table_status(instance, table, lake.lake, lake.at) for table in tables.values()]
    assert [(one.table, len(one.loaded), one.rows) for one in states] == [(name, 40, 40) for name in tables]
    assert examine(instance, tables.values(), lake.lake, lake.at) == []


def test_a_table_of_hours_is_loaded_to_the_last_hour(tmp_path: Path) -> None:
    hours = many_tables(tmp_path / "hours", 1, PARTITIONS, hourly=True)
    with hours.entered() as instance:
        found = table_status(instance, hours.tables()["t0000"], hours.lake, hours.at)
    assert len(found.loaded) == PARTITIONS
    assert found.loaded[-1] == f"{hours.at - timedelta(hours=1):%Y-%m-%d-%H:00}"


def test_another_process_has_the_window_records_without_opening_their_files(
    lake: ManyTables, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = lake.tables()
    log = ChangeLog(tables["t0002"], lake.lake)
    read = window_records._read(log.open(), files_in(log.files(log.open()), "_kind", [CONTROL]))
    monkeypatch.setattr(window_records, "_read", lambda *_: pytest.fail("files were opened"))
    assert log.records() == read and len(read) == PARTITIONS
    assert len(progress_of(instance, tables["t0003"], lake.lake, lake.at)) == PARTITIONS


def test_an_erasure_leaves_no_window_records_outside_the_lake(
    lake: ManyTables, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = ChangeLog(lake.tables()["t0001"], lake.lake)
    assert len(log.records()) == PARTITIONS
    kept = current_settings().home_root / "window_records.sqlite"
    assert kept.exists()
    window_records.forget_shared_records()
    assert not kept.exists()
    monkeypatch.setattr(window_records, "_remembered", {})
    assert len(log.records()) == PARTITIONS


def test_one_table_among_many_that_cannot_be_read_is_named_and_only_that(
    lake: ManyTables, instance: dg.DagsterInstance
) -> None:
    tables = lake.tables().values()
    assert unreadable_tables(tables, lake.lake) == {}
    assert unreadable_tables(tables, lake.lake) == {}
    commit = max(Path(lake.lake.table_uri(["t0001"]), "_delta_log").glob("*.json"))
    text = commit.read_text()
    commit.write_text(text[: len(text) // 2])
    found = unreadable_tables(tables, lake.lake)
    assert [*found] == ["t0001"] and commit.name in found["t0001"]
    assert [one.table for one in examine(instance, tables, lake.lake, lake.at)] == ["t0001"]
    commit.write_text(text)
    assert unreadable_tables(tables, lake.lake) == {}


def test_a_window_record_whose_file_is_gone_is_missed_although_it_is_remembered(
    lake: ManyTables, instance: dg.DagsterInstance
) -> None:
    log = ChangeLog(lake.tables()["t0000"], lake.lake)
    file = next(Path(log.uri).glob("landed/*/_kind=control/control.parquet"))
    hidden = file.rename(file.with_suffix(".gone"))
    with pytest.raises(FileNotFoundError, match=r"control\.parquet"):
        log.records()
    hidden.rename(file)
    assert len(log.records()) == PARTITIONS


def test_fences_that_are_read_together_are_those_that_delta_gives_for_each(
    lake: ManyTables, instance: dg.DagsterInstance
) -> None:
    table, delta = lake.tables()["t0003"], lake.lake.delta(lake.lake.table_uri(["t0003"]))
    assert delta is not None
    fences = [app_id(table, window) for window in windows_to_look_at(table, lake.at)]
    versions = {fence: delta.transaction_version(fence) for fence in fences}
    assert len(versions) == PARTITIONS and None not in versions.values()
    assert transaction_versions(delta, [*fences, "none"]) == versions


def test_statuses_that_are_read_together_are_those_that_dagster_gives_for_each(
    lake: ManyTables, instance: dg.DagsterInstance
) -> None:
    table = lake.tables()["t0002"]
    keys = [window.key for window in windows_to_look_at(table, lake.at)]
    run = create_run_for_test(instance, job_name="made_up", status=dg.DagsterRunStatus.STARTED)
    planned = AssetMaterializationPlannedData(table.key, partition=keys[3])
    event = dg.DagsterEvent.build_asset_materialization_planned_event("made_up", "step", planned)
    instance.report_dagster_event(event, run.run_id)
    told = instance.get_status_by_partition(table.key, keys, table.partitions_def) or {}
    assert told[keys[3]] is AssetPartitionStatus.IN_PROGRESS
    statuses = [window.status for window in progress_of(instance, table, lake.lake, lake.at)]
    assert statuses == ["in_progress" if key == keys[3] else "loaded" for key in keys]


def test_windows_of_many_keys_are_those_of_each_and_unknown_keys_are_left_out() -> None:
    days = dg.DailyPartitionsDefinition("2026-01-01", timezone="Europe/Berlin")
    keys = days.get_partition_keys()[:300]
    assert known_windows(days, [*reversed(keys), "2025-12-31", "x"]) == [window_of(days, key) for key in keys]
    spring = next(window for window in known_windows(days, keys) if window.key == "2026-03-29")
    assert spring.end - spring.start == timedelta(hours=23)
