"""Which runs the queue launches beside which, by the project's own ``dagster.yaml``: real processes, a real queue."""

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import pytest
from dagster._cli.job import _create_run
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import PythonFileTarget
from dagster._daemon.run_coordinator.queued_run_coordinator_daemon import QueuedRunCoordinatorDaemon

from incload_assets.platform.settings import Settings
from incload_assets.progress.run_tags import PROCESS_TAG, own_tag
from incload_assets.runs.warm_servers import stop_warm_servers
from tests.support.project_copy import PROJECT

JOBS = """
import time
import dagster as dg
from incload_assets.progress.run_tags import REQUESTED_PARTITIONS_TAG, SERIALIZED_TAG, TABLE_TAG, UPKEEP
from incload_assets.shop.definitions import advance_shop

@dg.op
def slow():
    time.sleep(600)

def job_of(name, **tags):
    @dg.job(name=name, executor_def=dg.in_process_executor, tags=tags)
    def made():
        slow()
    return made

load = {TABLE_TAG: "orders"}
defs = dg.Definitions(
    jobs=[
        job_of("state", **{TABLE_TAG: "customers", SERIALIZED_TAG: "customers"}),
        job_of("load", **load),
        job_of("backlog", **load, **{REQUESTED_PARTITIONS_TAG: "2026-01-01...2026-01-05"}),
        job_of("upkeep", **UPKEEP),
        job_of("clock", **advance_shop.tags),
    ],
)
"""
UNDER_WAY = (dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED)


@dataclass
class Queue:
    """The queue of a code location.

    Args:
        process: Dagster's, with the code server.
        daemon: Dagster's, which launches what is queued.
    """

    process: WorkspaceProcessContext
    daemon: QueuedRunCoordinatorDaemon

    @property
    def instance(self) -> dg.DagsterInstance:
        return self.process.instance

    def submit(self, *jobs: str) -> None:
        """Queue a run of each of the jobs, in this order."""
        workspace = self.process.create_request_context()
        location = workspace.code_locations[0]
        [repository] = location.get_repositories().values()
        for name in jobs:
            job = repository.get_full_job(name)
            run = _create_run(self.instance, location, repository, job, {}, None, None, None)
            self.instance.submit_run(run.run_id, workspace)

    def launched(self) -> list[str]:
        """The jobs of the runs that are under way once the queue has been gone through, in the order of submission."""
        list(self.daemon.run_iteration(self.process))
        runs = self.instance.get_runs(ascending=True)
        return [run.job_name for run in runs if run.status in UNDER_WAY]

    def kill_all(self) -> None:
        """Kill the process of every run."""
        marks = [own_tag(run, PROCESS_TAG) for run in self.instance.get_runs(dg.RunsFilter(statuses=list(UNDER_WAY)))]
        for mark in filter(None, marks):
            with suppress(ProcessLookupError):
                os.kill(int(mark.rsplit(":", 2)[1]), signal.SIGKILL)


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Queue]:
    monkeypatch.setenv("INCLOAD_HOME", str(tmp_path / "home"))
    (tmp_path / "jobs.py").write_text(JOBS)
    (tmp_path / "dagster").mkdir()
    shutil.copy(PROJECT / ".dagster_home" / "dagster.yaml", tmp_path / "dagster")
    with (tmp_path / "dagster" / "dagster.yaml").open("a") as config:
        config.write("\ncode_servers: {wait_for_local_processes_on_shutdown: true}\n")
    target = PythonFileTarget(str(tmp_path / "jobs.py"), None, str(PROJECT), "jobs")
    with (
        dg.DagsterInstance.from_config(str(tmp_path / "dagster")) as instance,
        WorkspaceProcessContext(instance, target) as process,
        QueuedRunCoordinatorDaemon(interval_seconds=1) as daemon,
    ):
        queue = Queue(process, daemon)
        yield queue
        queue.kill_all()
    stop_warm_servers(Settings())


def test_the_shops_clock_does_not_wait_behind_loads_nor_loads_and_upkeep_for_each_other(queue: Queue) -> None:
    queue.submit("load", "load", "load", "upkeep", "upkeep", "clock")
    assert queue.launched() == ["load", "load", "upkeep", "clock"]
    assert queue.launched() == ["load", "load", "upkeep", "clock"]


def test_a_backlog_leaves_a_place_to_other_loads(queue: Queue) -> None:
    queue.submit("backlog", "backlog", "load", "load")
    assert queue.launched() == ["backlog", "load"]


def test_a_load_that_has_to_wait_for_another_of_its_table_takes_no_place(queue: Queue) -> None:
    queue.submit("state", "state", "load")
    assert queue.launched() == ["state", "load"]
