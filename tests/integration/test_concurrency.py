"""Loads that really run at once, in processes of their own, on one Spark server."""

import os
import random
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from incload_assets.assets import Merge
from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.log import ChangeLog
from incload_assets.ingest.ingestion import ingestion_app_id
from incload_assets.load.tables import ensure_tables
from incload_assets.platform.settings import Settings
from incload_assets.platform.spark.resource import open_session
from incload_assets.trial.literal_source import Record
from incload_assets.writes import merge as merge_module
from tests.integration.loader import STATEMENT_IS_SENT_SECONDS, at_once, slowed
from tests.support.sampling import NIGHT
from tests.support.tables import DatedItem, Loaded, day, item, make
from tests.writes.case import Case, order_of
from tests.writes.case_append import APPEND
from tests.writes.case_delete_insert import DELETE_INSERT
from tests.writes.case_full_reload import FULL_RELOAD
from tests.writes.case_history import HISTORY
from tests.writes.case_merge import newest
from tests.writes.case_merge_rewritten import MERGE_REWRITTEN, of_one_day
from tests.writes.case_merge_soft_delete import MERGE_SOFT_DELETE
from tests.writes.case_snapshot import SNAPSHOT

EVENTS: dict[str, Any] = {"contract": DatedItem, "write": Merge(partition_by="day")}
LOST = "another load committed first"


def version(table: Loaded) -> int:
    found = table.lake.version(table.uri)
    assert found is not None
    return found


def test_loads_of_different_partitions_commit_beside_each_other_without_a_retry(
    spark: SparkSession, spark_url: str, tmp_path: Path
) -> None:
    content = {day(n): [item("moved", "a", 1, day=day(n)), item(str(n), "b", 1, day=day(n))] for n in range(1, 5)}
    content = {key: [{**row, "id": f"{key} {row['id']}"} for row in rows] for key, rows in content.items()}
    table = make(spark, tmp_path, content, **EVENTS)
    table.load(1)
    before = version(table)
    told = at_once(tmp_path, spark_url, [2, 3, 4], content, meet="before merging", **EVENTS)
    assert not [said for said in told if LOST in said]
    assert version(table) == before + 3
    assert table.rows("id") == {(row["id"],) for rows in content.values() for row in rows}


def test_of_two_loads_of_one_window_at_once_one_lands_and_the_other_moves_the_fence_behind_it(
    spark: SparkSession, spark_url: str, tmp_path: Path
) -> None:
    content = {day(1): [item("changed", "a", 1), item("deleted", "a", 1)]}
    table = make(spark, tmp_path, content)
    first = table.load(1)
    content[day(1)] = [item("changed", "b", 2), item("deleted", None, 2, "d"), item("new", "b", 2)]
    at_once(tmp_path, spark_url, [1, 1], content, meet="before landing")
    assert table.rows() == {("changed", "b", 2), ("new", "b", 2)}
    [(record,)] = table.log("control", "_control")
    assert record["landing"] == first.record.landing + 1  # the second one saw that the log has the source's content
    fence = ingestion_app_id(table.table, first.window)
    assert table.lake.transaction_version(table.lake.log_uri(["items"]), fence) == first.record.landing + 2


def test_of_two_people_who_undo_at_once_one_undoes_and_the_other_is_told_who_did(
    spark: SparkSession, spark_url: str, tmp_path: Path
) -> None:
    content = {day(1): [item("changed", "a", 1), item("deleted", "a", 1)]}
    table = make(spark, tmp_path, content)
    table.load(1)
    content[day(1)] = [item("changed", "b", 2), item("new", "b", 2)]
    table.load(1)
    told = at_once(tmp_path, spark_url, [1, 1], content, meet="before landing", actors=["ada", "bob"])
    assert table.rows() == {("changed", "a", 1), ("deleted", "a", 1)}
    record = ChangeLog(table.table, table.lake).records()[day(1)]
    assert (record.landing, record.former) == (3, 2)
    assert record.hold is not None and (record.hold.undone, record.hold.returned_to) == (2, 1)
    done = [number for number, said in enumerate(told) if "returned to landing 1" in said]
    assert [["ada", "bob"][number] for number in done] == [record.hold.actor]
    assert [number for number, said in enumerate(told) if f"is held by {record.hold.actor} since" in said] == [
        1 - done[0]
    ]


def random_changes(seed: int) -> dict[str, list[Record]]:
    """Three windows that quarrel about a few keys: ties, deletes, NULL sequences, repetitions."""
    chance = random.Random(seed)
    return {
        day(n): [
            item(str(chance.randint(1, 12)), chance.choice("abc"), chance.choice([None, 0, 1, 2]), chance.choice("uud"))
            for _ in range(30)
        ]
        for n in range(1, 4)
    }


