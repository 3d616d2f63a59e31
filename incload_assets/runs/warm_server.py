"""The process that forks runs: ``python -m incload_assets.runs.warm_server FOLDER < order.json``.

It loads the code location, opens no connection, starts no thread and no Spark session, and forks a child for each
requested run: such a run is ready in a few hundredths of a second instead of seconds. (The only threads belong to NumPy
and two allocators, which handle forks themselves.) A child is a session leader and executes the run in the same way as
``dagster api execute_run``; it outlives this process.

A client sends one line of JSON, a :class:`Request`, and receives one, an :class:`Answer`. A server whose code, ``.env``
or settings have changed since it loaded them answers that it is stale, and ends.
"""

import gc
import hmac
import json
import os
import secrets
import selectors
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path

from dagster import DagsterInstance, DagsterRunStatus
from dotenv import dotenv_values

from incload_assets.platform.dagster_private import (
    ExecuteRunArgs,
    ReconstructableRepository,
    deserialize_value,
    execute_run,
    get_run_crash_explanation,
)
from incload_assets.platform.local_servers.command_socket import Command
from incload_assets.platform.local_servers.files import read_facts, write_facts
from incload_assets.platform.local_servers.locks import exclusive
from incload_assets.platform.local_servers.supervisor import Record, SupervisedFolder
from incload_assets.progress.process import process_tags
from incload_assets.runs import warm_commands
from incload_assets.runs.kept import keep
from incload_assets.runs.loaded_code import LoadedCode

FIRST_USED = (
    "confluent_kafka.admin",
    "dagster._cli.api",
    "dagster._core.execution.plan.active",
    "dagster._core.executor.in_process",
    "dagster._core.instance.factory",
    "dagster._core.run_coordinator.queued_run_coordinator",
    "dagster._core.storage.local_compute_log_manager",
    "dagster._core.storage.migration.utils",
    "dagster._core.storage.root",
    "dagster._core.system_config.composite_descent",
    "grpc._auth",
    "grpc._channel",
    "psycopg",
    "pyarrow.acero",
    "pyspark.sql.connect.functions.builtin",
    "pyspark.sql.connect.session",
    "pyspark.sql.connect.window",
    "sqlglot",
    "upath.implementations.local",
)
"""Modules that runs import lazily, loaded in advance; if an import fails, the run that needs the module reports it."""

_LOCK_SECONDS = 5.0
_TICK_SECONDS = 2.0
_LOG_BYTES = 10_000_000
"""The size at which the log is truncated; the output of runs is in Dagster's own logs, too."""


@dataclass(frozen=True)
class Order:
    """The server's configuration, read from standard input.

    Args:
        directory: The working directory of runs, with the ``.env``.
        code: The code location, serialized by Dagster.
        idle_seconds: Seconds without a request after which the server ends.
    """

    directory: str
    code: str
    idle_seconds: float


@dataclass(frozen=True)
class Request:
    """A request to start a run.

    Args:
        password: The server's password.
        run: Arguments of the run, serialized by Dagster.
        environment: Environment of the run, without the ``.env``.
    """

    password: str
    run: str
    environment: dict[str, str]


@dataclass(frozen=True)
class Answer:
    """The answer to a request.

    Args:
        pid: The id of the run's process; None: the server is stale and ends.
    """

    pid: int | None


def settings_of(environment: dict[str, str]) -> dict[str, str]:
    """The environment variables that the code location reads when it is loaded."""
    return {name: value for name, value in environment.items() if name.startswith("INCLOAD_")}


