"""Loads that are really killed, and loads that really run at once, leave the table right."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from incload_assets.loading.applying import Phases
from incload_assets.loading.context import Context
from incload_assets.loading.load import Checkpoint, _land, ensure_tables
from incload_assets.loading.window import window_of
from incload_assets.loading.writes.merging import app_id, merge
from tests.loading.tables import DAYS, Loaded, day, item, make

CONTENT = {
    day(1): [item("kept", "a", 1), item("changed", "a", 1), item("deleted", "a", 1)],
    day(2): [item("changed", "b", 2), item("deleted", None, 2, "d"), item("new", "b", 2)],
}
RIGHT = {("kept", "a", 1), ("changed", "b", 2), ("new", "b", 2)}


def start(folder: Path, number: int, remote: str, point: str = "", barrier: str = "") -> "subprocess.Popen[bytes]":
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "tests.integration.loader",
        str(folder),
        str(number),
        point,
        barrier,
    ]
    return subprocess.Popen(command, env={**os.environ, "INCLOAD_TEST_REMOTE": remote})


def prepared(spark: SparkSession, folder: Path) -> Loaded:
    (folder / "content.json").write_text(json.dumps(CONTENT))
    table = make(spark, folder, dict(CONTENT))
    table.load(1)
    return table


@pytest.mark.parametrize("point", ["landing", "landed", "merging", "merged"])
def test_a_load_killed_at_any_point_leaves_nothing_that_its_repetition_does_not_put_right(
    spark: SparkSession, spark_url: str, tmp_path: Path, point: str
) -> None:
    table = prepared(spark, tmp_path)
    before = table.rows()
    process = start(tmp_path, 2, spark_url, point)
    assert process.wait(timeout=120) == -signal.SIGKILL
    if point in ("landing", "landed"):
        assert table.rows() == before
    table.load(2)
    assert table.rows() == RIGHT
    time.sleep(3)  # the server may still be at the MERGE that its client did not wait for
    assert table.rows() == RIGHT


def test_two_loads_of_the_same_window_and_one_of_another_at_once_give_the_same_table(
    spark: SparkSession, spark_url: str, tmp_path: Path
) -> None:
    table = prepared(spark, tmp_path)
    processes = [start(tmp_path, number, spark_url, "", "go") for number in (2, 2, 1)]
    deadline = time.monotonic() + 120
    while len(list(tmp_path.glob("ready-*"))) < len(processes):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    (tmp_path / "go").touch()
    assert [process.wait(timeout=240) for process in processes] == [0, 0, 0]
    assert table.rows() == RIGHT
    assert len(table.log("control", "_window")) == 2


def test_a_merge_that_begins_after_its_successor_finished_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """An insert's load is held back before its MERGE; its retry loads; a delete loads; then the old MERGE goes on."""
    table = make(spark, tmp_path, {day(1): [item("k", "a", 5)], day(2): [item("k", None, 10, "d")]})
    window = window_of(DAYS, day(1))
    held = Context(spark, table.table, table.lake)
    ensure_tables(held)
    _land(held, window, Checkpoint(), "", Phases(), lambda _: None)
    at = held.snapshot((window,), app_id(table.table, window))
    plan = table.table.write.plan(held, at, full=False)
    table.load(2)
    table.load(1)
    assert table.rows() == set()
    assert merge(held, at, plan) is None
    assert table.rows() == set()