@pytest.mark.parametrize("seed", [int(os.environ["INCLOAD_TEST_SEED"])], ids=str)
def test_loads_of_a_state_table_at_once_and_without_its_pool_give_the_fold(
    spark: SparkSession, spark_url: str, tmp_path: Path, seed: int
) -> None:
    table = make(spark, tmp_path, random_changes(seed))
    ensure_tables(LoadContext(spark, table.table, table.lake))
    told = at_once(tmp_path, spark_url, [1, 2, 3], table.content, meet="before merging")
    assert table.rows() == newest(table.content, order_of(table))
    assert [said for said in told if LOST in said]


@pytest.mark.parametrize("seed", [int(os.environ["INCLOAD_TEST_SEED"])], ids=str)
def test_loads_that_write_one_partition_again_at_once_give_the_fold(
    spark: SparkSession, spark_url: str, tmp_path: Path, seed: int
) -> None:
    content = of_one_day(random_changes(seed))
    table = make(spark, tmp_path, content, **MERGE_REWRITTEN.declared)
    ensure_tables(LoadContext(spark, table.table, table.lake))
    told = at_once(tmp_path, spark_url, [1, 2, 3], content, meet="before merging", **MERGE_REWRITTEN.declared)
    assert MERGE_REWRITTEN.held(table) == MERGE_REWRITTEN.right(table, content)
    assert [said for said in told if LOST in said]


@pytest.mark.parametrize("seed", [int(os.environ["INCLOAD_TEST_SEED"])], ids=str)
@pytest.mark.parametrize(
    "case",
    [HISTORY, APPEND, FULL_RELOAD, DELETE_INSERT, MERGE_SOFT_DELETE, *([SNAPSHOT] if NIGHT else [])],
    ids=lambda case: case.name,
)
def test_loads_of_one_table_at_once_give_what_they_give_one_by_one_in_every_way_of_writing(
    spark: SparkSession, spark_url: str, tmp_path: Path, case: Case, seed: int
) -> None:
    loads = [1, 2, 3] if NIGHT else [1, 2]
    content = {day(n): random_changes(seed)[day(n)] for n in loads}
    if case.changes.delete_when is None:
        content = {key: [{**row, "op": "u"} for row in rows] for key, rows in content.items()}
    if case.changes.truncate_when:
        for n in loads:
            content[day(n)].append(item(None, None, n - 1, "t"))
    table = make(spark, tmp_path, content, **case.declared)
    table.load(2)
    content[day(2)] = content[day(2)][10:]
    told = at_once(tmp_path, spark_url, loads, content, meet="before merging", **case.declared)
    assert case.held(table) == case.right(table, content)
    assert [said for said in told if LOST in said] or not case.write.whole


def test_a_load_stays_right_beside_an_optimize_that_never_pauses(
    spark: SparkSession, spark_settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = {day(n): [item(str(n), "a", 1)] for n in (1, 2)} | {day(3): [item("1", "b", 2), item("3", "b", 2)]}
    table = make(spark, tmp_path, content)
    table.load(1)
    table.load(2)
    assert len(table.files()) > 1
    done, refused, merge, merges = threading.Event(), [], merge_module.merge, []

    def optimize() -> None:
        with open_session(spark_settings) as session:
            while not done.wait(0.2):
                for uri in (table.uri, table.lake.log_uri(table.table.key.path)):
                    try:
                        session.sql(f"OPTIMIZE {table.lake.sql_name(uri)}").first()
                    except PySparkException as error:  # it gives way to loads
                        refused.append(str(error))

    maintenance = threading.Timer(STATEMENT_IS_SENT_SECONDS, optimize)

    def slow_at_first(context: Any, at: Any, plan: Any) -> Any:
        if not merges:
            maintenance.start()
        merges.append(merge(context, at, plan if merges else slowed(plan)))
        return merges[-1]

    monkeypatch.setattr(merge_module, "merge", slow_at_first)
    try:
        table.load(3)
    finally:
        done.set()
        maintenance.join()
    assert table.rows() == {("1", "b", 2), ("2", "a", 1), ("3", "b", 2)}
    assert merges[0] is None  # OPTIMIZE came first, and the load planned again
    assert all("DELTA_CONCURRENT" in text for text in refused)


def test_a_reader_sees_a_window_before_or_after_its_load_and_never_in_between(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Every content moves the row between two keys and stamps both partitions of the table."""

    def content(number: int) -> list[Record]:
        gone, there = ("left", "right") if number % 2 else ("right", "left")
        return [
            item(gone, None, number, "d", day=day(1)),
            item(there, str(number), number, day=day(1)),
            item("stamp", str(number), number, day=day(2)),
        ]

    table = make(spark, tmp_path, {day(1): content(0)}, **EVENTS)
    table.load(1)
    states = [{(row["id"], row["value"]) for row in content(n) if row["op"] == "u"} for n in range(4)]
    seen: list[set[tuple[Any, ...]]] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            seen.append(table.rows("id", "value"))
            time.sleep(0.05)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for number in range(1, 4):
            table.content[day(1)] = content(number)
            table.load(1)
    finally:
        done.set()
        reader.join()
    assert len(seen) > 20
    order = [states.index(rows) for rows in seen]  # fails on anything that is no content's state
    assert order == sorted(order)
