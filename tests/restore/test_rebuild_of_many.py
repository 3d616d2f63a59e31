"""Rebuilds of tables of every kind and of many windows: what each partition is told, and what it takes."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from incload_assets.assets import FullReload, Snapshot
from incload_assets.change_log.context import LoadContext
from incload_assets.declaration.changes import Changes
from incload_assets.declaration.window import window_of
from incload_assets.load.load import _ingest
from incload_assets.load.tables import ensure_tables
from incload_assets.progress.checkpoint import Checkpoint, at_rest, fingerprints_of
from incload_assets.restore import rebuild as module
from incload_assets.restore.rebuild import rebuild
from tests.support.many_windows import UntouchableSource, many_windows
from tests.support.tables import DAYS, Loaded, day, item, make


@pytest.fixture
def wiped(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    """An instance that has lost everything, with a storage of the default kind."""
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        yield instance


def context(table: Loaded, **declared: Any) -> LoadContext:
    return LoadContext(table.spark, replace(table.table, **declared), table.lake)


def test_many_windows_take_one_plan_and_their_checkpoints_are_what_dagster_records_itself(
    spark: SparkSession, tmp_path: Path, wiped: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, plans = many_windows(spark, tmp_path / "lake", 60), []
    examine = module.examine
    monkeypatch.setattr(module, "examine", lambda *given: plans.append(given) or examine(*given))
    before = table.versions()
    found = rebuild(context(table), wiped)  # its source raises when it is asked for anything
    assert (len(found.proven), found.refused, len(plans)) == (60, {}, 1)
    assert table.versions() == before
    records = context(table).log.records()
    assert fingerprints_of(wiped, table.table.key) == {key: record.fingerprint for key, record in records.items()}
    assert wiped.get_materialized_partitions(table.table.key) == records.keys()
    last = wiped.get_latest_materialization_event(table.table.key)
    assert last is not None and last.asset_materialization is not None
    assert last.asset_materialization.partition == max(records)
    assert rebuild(context(table), wiped).kept == sorted(records)
    assert len(plans) == 1


def test_each_partition_that_is_not_proven_says_why(
    spark: SparkSession, tmp_path: Path, wiped: dg.DagsterInstance
) -> None:
    table = make(spark, tmp_path / "lake", {day(n): [item(f"k{n}", "a", n)] for n in range(1, 6)})
    for n in (2, 3, 4, 5):
        table.load(n)
    ensure_tables(context(table))
    _ingest(context(table), window_of(DAYS, day(1)), Checkpoint(untried=True))  # killed before its merge
    spark.sql(f"UPDATE {table.lake.sql_name(table.uri)} SET value = 'edited' WHERE id = 'k2'")
    spark.sql(f"DELETE FROM {table.lake.sql_name(context(table).log.uri)} WHERE id = 'k3'")
    spark.sql(f"DELETE FROM {table.lake.sql_name(table.uri)} WHERE id = 'k3'")
    later = dg.DailyPartitionsDefinition("2026-01-02")
    found = rebuild(context(table, partitions_def=later), wiped)
    assert found.proven == [day(4), day(5)]
    for number, why in {
        1: "the partitions definition has no such partition",
        2: "log and table differ in 1 of 1 key; a load repairs them",
        3: "1 rows were read, but 0 applied + 0 stale",
    }.items():
        assert why in found.refused[day(number)]
    assert rebuild(context(table), wiped).refused[day(1)] == "it was ingested, but not merged; a load merges it"
    assert rebuild(context(table, code_version="2"), wiped).refused[day(1)].startswith("other code has validated")
    for n in (1, 2, 3):
        table.load(n)
    assert rebuild(context(table), wiped).proven == [day(1), day(2), day(3)]


@pytest.mark.parametrize("write", [FullReload(), Snapshot()], ids=["full reload", "snapshot"])
def test_extracts_are_proven_one_by_one(
    spark: SparkSession, tmp_path: Path, wiped: dg.DagsterInstance, write: Any
) -> None:
    content = {day(1): [item("a", "1", 1), item("b", "1", 1)], day(2): [item("a", "2", 2)]}
    table = make(spark, tmp_path / "lake", content, write=write, changes=Changes(keys=["id"], sequence_by=["seq"]))
    table.load(1)
    table.load(2)
    found = rebuild(context(table, source=UntouchableSource({})), wiped)
    assert (found.proven, found.refused) == ([day(1), day(2)], {})
    assert at_rest(wiped, table.table.key, DAYS, [day(1)], "") == {}  # no run is known: a load moves its fences
