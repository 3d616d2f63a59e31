"""A launcher of Dagster's runs whose processes are forked from one that has loaded the code location."""

import json
import os
import re
import signal
import socket
import sys
from contextlib import suppress
from typing import Any

import psutil
from dagster import DagsterRun
from dagster._core.launcher import CheckRunHealthResult, DefaultRunLauncher, LaunchRunContext, WorkerStatus
from dagster._core.remote_origin import ManagedGrpcPythonEnvCodeLocationOrigin
from dagster._core.storage.tags import GRPC_INFO_TAG
from dagster._grpc.types import ExecuteRunArgs
from dagster._serdes import serialize_value

from incload_assets.runs.own_tags import own_tag
from incload_assets.runs.process import PROCESS_TAG, gone, process_tags
from resources.on_demand import OnDemand
from resources.settings import Settings
from resources.supervising import Record, SupervisedFolder

_START_SECONDS = 60.0
_ANSWER_SECONDS = 20.0
_FAULT = re.compile(r"^\S*(Error|Exception)\b")


class ColdRun(Exception):
    """A run cannot be forked, and why."""


class WarmRunLauncher(DefaultRunLauncher):
    """Launches runs as forks of a process that has loaded the code location; where there is none, as Dagster does.

    In ``dagster.yaml``::

        run_launcher:
          module: incload_assets.runs
          class: WarmRunLauncher

    - A run is a process of its own, leader of a session; it goes on when the process that launched it ends.
    - A run uses the code, the ``.env`` and the settings as they are when it is launched.
    - Which process a run is in is noted on the run: any process of this machine can end it, or tell whether it lives.
    - Runs of code locations on other machines, where there is no Linux, and those whose code location cannot be loaded
      are launched as by Dagster's default launcher, which tells of the error; so are all with
      ``INCLOAD_WARM_RUNS=false``.
    """

    _told: str | None = None

    def launch_run(self, context: LaunchRunContext) -> None:
        """Start the process of a run."""
        run = context.dagster_run
        try:
            pid = self._forked(run)
        except ColdRun as why:
            if str(why) != self._told:
                self._told = str(why)
                self._instance.report_engine_event(f"This run starts slowly: {why}.", run, cls=WarmRunLauncher)
            super().launch_run(context)
            return
        with suppress(psutil.NoSuchProcess):  # over already
            self._instance.add_run_tags(run.run_id, process_tags(run.run_id, pid))

    def terminate(self, run_id: str) -> bool:
        """Ask the process of a run to end; whether it was asked."""
        run = self._instance.get_run_by_id(run_id) if self.has_instance else None
        mark = own_tag(run, PROCESS_TAG) if run else None
        if run is None or run.is_finished or mark is None or GRPC_INFO_TAG in run.tags:
            return bool(super().terminate(run_id))  # type: ignore[no-untyped-call]
        if gone(mark) or not mark.startswith(f"{socket.gethostname()}:"):
            return False
        self._instance.report_run_canceling(run)
        os.kill(int(mark.rsplit(":", 2)[1]), signal.SIGTERM)
        return True

    @property
    def supports_check_run_worker_health(self) -> bool:
        """Yes: the process of a run is known."""
        return True

    def check_run_worker_health(self, run: DagsterRun) -> CheckRunHealthResult:
        """Whether the process of a run lives; unknown of those that did not say which it is, or are elsewhere."""
        why = gone(mark) if (mark := own_tag(run, PROCESS_TAG)) else None
        return CheckRunHealthResult(WorkerStatus.FAILED if why else WorkerStatus.RUNNING, why)

    def _forked(self, run: DagsterRun) -> int:
        settings = Settings()
        if sys.platform != "linux":
            raise ColdRun("processes are forked on Linux alone")
        if not settings.warm_runs:
            raise ColdRun("INCLOAD_WARM_RUNS is false")
        origin = run.remote_job_origin.repository_origin.code_location_origin if run.remote_job_origin else None
        if not isinstance(origin, ManagedGrpcPythonEnvCodeLocationOrigin) or run.job_code_origin is None:
            raise ColdRun("its code location is not of this Dagster's own processes")
        arguments = serialize_value(ExecuteRunArgs(run.job_code_origin, run.run_id, self._instance.get_ref(), True))
        server = warm_server(settings)
        order = {"directory": os.getcwd(), "run": arguments, "idle_seconds": settings.spark_idle_minutes * 60}
        for _ in range(2):  # a server that is stale ends, and the next one has loaded what is there now
            record = server.find_or_start(lambda: json.dumps(order).encode(), _START_SECONDS)
            pid = _asked(record, arguments)
            if pid is not None:
                return pid
        raise ColdRun("the code changes while it is loaded")


def warm_server(settings: Settings) -> OnDemand:
    """The process that forks the runs of this workspace."""
    folder = SupervisedFolder.under(settings.home_root, "warm_runs")
    return OnDemand(folder, "incload_assets.runs.warm_server", _FAULT, ColdRun)


def stop_warm_server(settings: Settings, timeout: float = 20.0) -> bool:
    """End the process that runs are forked from, not the runs; whether there was one."""
    return warm_server(settings).stop(timeout)


def _asked(server: Record, run: str) -> int | None:
    """The process that a server made for a run; None if the server is stale.

    Raises:
        ColdRun: The server does not answer.
    """
    request = {"password": server.password, "run": run, "environment": dict(os.environ)}
    try:
        connection = socket.create_connection(("127.0.0.1", server.port), timeout=_ANSWER_SECONDS)
        with connection, connection.makefile("rw") as stream:
            stream.write(json.dumps(request) + "\n")
            stream.flush()
            answer: dict[str, Any] = json.loads(stream.read())
    except (OSError, ValueError) as error:
        raise ColdRun(f"the process that runs are forked from does not answer ({error})") from None
    pid = answer["pid"]
    return None if pid is None else int(pid)
