"""A code location with a Dagster instance whose runs are forked, as the web server and the daemon have it."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, chdir, contextmanager
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import yaml
from dagster._cli.job import _create_run
from dagster._cli.proxy_server_manager import ProxyServerManager
from dagster._core.launcher import WorkerStatus
from dagster._core.workspace.context import WorkspaceProcessContext, WorkspaceRequestContext
from dagster._core.workspace.load_target import WorkspaceFileTarget, WorkspaceLoadTarget

from incload_assets.platform.local_servers.supervisor import Record, SupervisedFolder
from incload_assets.progress.run_tags import PROCESS_TAG, own_tag

CONFIG = {
    "run_launcher": {"module": "incload_assets.runs", "class": "WarmRunLauncher"},
    "telemetry": {"enabled": False},
    "code_servers": {"wait_for_local_processes_on_shutdown": True},
}
"""Of the Dagster instance."""
Target = Callable[[dg.DagsterInstance], AbstractContextManager[WorkspaceLoadTarget]]
"""How the code location is had."""


@dataclass
class Workplace:
    """A code location with its instance.

    Args:
        folder: Where the instance is, and what runs work with.
        process: Dagster's, with the code server.
    """

    folder: Path
    process: WorkspaceProcessContext

    @property
    def instance(self) -> dg.DagsterInstance:
        return self.process.instance

    def launch(self, name: str, tags: dict[str, str] | None = None) -> str:
        """The id of a run that was just launched, of the job of that name."""
        return self.start(f"{name}_job", tags or {})

    def start(self, job: str, tags: dict[str, str]) -> str:
        """The id of a run that was just launched."""
        run_id, workspace = self._created(job, tags)
        self.instance.launch_run(run_id, workspace)
        return run_id

    def submit(self, job: str, tags: dict[str, str]) -> str:
        """The id of a run that the daemon is to launch."""
        run_id, workspace = self._created(job, tags)
        self.instance.submit_run(run_id, workspace)
        return run_id

    def _created(self, job: str, tags: dict[str, str]) -> tuple[str, WorkspaceRequestContext]:
        workspace = self.process.create_request_context()
        [location] = workspace.code_locations
        [repository] = location.get_repositories().values()
        run = _create_run(
            self.instance, location, repository, repository.get_full_job(job), {}, tags, op_selection=None, run_id=None
        )
        return run.run_id, workspace

    def run(self, name: str) -> dg.DagsterRun:
        """A run that is over."""
        run_id = self.launch(name)
        self.wait(lambda: self.of(run_id).is_finished)
        return self.of(run_id)

    def of(self, run_id: str) -> dg.DagsterRun:
        found = self.instance.get_run_by_id(run_id)
        assert found is not None
        return found

    def health(self, run_id: str) -> WorkerStatus:
        return self.instance.run_launcher.check_run_worker_health(self.of(run_id)).status

    def wait(self, happened: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 120
        while not happened():
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def messages(self, run_id: str) -> str:
        return "\n".join(entry.user_message or entry.message for entry in self.instance.all_logs(run_id))

    def server(self) -> Record:
        """The process that runs are forked from."""
        [folder] = (self.folder / "home" / "warm_runs").iterdir()
        record = SupervisedFolder(folder).read()
        assert record is not None
        return record


@contextmanager
def workplace_in(folder: Path, target: Target, **config: object) -> Iterator[Workplace]:
    """A code location that is loaded with a folder for its directory.

    Args:
        folder: An empty one, or one with the code.
        target: How the code location is had.
        config: More of the instance's configuration.
    """
    (folder / "dagster").mkdir()
    (folder / "dagster" / "dagster.yaml").write_text(yaml.safe_dump(CONFIG | config))
    with (
        chdir(folder),
        dg.DagsterInstance.from_config(str(folder / "dagster")) as instance,
        target(instance) as found,
        WorkspaceProcessContext(instance, found) as process,
    ):
        yield Workplace(folder, process)


@contextmanager
def beside(folder: Path, code: WorkspaceLoadTarget, instance: dg.DagsterInstance) -> Iterator[WorkspaceFileTarget]:
    """As ``dagster dev`` has it: a code server beside the web server and the daemon, which know its socket."""
    with ProxyServerManager(instance, code) as servers:
        (folder / "workspace.yaml").write_text(json.dumps({"load_from": servers.get_code_server_specs()}))
        yield WorkspaceFileTarget([str(folder / "workspace.yaml")])


def process_of(run: dg.DagsterRun) -> int:
    """Which process a run is, or was, in."""
    mark = own_tag(run, PROCESS_TAG)
    assert mark is not None
    return int(mark.rsplit(":", 2)[1])
