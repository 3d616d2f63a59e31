"""Commands in forks of a process that has imported the libraries and the package, though no module of a project.

Importing Dagster, PySpark and pandera takes seconds of processor time. A fork goes on as a new interpreter does: it
leads a session, has the folder, arguments, environment and open files of its command and no others, imports the
project's modules, and ends as an interpreter ends.
"""

import atexit
import gc
import os
import runpy
import secrets
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from json import loads
from pathlib import Path
from tempfile import TemporaryFile
from typing import NoReturn

from incload_assets.platform.local_servers.command_socket import Command, address, receive, say, send

LIBRARIES = (
    "alembic.command", "confluent_kafka.admin", "dagster._cli.api",
    "dagster._core.definitions.repository_definition.repository_data_builder", "dagster._core.executor.in_process",
    "dagster._core.instance.factory", "dagster._core.run_coordinator.queued_run_coordinator",
    "dagster._core.storage.local_compute_log_manager", "dagster._core.storage.migration.utils",
    "dagster._core.storage.root", "dagster._core.storage.sqlite_storage", "dagster._daemon.daemon",
    "dagster.components.core.snapshot", "dagster_deltalake", "dagster_pyspark", "deltalake", "grpc._auth",
    "grpc._channel", "humanize", "jinja2", "pandera.pyspark", "psutil", "psycopg", "pyarrow.acero", "pyarrow.dataset",
    "pyarrow.fs", "pydantic_settings.main", "pydantic_settings.sources",
    "pygments.lexers.html", "pyspark.sql.connect.functions.builtin",
    "pyspark.sql.connect.session", "pyspark.sql.connect.window", "rich.columns", "rich.pretty", "rich.progress",
    "rich.syntax", "rich.traceback", "s3fs", "sqlalchemy.dialects.mysql", "sqlalchemy.dialects.postgresql",
    "sqlalchemy.dialects.sqlite", "sqlglot.dialects.spark", "sqlglot.optimizer.annotate_types", "structlog", "tomlkit",
    "typer", "upath.implementations.local",
    "incload_assets.cli.program", "incload_assets.cli.support.project", "incload_assets.code_location",
)  # fmt: skip
"""Modules that commands import; one that is missing here costs time and nothing else."""


def run(
    module: str, arguments: Sequence[str], folder: Path, environment: Mapping[str, str], timeout: float
) -> "subprocess.CompletedProcess[str]":
    """``python -m MODULE …`` in a folder, to its end, without input.

    Raises:
        TimeoutExpired: It took longer, and was killed with all processes of its session.
    """
    with TemporaryFile("w+") as out, TemporaryFile("w+") as err, open(os.devnull) as nothing:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(timeout)
            connection.connect(address(password := _server()))
            command = Command(password, [module, *arguments], str(folder), dict(environment))
            send(connection, command, [nothing.fileno(), out.fileno(), err.fileno()])
            with connection.makefile() as answers:
                pid = loads(answers.readline())["pid"]
                try:
                    code = loads(answers.readline())["code"]
                except TimeoutError as error:
                    os.killpg(pid, signal.SIGKILL)
                    raise subprocess.TimeoutExpired([*arguments], timeout) from error
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess([*arguments], code, out.read(), err.read())


@cache
def _server() -> str:
    """The password of this process's server, which is started at the first call and ends with this process."""
    password = secrets.token_urlsafe(16)
    server = subprocess.Popen(
        [sys.executable, "-m", __name__, password],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,  # closed when this process ends, however it does
        stdout=subprocess.PIPE,
    )
    atexit.register(server.kill)
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n"
    return password


def serve(password: str) -> None:
    """Fork commands until the process that started this one has ended."""
    for library in LIBRARIES:
        with suppress(ImportError):
            import_module(library)
    gc.freeze()  # objects of the libraries stay, and garbage collection in a fork does not copy their pages
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # whoever started this may have ignored it
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no one waits for those that attend commands
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address(password))
        listener.listen()
        print("ready", flush=True)
        while listener.fileno() in select.select([listener.fileno(), 0], [], [])[0]:
            connection, _ = listener.accept()
            with connection:
                if os.fork() == 0:
                    listener.close()
                    _attend(connection)


def _attend(connection: socket.socket) -> NoReturn:
    """Fork one command, and say how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    command, files = receive(connection)
    pid = os.fork()
    if pid == 0:
        _become(command, files)
    with suppress(OSError):  # who asked has ended
        say(connection, pid=pid)
        say(connection, code=os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    os._exit(0)


def _become(command: Command, files: Sequence[int]) -> NoReturn:
    """Go on as an interpreter that was started for a command."""
    os.setsid()
    for number, file in enumerate(files):
        os.dup2(file, number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    sys.stdin = sys.__stdin__ = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = sys.__stdout__ = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.__stderr__ = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(command.environment)
    time.tzset()
    os.chdir(command.directory)
    sys.path[0] = command.directory
    module, *arguments = command.arguments
    sys.argv = [module, *arguments]
    code = 0
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        threading._shutdown()  # type: ignore[attr-defined]  # waits for threads, as an interpreter does
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if code and not isinstance(end.code, int):
            print(end.code, file=sys.stderr)
    except BaseException:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
        code = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    serve(sys.argv[1])
