"""What the supervisors of servers do alike: hold the lock, run the server, and end it when nobody needs it.

They import nothing of the code location, so that they start fast and outlive changes to it.
"""

import os
import signal
import subprocess
import threading
import time
from dataclasses import asdict, dataclass
from typing import Protocol

from resources.local_servers.files import ServerFailed, ServerFolder, read_facts, write_facts
from resources.local_servers.locks import exclusive

STOP_SECONDS = 20.0

_LOCK_SECONDS = 5.0


@dataclass(frozen=True)
class Record:
    """A server that is up, as ``server.json`` tells of it.

    Args:
        port: Where it listens on loopback.
        pid: The process that holds the lock; ending it ends the server.
        password: Of its one account.
    """

    port: int
    pid: int
    password: str


@dataclass(frozen=True)
class SupervisedFolder(ServerFolder):
    """The files of a server that is run from here."""

    def read(self) -> Record | None:
        """What ``server.json`` says, None if there is none; whether that server lives is for the lock to say."""
        facts = read_facts(self.record)
        return Record(**facts) if facts else None


Process = subprocess.Popen[bytes]


class Service(Protocol):
    """A server of one kind, as its supervisor knows it."""

    def start(self) -> tuple[Process, Record]:
        """The server, up, and what to tell of it; makes the data if there is none.

        Raises:
            ServerFailed: It does not stay up.
        """

    def is_used(self, process: Process, record: Record) -> bool:
        """Whether somebody is connected now."""

    def stop(self, process: Process) -> None:
        """End the server; nothing that it has taken is lost."""

    def forget(self) -> None:
        """The folder is gone: remove what of the data is elsewhere."""


def supervise(files: ServerFolder, service: Service, idle_seconds: float) -> None:
    """Run a server until it is idle, dead or told to stop (SIGTERM), or its folder is gone.

    Returns at once if another supervisor holds the lock. What goes wrong is printed: the log is what people are
    pointed at.

    Args:
        files: The server's folder.
        service: How it is started and stopped.
        idle_seconds: How long to live when nobody has asked for it and nobody is connected.
    """
    told_to_stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: told_to_stop.set())
    with exclusive(files.lock, _LOCK_SECONDS) as held:
        if not held:
            return
        process = None
        try:
            process, record = service.start()
            write_facts(files.record, asdict(record))
            _watch(files, service, process, record, idle_seconds, told_to_stop)
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
    """Ask a server to end by a signal, and kill it if it does not."""
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
    told_to_stop: threading.Event,
) -> None:
    """Return when the server should end."""
    while not told_to_stop.wait(min(2.0, idle_seconds / 5)):
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
    """Whether ``server.json`` is of this process; not if the home folder was removed, and maybe has another by now."""
    return (read_facts(files.record) or {}).get("pid") == os.getpid()