class WarmServer:
    """The server that forks runs.

    Args:
        folder: The server's folder.
        order: The server's configuration.

    Raises:
        Exception: The code location cannot be loaded.
    """

    def __init__(self, folder: SupervisedFolder, order: Order) -> None:
        self._folder, self._idle_seconds = folder, order.idle_seconds
        os.chdir(order.directory)
        self._settings, self._dotenv = settings_of(dict(os.environ)), _dotenv()
        os.environ.update(self._dotenv)
        self._code = LoadedCode.of(lambda: _load(order.code))
        self._runs: dict[int, str] = {}
        self._selector = selectors.DefaultSelector()
        self._password = secrets.token_urlsafe(32)
        gc.freeze()  # loaded objects stay, and garbage collection in a child does not copy their pages

    def serve(self) -> None:
        """Forks runs until the server is stale or its folder is gone, or it is idle and no run is under way."""
        with ExitStack() as stack:
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            commands = stack.enter_context(warm_commands.listener(self._password))
            self._selector.register(listener, selectors.EVENT_READ)
            self._selector.register(commands, selectors.EVENT_READ)
            write_facts(self._folder.record, asdict(Record(listener.getsockname()[1], os.getpid(), self._password)))
            while self._is_wanted():
                for key, _ in self._selector.select(_TICK_SECONDS):
                    if key.data:
                        self._reap(key.fd, key.data)
                    elif key.fileobj is commands:
                        self._take(commands)
                    elif not self._answer(listener):
                        return

    def _is_wanted(self) -> bool:
        if (read_facts(self._folder.record) or {}).get("pid") != os.getpid():
            return False  # the folder was removed, and may have another server by now
        return bool(self._runs) or time.time() - self._folder.record.stat().st_mtime < self._idle_seconds

    def _answer(self, listener: socket.socket) -> bool:
        """Answers one request; returns whether this server can take another."""
        connection, _ = listener.accept()
        with connection, suppress(OSError, ValueError, TypeError):
            connection.settimeout(_TICK_SECONDS)
            with connection.makefile("rw") as stream:
                request = Request(**json.loads(stream.readline()))
                if not hmac.compare_digest(request.password.encode(), self._password.encode()):
                    return True
                stale = self._is_stale(request)
                if stale:  # the next client must not find this server
                    self._folder.record.unlink(missing_ok=True)
                pid = None if stale else self._start(request)
                stream.write(json.dumps(asdict(Answer(pid))))
            return not stale
        return True

    def _take(self, commands: socket.socket) -> None:
        """Forks one command, if this server can."""
        pid = warm_commands.take(commands, self._password, lambda c: not self._is_stale(c), _fork, _dotenv)
        if pid is not None:
            os.utime(self._folder.record)  # counts as use
            self._selector.register(os.pidfd_open(pid), selectors.EVENT_READ, pid)

    def _is_stale(self, request: Request | Command) -> bool:
        same = settings_of(request.environment) == self._settings and _dotenv() == self._dotenv
        return not same or self._code.has_changed()

    def _start(self, request: Request) -> int:
        pid = _fork(lambda: _execute(request))
        self._runs[pid] = request.run
        self._selector.register(os.pidfd_open(pid), selectors.EVENT_READ, pid)
        return pid

    def _reap(self, descriptor: int, pid: int) -> None:
        self._selector.unregister(descriptor)
        os.close(descriptor)
        exit_code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if os.fstat(1).st_size > _LOG_BYTES:
            os.ftruncate(1, 0)
            os.lseek(1, 0, os.SEEK_SET)  # also for the runs under way, which share the open file
        run = self._runs.pop(pid, None)
        if run and exit_code:
            # another process opens the instance, so that this one stays without connections
            reporter = _fork(lambda: _report_death(run, pid, exit_code))
            self._selector.register(os.pidfd_open(reporter), selectors.EVENT_READ, reporter)


def _fork(work: Callable[[], None], files: Sequence[int] = ()) -> int:
    """Runs a function in a child process that leads its own session.

    Args:
        work: The function.
        files: Open files that become the child's first descriptors, in place of this process's input, output and error.

    Returns:
        The child's process id.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        for number, file in enumerate(files):
            os.dup2(file, number, inheritable=number < 3)
        # the server's lock and sockets must not stay open in a child
        os.closerange(max(3, len(files)), os.sysconf("SC_OPEN_MAX"))
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        work()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
        code = 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)  # a child must not run the server's exit handlers


def _dotenv() -> dict[str, str]:
    return {name: value for name, value in dotenv_values(Path(".env")).items() if value is not None}


def _load(code: str) -> None:
    for module in (*FIRST_USED, *warm_commands.FIRST_USED):
        with suppress(ImportError):
            import_module(module)
    keep()
    deserialize_value(code, ReconstructableRepository).get_definition().load_all_definitions()


def _execute(request: Request) -> None:
    os.environ.clear()
    os.environ.update(request.environment | _dotenv())
    arguments = deserialize_value(request.run, ExecuteRunArgs)
    assert arguments.instance_ref is not None  # the launcher gives it
    # by this process and not by the launcher: concurrent writers of a run overwrite each other's tags
    with DagsterInstance.from_ref(arguments.instance_ref) as instance:
        instance.add_run_tags(arguments.run_id, process_tags(arguments.run_id))
    execute_run(request.run)


def _report_death(run: str, pid: int, exit_code: int) -> None:
    arguments = deserialize_value(run, ExecuteRunArgs)
    assert arguments.instance_ref is not None  # the launcher gives it
    with DagsterInstance.from_ref(arguments.instance_ref) as instance:
        found = instance.get_run_by_id(arguments.run_id)
        if found is None or found.is_finished:
            return
        why = get_run_crash_explanation(f"The run's process {pid}", exit_code)
        cancelled = found.status == DagsterRunStatus.CANCELING
        (instance.report_run_canceled if cancelled else instance.report_run_failed)(found, why)
        instance.event_log_storage.free_concurrency_slots_for_run(found.run_id)  # its retry needs them


def main(folder: Path, order: Order) -> None:
    """Serves requests, unless another server uses this folder."""
    files = SupervisedFolder(folder)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a shell may start background processes with signals ignored
    with exclusive(files.lock, _LOCK_SECONDS) as held:
        if held:
            WarmServer(files, order).serve()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Order(**json.load(sys.stdin)))
