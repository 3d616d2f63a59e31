"""Faults of the machinery in the middle of a load: nothing is half-applied, and the next load succeeds."""

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from incload_assets.loading import Files, Merge, Quarantine
from incload_assets.loading import load as load_module
from incload_assets.loading.errors import IncrementalLoadError, SparkUnavailable
from resources import connect_server
from resources.failures import translate
from resources.lake import Lake
from resources.settings import Settings
from resources.spark import open_session
from tests.loading.tables import DatedItem, day, item, make
from tests.s3_server import S3Server


def kill_server(settings: Settings) -> None:
    """End the Spark server and its JVM as a machine that loses power."""
    state = json.loads((settings.home_root / "spark" / "server.json").read_text())
    supervisor = psutil.Process(state["pid"])
    for process in [*supervisor.children(recursive=True), supervisor]:
        process.send_signal(signal.SIGKILL)


def test_a_spark_server_killed_in_mid_merge_and_landing_and_lake_on_s3(
    tmp_path: Path, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One server of its own, with the S3 jars, serves both stories: starting one takes long."""
    for name, value in s3_server.environment().items():
        monkeypatch.setenv(name, value)
    bucket = f"lake-{tmp_path.name.lower().replace('_', '-')}"
    rows = [item("1", "a", 1), item("2", "b", 1), {**item("3", "c", 1), "seq": "soon"}, item("4", "d", 1)]
    lines = "\n".join(
        json.dumps({**row, "seq": int(row["seq"] or 0) if row["seq"] != "soon" else "soon"}) for row in rows
    )
    s3_server.put(bucket, {"landing/items/2026-01-01/a.json": lines.encode()})
    root = f"s3://{bucket}"
    settings = Settings(
        home=tmp_path, lake=f"{root}/lake", landing=f"{root}/landing", spark="local", spark_idle_minutes=5
    )
    monkeypatch.setenv("INCLOAD_LANDING", settings.landing_root)
    source = Files("{landing}/items/{window:%Y-%m-%d}/*.json")
    try:
        with pytest.raises(SparkUnavailable), open_session(settings, "items 2026-01-01") as spark:
            table = make(spark, tmp_path, source=source, quarantine=Quarantine(max_share=0.5))
            table.lake = Lake.of(settings)
            with pytest.MonkeyPatch.context() as patch:
                merge = load_module.merge

                def merge_and_lose_the_server(*args: object) -> object:
                    threading.Timer(0.3, kill_server, [settings]).start()
                    return merge(*args)  # type: ignore[arg-type]

                patch.setattr(load_module, "merge", merge_and_lose_the_server)
                table.load(1)
        with open_session(settings, "items 2026-01-01") as spark:
            table.spark = spark
            report = table.load(1)
            assert table.rows() == {("1", "a", 1), ("2", "b", 1), ("4", "d", 1)}
            assert report.evidence.quarantined == 1
            assert table.log("rejected", "_reasons") == [(["seq: 'soon' is not bigint"],)]
            s3_server.put(bucket, {"landing/items/2026-01-01/a.json": lines.splitlines()[0].encode()})
            table.load(1)
            assert table.rows() == {("1", "a", 1)}
    finally:
        connect_server.stop(settings)


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
