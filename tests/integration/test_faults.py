"""Faults of the machinery in the middle of a load: nothing is half-applied, and the next load succeeds."""

import json
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from incload_assets.assets import Files, Merge, Quarantine
from incload_assets.load.load import LoadReport
from incload_assets.platform.errors import IncrementalLoadError, SparkUnavailable
from incload_assets.platform.failures import translate
from incload_assets.platform.lake import Lake
from incload_assets.platform.settings import Settings
from incload_assets.platform.spark import server as connect_server
from incload_assets.platform.spark.resource import open_session
from tests.integration.loader import POINTS, at
from tests.servers.s3 import S3Server
from tests.support.tables import DatedItem, Loaded, day, item, make


def kill_server(settings: Settings) -> None:
    """End the Spark server and its JVM as a machine that loses power."""
    state = json.loads((settings.home_root / "spark" / "server.json").read_text())
    supervisor = psutil.Process(state["pid"])
    for process in [*supervisor.children(recursive=True), supervisor]:
        process.send_signal(signal.SIGKILL)


CONTENT = {
    day(1): [item("kept", "a", 1), item("changed", "a", 1), item("deleted", "a", 1)],
    day(2): [item("changed", "b", 2), item("deleted", None, 2, "d"), item("new", "b", 2)],
}
BEFORE = {("kept", "a", 1), ("changed", "a", 1), ("deleted", "a", 1)}
RIGHT = {("kept", "a", 1), ("changed", "b", 2), ("new", "b", 2)}


@pytest.fixture
def s3_settings(tmp_path: Path, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    """A server of its own, which knows S3 and which a test may kill."""
    for name, value in s3_server.environment().items():
        monkeypatch.setenv(name, value)
    root = f"s3://lake-{tmp_path.name.lower().replace('_', '-')}"
    settings = Settings(
        home=tmp_path, lake=f"{root}/lake", landing=f"{root}/landing", spark="local", spark_idle_minutes=5
    )
    monkeypatch.setenv("INCLOAD_LANDING", settings.landing_root)
    yield settings
    connect_server.stop(settings)


def test_a_spark_server_killed_under_loads_at_every_point_of_their_road_and_a_lake_on_s3(
    spark: SparkSession,
    s3_settings: Settings,
    s3_server: S3Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One server, killed once, serves all points: each has a load and a lake of its own, amid the MERGE one on S3."""
    make(spark, tmp_path / "first day", CONTENT).load(1)
    points = [point for point in POINTS if point not in ("merging", "before the checkpoint")]
    tables = {
        point: make(spark, shutil.copytree(tmp_path / "first day", tmp_path / point), CONTENT) for point in points
    }
    on_s3 = records_on_s3(s3_settings, s3_server, tmp_path)
    arrived, killed, road = {point: threading.Event() for point in points}, threading.Event(), threading.local()

    def wait_for_the_end(point: str) -> None:
        if getattr(road, "point", None) == point:
            arrived[point].set()
            assert killed.wait(900)

    def load(point: str) -> LoadReport:
        road.point = point
        with open_session(s3_settings, point) as session:
            return replace(tables[point], spark=session).load(2)

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(len(points)) as threads:
        for point in points:
            at(point, partial(wait_for_the_end, point), patch.setattr)
        loads = {point: threads.submit(load, point) for point in points}
        try:
            while not all(event.is_set() or loads[point].done() for point, event in arrived.items()):
                time.sleep(0.1)
            assert [loads[point].result() for point, event in arrived.items() if not event.is_set()] == []
            at("merging", partial(kill_server, s3_settings), patch.setattr)
            with pytest.raises(SparkUnavailable), open_session(s3_settings, "items 2026-01-01") as session:
                replace(on_s3, spark=session).load(1)
        finally:
            killed.set()
        ends = {point: load.exception() for point, load in loads.items()}
    assert ends.pop("after reconciling") is None  # all was done then
    assert [repr(error) for error in ends.values() if not isinstance(error, SparkUnavailable)] == []
    for point, table in tables.items():
        assert table.rows() == (RIGHT if point in ("after merging", "after reconciling") else BEFORE)
    with open_session(s3_settings, "items") as session:
        for table in tables.values():
            replace(table, spark=session).load(2)
            assert table.rows() == RIGHT
        report = replace(on_s3, spark=session).load(1)
        assert on_s3.rows() == {("1", "a", 1), ("2", "b", 1)}
        assert report.evidence.quarantined == 1
        assert on_s3.log("rejected", "_reasons") == [(["seq: 'soon' is not bigint"],)]


def records_on_s3(settings: Settings, server: S3Server, folder: Path) -> Loaded:
    """A table of two good records and a bad one, landing area and lake on S3."""
    rows = [{"id": "1", "value": "a", "seq": 1}, {"id": "2", "value": "b", "seq": 1}, {"id": "3", "seq": "soon"}]
    lines = "\n".join(json.dumps(row) for row in rows).encode()
    server.put(settings.lake_root.removeprefix("s3://").split("/")[0], {f"landing/items/{day(1)}/a.json": lines})
    source = Files("{landing}/items/{window:%Y-%m-%d}/*.json")
    table = make(None, folder, source=source, quarantine=Quarantine(max_share=0.5))  # type: ignore[arg-type]
    return replace(table, lake=Lake.of(settings))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system that soon is full."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "incload-test", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_leaves_the_table_as_it_was_and_the_next_load_succeeds(
    spark: SparkSession, small_disk: Path
) -> None:
    content = {day(1): [item("1", "a", 1, day=day(1))]}
    table = make(spark, small_disk, content, contract=DatedItem, write=Merge(partition_by="day"))
    table.load(1)
    noise = [f"{(n * 2654435761) % 2**64:x}" * 4 for n in range(20_000)]
    table.content[day(2)] = [item(f"n{n}", text, 1, day=day(2)) for n, text in enumerate(noise)]
    with pytest.raises(Exception) as caught:
        table.load(2)
    meaning = translate(caught.value, "items 2026-01-02")
    assert isinstance(meaning, IncrementalLoadError)
    assert "full" in str(meaning)
    assert table.rows("id") == {("1",)}
    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    assert table.load(2).merged.inserted == len(noise)
    assert len(table.rows("id")) == 1 + len(noise)
