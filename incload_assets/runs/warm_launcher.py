"""A Dagster run launcher that forks runs from a process that has loaded the code location."""

import json
import os
import signal
import socket
import sys
import time
from typing import Any

from dagster import DagsterRun

from incload_assets.platform.dagster_private import (
    GRPC_INFO_TAG,
    CheckRunHealthResult,
    DefaultRunLauncher,
    ExecuteRunArgs,
    GrpcServerCodeLocationOrigin,
    LaunchRunContext,
    ManagedGrpcPythonEnvCodeLocationOrigin,
    WorkerStatus,
    serialize_value,
)
from incload_assets.platform.local_servers.supervisor import Record
from incload_assets.platform.settings import Settings
from incload_assets.progress.process import gone
from incload_assets.progress.run_tags import PROCESS_TAG, own_tag
from incload_assets.runs.warm_servers import ColdRun, start

_ANSWER_SECONDS = 20.0
_MARK_SECONDS = 5.0
_NO_SERVER = "{}"


class WarmRunLauncher(DefaultRunLauncher):
    """Launches runs as forks of a process that has loaded the code location, or else as Dagster's default launcher.

    In ``dagster.yaml``::

        run_launcher:
          module: incload_assets.runs
          class: WarmRunLauncher

    - A run is its own process and session leader; it continues when the process that launched it ends.
    - A run uses the code, the ``.env`` and the settings as they are at its launch.
    - The run's process is recorded on the run, so that any process on this machine can end it or check whether it is
      alive.
    - Dagster's default launcher is used for code locations on other machines, on systems other than Linux, for code
      that cannot be loaded (it reports the error), and for all runs with ``INCLOAD_WARM_RUNS=false``.
    """

    _reported: str | None = None

    def launch_run(self, context: LaunchRunContext) -> None:
        """Starts the process of a run."""
        run = context.dagster_run
        if GRPC_INFO_TAG in run.tags:  # copied from the run that this one retries
            self._instance.add_run_tags(run.run_id, {GRPC_INFO_TAG: _NO_SERVER})
        try:
            self._fork(run)
        except ColdRun as why:
            if str(why) != self._reported:
                self._reported = str(why)
                self._instance.report_engine_event(f"This run starts slowly: {why}.", run, cls=WarmRunLauncher)
            super().launch_run(context)

    def terminate(self, run_id: str) -> bool:
        """Requests the process of a run to end; returns whether it could be requested."""
        run = self._marked(run_id)
        mark = own_tag(run, PROCESS_TAG) if run else None
        if run is None or run.is_finished or mark is None or _is_of_a_server(run):
            return bool(super().terminate(run_id))  # type: ignore[no-untyped-call]
        if gone(mark) or not mark.startswith(f"{socket.gethostname()}:"):
            return False
        self._instance.report_run_canceling(run)
        os.kill(int(mark.rsplit(":", 2)[1]), signal.SIGTERM)
        return True

    @property
    def supports_check_run_worker_health(self) -> bool:
        """True, because the process of a run is recorded."""
        return True

    def check_run_worker_health(self, run: DagsterRun) -> CheckRunHealthResult:
        """True if the process of a run is alive; assumed if it is not recorded, or on another machine."""
        why = gone(mark) if (mark := own_tag(run, PROCESS_TAG)) else None
        return CheckRunHealthResult(WorkerStatus.FAILED if why else WorkerStatus.RUNNING, why)

    def _marked(self, run_id: str) -> DagsterRun | None:
        """The run once its process is recorded, or after a short wait: a run that was just forked records it soon."""
        deadline = time.monotonic() + _MARK_SECONDS
        while run := self._instance.get_run_by_id(run_id):
            marked = own_tag(run, PROCESS_TAG) is not None or _is_of_a_server(run)
            if marked or run.is_finished or time.monotonic() > deadline:
                return run
            time.sleep(0.05)
        return None

    def _fork(self, run: DagsterRun) -> None:
        settings = Settings()
        if sys.platform != "linux":
            raise ColdRun("processes are forked only on Linux")
        if not settings.warm_runs:
            raise ColdRun("INCLOAD_WARM_RUNS is false")
        if run.job_code_origin is None or not _is_here(run):
            raise ColdRun("its code location is not one that this Dagster started with its own Python")
        arguments = serialize_value(ExecuteRunArgs(run.job_code_origin, run.run_id, self._instance.get_ref(), True))
        for _ in range(2):  # a stale server ends, and the next one loads the present code
            if _asked(start(settings, run.job_code_origin.repository_origin.code_pointer), arguments) is not None:
                return
        raise ColdRun("the code changes while it is loaded")


def _is_here(run: DagsterRun) -> bool:
    """True if this Dagster started the run's code location, through ``dagster dev`` or in the web server itself."""
    if run.remote_job_origin is None or run.job_code_origin is None:
        return False
    origin = run.remote_job_origin.repository_origin.code_location_origin
    own = isinstance(origin, ManagedGrpcPythonEnvCodeLocationOrigin)
    beside = isinstance(origin, GrpcServerCodeLocationOrigin) and origin.socket is not None
    return (own or beside) and run.job_code_origin.repository_origin.executable_path == sys.executable


def _is_of_a_server(run: DagsterRun) -> bool:
    """True if a code server, which can end it, started the run's process, by the tag of Dagster's launcher."""
    return run.tags.get(GRPC_INFO_TAG, _NO_SERVER) != _NO_SERVER


def _asked(server: Record, run: str) -> int | None:
    """The id of the process that a server forked for a run; None if it is stale, ColdRun if it does not answer."""
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
