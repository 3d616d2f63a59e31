"""Backups of Dagster's storage: made while runs are recorded, put back, thinned, and refused where they do no good."""

import sqlite3
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread

import dagster as dg
import pytest
from dagster._daemon.types import DaemonHeartbeat

from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.progress.backup import back_up, backups, restore
from incload_assets.restore.jobs import backup_job

DAYS = dg.DailyPartitionsDefinition("2026-01-01", end_date="2026-02-01")


@dg.asset(partitions_def=DAYS)
def numbers() -> None: ...


def load(instance: dg.DagsterInstance, *days: int) -> None:
    for day in days:
        assert dg.materialize([numbers], instance=instance, partition_key=f"2026-01-{day:02d}").success


def known(home: Path) -> set[str]:
    """The loaded partitions whose runs are known."""
    with dg.DagsterInstance.from_config(str(home)) as instance:
        records = instance.fetch_materializations(numbers.key, limit=1000).records
        return {str(r.partition_key) for r in records if instance.get_run_by_id(r.run_id) is not None}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "dagster"
    home.mkdir()
    return home


@pytest.fixture
def instance(home: Path) -> Iterator[dg.DagsterInstance]:
    # no process that follows the output of each run: on a busy machine it outlives the run
    logs = {"module": "dagster._core.storage.noop_compute_log_manager", "class": "NoOpComputeLogManager"}
    with dg.DagsterInstance.local_temp(str(home), {"compute_logs": logs}) as instance:
        yield instance


def test_a_backup_brings_back_every_checkpoint_and_what_was_there_is_kept(
    home: Path, instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    load(instance, 1, 2)
    made = back_up(instance, tmp_path / "backups")
    load(instance, 3)
    replaced = restore(made.file, home)
    assert known(home) == {"2026-01-01", "2026-01-02"}
    assert (replaced / "history" / "runs.db").is_file()
    assert made.databases == len(zipfile.ZipFile(made.file).namelist())


def test_a_backup_with_checkpoints_that_no_run_has_made_can_be_put_back(
    home: Path, instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    """Dagster keeps the events of no run in a database whose name is the extension alone."""
    load(instance, 1)
    instance.report_runless_asset_event(dg.AssetMaterialization(numbers.key, partition="2026-01-02"))
    made = back_up(instance, tmp_path / "backups")
    assert "history/runs/.db" in zipfile.ZipFile(made.file).namelist()
    restore(made.file, home)
    with dg.DagsterInstance.from_config(str(home)) as restored:
        assert restored.get_materialized_partitions(numbers.key) == {"2026-01-01", "2026-01-02"}


def test_a_backup_that_is_made_while_runs_are_recorded_has_no_event_without_its_run(
    home: Path, instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    over = Event()

    def run() -> None:
        day = 0
        while not over.is_set() and day < 31:
            day += 1
            load(instance, day)

    load(instance, 1)
    thread = Thread(target=run)
    thread.start()
    try:
        made = [back_up(instance, tmp_path / "backups", keep=1) for _ in range(3)][-1]
    finally:
        over.set()
        thread.join()
    restore(made.file, home)
    for file in home.rglob("history/**/*.db"):
        with sqlite3.connect(file) as database:
            assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",), file
    with dg.DagsterInstance.from_config(str(home)) as restored:
        records = restored.fetch_materializations(numbers.key, limit=1000).records
        assert records and all(restored.get_run_by_id(record.run_id) is not None for record in records)


def test_only_the_newest_backups_are_kept(instance: dg.DagsterInstance, tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    for day in (1, 2, 3):
        (folder / f"dagster-2026010{day}T020000Z.zip").touch()
    (folder / "of somebody else.zip").touch()
    made = back_up(instance, folder, keep=2)
    assert backups(folder) == [folder / "dagster-20260103T020000Z.zip", made.file]
    assert (folder / "of somebody else.zip").exists()
    assert not list(folder.glob(".unfinished-*"))


def test_what_is_no_backup_is_refused_and_nothing_is_changed(
    home: Path, instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    load(instance, 1)
    text, foreign = tmp_path / "a.zip", tmp_path / "b.zip"
    text.write_text("no archive")
    with zipfile.ZipFile(foreign, "w") as archive:
        archive.writestr("../history/runs.db", "x")
    for file in (text, foreign, tmp_path / "absent.zip"):
        with pytest.raises(IncrementalLoadError, match="nothing was changed"):
            restore(file, home)
    assert known(home) == {"2026-01-01"}


def test_the_storage_of_a_running_dagster_is_not_replaced(
    home: Path, instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    made = back_up(instance, tmp_path)
    instance.add_daemon_heartbeat(DaemonHeartbeat(time.time(), "SENSOR", None, []))
    with pytest.raises(IncrementalLoadError, match="a daemon of Dagster is using"):
        restore(made.file, home)


def test_storage_of_another_kind_is_left_to_its_own_means(tmp_path: Path) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        with pytest.raises(IncrementalLoadError, match="pg_dump"):
            back_up(instance, tmp_path)
        assert backup_job().execute_in_process(instance=instance).success
    assert list(tmp_path.iterdir()) == []
