"""The queue of a code location by the project's own ``dagster.yaml``, with Dagster's daemons and what the UI asks."""

import os
import shutil
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from logging import getLogger
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._cli.job import _create_run
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import PythonFileTarget
from dagster._daemon.backfill import execute_backfill_iteration
from dagster._daemon.run_coordinator.queued_run_coordinator_daemon import QueuedRunCoordinatorDaemon
from dagster_graphql.test.utils import execute_dagster_graphql

from incload_assets.platform.settings import Settings
from incload_assets.progress.run_tags import PROCESS_TAG, own_tag
from incload_assets.runs.warm_servers import stop_warm_servers
from tests.support.project_copy import PROJECT

UNDER_WAY = (dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED)
_LAUNCH = """mutation ($of: ExecutionParams!) { launchPipelineExecution(executionParams: $of) {
    ... on LaunchRunSuccess { run { runId } }
    ... on RunConfigValidationInvalid { errors { message } }
    ... on PythonError { message causes { message } } } }"""


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

    def submit(self, *jobs: str, tags: Mapping[str, str] | None = None) -> None:
        """Queues a run of each of the jobs, in this order."""
        workspace = self.process.create_request_context()
        location = workspace.code_locations[0]
        [repository] = location.get_repositories().values()
        for name in jobs:
            job = repository.get_full_job(name)
            run = _create_run(self.instance, location, repository, job, {}, tags, None, None)
            self.instance.submit_run(run.run_id, workspace)

    def launch(self, job: str, config: Mapping[str, Any] | None = None, **how: Any) -> str:
        """Launches a run as the UI does; its id, or why there is none.

        Args:
            how: ``assets`` and ``checks`` that are selected, and ``tags``.
        """
        context = self.process.create_request_context()
        location = context.code_locations[0]
        [repository] = location.get_repositories()
        checks = how.get("checks", {})
        selector = {
            "repositoryLocationName": location.name,
            "repositoryName": repository,
            "jobName": job,
            **({"assetSelection": [{"path": [name]} for name in how["assets"]]} if "assets" in how else {}),
            "assetCheckSelection": [{"assetKey": {"path": [name]}, "name": checks[name]} for name in checks] or None,
        }
        tags = [{"key": key, "value": value} for key, value in how.get("tags", {}).items()]
        of = {"selector": selector, "runConfigData": config or {}, "executionMetadata": {"tags": tags}}
        [done] = execute_dagster_graphql(context, _LAUNCH, {"of": of}).data.values()
        if "run" in done:
            return str(done["run"]["runId"])
        return "\n".join(each["message"] for each in done.get("errors") or done["causes"])

    def tags(self, run_id: str, *names: str) -> dict[str, str]:
        """The tags of a run that say what it loads, and in which turn."""
        run = self.instance.get_run_by_id(run_id)
        assert run is not None
        return {name: value for name, value in run.tags.items() if name.startswith("incload/") or name in names}

    def backfill(self) -> Sequence[dg.DagsterRun]:
        """The runs that Dagster's daemon queues for what it was asked to backfill, oldest first."""
        before = {run.run_id for run in self.instance.get_runs()}
        list(execute_backfill_iteration(self.process, getLogger("dagster.backfill")))
        return [run for run in self.instance.get_runs(ascending=True) if run.run_id not in before]

    def launched(self) -> list[str]:
        """The jobs of the runs that are under way once the queue has been gone through, in the order of submission."""
        list(self.daemon.run_iteration(self.process))
        runs = self.instance.get_runs(ascending=True)
        return [run.job_name for run in runs if run.status in UNDER_WAY]

    def clear(self) -> None:
        """Kills the process of every run, and forgets all runs."""
        marks = [own_tag(run, PROCESS_TAG) for run in self.instance.get_runs(dg.RunsFilter(statuses=list(UNDER_WAY)))]
        for mark in filter(None, marks):
            with suppress(ProcessLookupError):
                os.kill(int(mark.rsplit(":", 2)[1]), signal.SIGKILL)
        for run in self.instance.get_runs():
            self.instance.delete_run(run.run_id)


@contextmanager
def queue_of(folder: Path, code: str) -> Iterator[Queue]:
    """The queue of a code location whose module has this code; ``INCLOAD_HOME`` is to be in the folder."""
    (folder / "jobs.py").write_text(code)
    (folder / "dagster").mkdir()
    shutil.copy(PROJECT / ".dagster_home" / "dagster.yaml", folder / "dagster")
    with (folder / "dagster" / "dagster.yaml").open("a") as config:
        config.write("\ncode_servers: {wait_for_local_processes_on_shutdown: true}\n")
    target = PythonFileTarget(str(folder / "jobs.py"), None, str(PROJECT), "jobs")
    with (
        dg.DagsterInstance.from_config(str(folder / "dagster")) as instance,
        WorkspaceProcessContext(instance, target) as process,
        QueuedRunCoordinatorDaemon(interval_seconds=1) as daemon,
    ):
        queue = Queue(process, daemon)
        yield queue
        queue.clear()
    stop_warm_servers(Settings())
