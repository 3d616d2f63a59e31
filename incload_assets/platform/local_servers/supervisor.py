"""The common part of the servers' supervisors: they hold the lock, run the server, and end it when it is idle.

Supervisors import nothing of the code location, so that they start fast and outlive changes to it.
"""

import os
import signal
import subprocess
import threading
import time
from dataclasses import asdict, dataclass
from typing import Protocol

from incload_assets.platform.local_servers.files import ServerFailed, ServerFolder, read_facts, write_facts
from incload_assets.platform.local_servers.locks import exclusive

STOP_SECONDS = 20.0

_LOCK_SECONDS = 5.0


@dataclass(frozen=True)
class Record:
    """The content of ``server.json``: a server on loopback, which ends if the process ``pid``, with the lock, ends."""

    port: int
    pid: int
    password: str


@dataclass(frozen=True)
class SupervisedFolder(ServerFolder):
    """The files of a server with a supervisor."""

    def read(self) -> Record | None:
        """The content of ``server.json``, None if there is none. Only the lock shows whether that server is alive."""
        facts = read_facts(self.record)
        return Record(**facts) if facts else None


Process = subprocess.Popen[bytes]


class Service(Protocol):
    """The interface of a server for its supervisor."""

    def start(self) -> tuple[Process, Record]:
        """Starts the server, creates its data if there is none, and waits until it is up; raises ServerFailed."""

    def is_used(self, process: Process, record: Record) -> bool:
        """True if a client is connected now."""

    def stop(self, process: Process) -> None:
        """Ends the server without losing accepted data."""

    def forget(self) -> None:
        """Removes data outside of the folder, after the folder is gone."""


def supervise(files: ServerFolder, service: Service, idle_seconds: float) -> None:
    """Runs a server until it is unused for ``idle_seconds`` or dead, receives SIGTERM, or its folder is gone.

    Returns at once if another supervisor holds the lock. Problems are printed, because error messages refer to the log.
    """
    asked_to_stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: asked_to_stop.set())
    with exclusive(files.lock, _LOCK_SECONDS) as held:
        if not held:
            return
        process = None
        try:
            process, record = service.start()
            write_facts(files.record, asdict(record))
            _watch(files, service, process, record, idle_seconds, asked_to_stop)
        except ServerFailed as error:
            print(f"error: {error}", flush=True)
        finally:
            if _is_own(files):
                files.record.unlink(missing_ok=True)
            if process is not None:
                service.stop(process)
            if not files.folder.exists():
                service.forget()


def end(process: Process, how: signal.Signals) -> None:
    """Ends a server by a signal, and kills it if it does not end in time."""
    if process.poll() is None:
        process.send_signal(how)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _watch(
    files: ServerFolder,
    service: Service,
    process: Process,
    record: Record,
    idle_seconds: float,
    asked_to_stop: threading.Event,
) -> None:
    """Returns when the server should end."""
    while not asked_to_stop.wait(min(2.0, idle_seconds / 5)):
        if process.poll() is not None:
            raise ServerFailed(f"the server ended with code {process.returncode}")
        try:
            own = _is_own(files)
            if own and time.time() - files.record.stat().st_mtime < idle_seconds:
                continue
            if not own or not service.is_used(process, record):
                return
            os.utime(files.record)
        except FileNotFoundError:
            return


def _is_own(files: ServerFolder) -> bool:
    """True if ``server.json`` is this process's. It is not if the home folder was removed, and maybe created again."""
    return (read_facts(files.record) or {}).get("pid") == os.getpid()
