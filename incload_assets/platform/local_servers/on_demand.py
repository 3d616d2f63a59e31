"""Finding or starting the one server of a folder, common to all servers of a workspace without an owner.

* The server's supervisor is a separate process that holds the lock ``server.lock`` for as long as it lives. The server
  exists if the lock is held; the existence of a file does not count.
* ``server.json`` records where the server listens; its modification time is the time of the last request for it.
* Callers that find no server take turns by ``start.lock``; the first one starts it, the others find it.
"""

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from incload_assets.platform.local_servers.files import answers, launch, reap
from incload_assets.platform.local_servers.locks import exclusive, is_held
from incload_assets.platform.local_servers.supervisor import Record, SupervisedFolder
from incload_assets.platform.progress import tell

POLL_SECONDS = 0.05


class Listening(Protocol):
    """A server that is up."""

    @property
    def pid(self) -> int:
        """The process id of the supervisor, which holds the lock."""


Server = TypeVar("Server", bound=Listening)


@dataclass(frozen=True)
class OnDemand:
    """One server, which is found or started.

    Args:
        files: The server's folder.
        supervisor: The module that runs the server; see :mod:`incload_assets.platform.local_servers.supervisor`.
        fault: Pattern of log lines with the reason why a server did not start.
        refused: Makes the error to raise from a problem such as "it does not start: …".
    """

    files: SupervisedFolder
    supervisor: str
    fault: re.Pattern[str]
    refused: Callable[[str], Exception]

    def find_or_start(self, order: Callable[[], bytes], timeout: float) -> Record:
        """The server, which is up when this returns; the call counts as use.

        Args:
            order: Returns the supervisor's standard input; called only if the server has to be started.
            timeout: Seconds to wait for a server that is starting or stopping.

        Raises:
            Exception: An error made by ``refused``, if the server is not up in time.
        """
        reap()
        server = self.running()
        if server is None:
            with exclusive(self.files.start_lock, timeout) as held:
                if not held:
                    raise self.refused(f"another process has been starting it for {timeout:.0f} s")
                server = self.running() or self._start(order(), timeout)
        with suppress(FileNotFoundError):
            os.utime(self.files.record)  # the supervisor counts this as use
        return server

    def stop(self, timeout: float) -> bool:
        """Ends the server even if it is in use; returns whether there was one. Its data stays.

        Raises:
            Exception: An error made by ``refused``, if the server does not end.
        """
        server = self.files.read() if is_held(self.files.lock) else None
        if server is None:
            return False
        with suppress(ProcessLookupError):
            os.kill(server.pid, signal.SIGTERM)  # the lock is held, so the pid is still the supervisor's
        self._wait_for_end(timeout)
        reap(server.pid)
        return True

    def running(self) -> Record | None:
        """The server, if it is up."""
        server = self.files.read() if is_held(self.files.lock) else None
        return server if server and answers(server.port) else None

    def _start(self, order: bytes, timeout: float) -> Record:
        self._wait_for_end(timeout)  # a supervisor whose server is gone is about to end
        self.files.record.unlink(missing_ok=True)
        process = launch(self.files, self.supervisor, order=order)
        return started(process, self.files.read, timeout, lambda: self._last_words(self.files.log),
                       lambda problem: self.refused(f"it {problem}"))  # fmt: skip

    def _wait_for_end(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while is_held(self.files.lock):
            if time.monotonic() > deadline:
                raise self.refused("it neither answers nor ends")
            time.sleep(POLL_SECONDS)

    def _last_words(self, log: Path) -> str:
        """The line of the log that most likely gives the reason why the server did not start."""
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
        line = [*(filter(self.fault.search, lines)), *lines, "it printed nothing"][0]
        return re.sub(r"^(\S+ \S+ UTC \[\d+\] |\[[^]]*\] |error: )", "", line)[:300]


def started(
    process: "subprocess.Popen[bytes]",
    read: Callable[[], Server | None],
    timeout: float,
    last_words: Callable[[], str],
    refused: Callable[[str], Exception],
    name: str | None = None,
) -> Server:
    """Waits until a supervisor that was just launched has its server up.

    Args:
        process: The supervisor's process.
        read: Reads ``server.json``.
        timeout: Seconds.
        last_words: Returns the reason from the log why the server did not start.
        refused: Makes the error to raise from "does not start: …" or "is not up after …".
        name: The name of a server that takes long to start, for progress messages; None: no messages.
    """
    began = time.monotonic()
    deadline = began + timeout
    while time.monotonic() < deadline:
        server = read()
        if server and server.pid == process.pid:
            tell("")
            return server
        if process.poll() is not None:
            raise refused(f"does not start: {last_words()}")
        if name:
            tell(f"{name} is starting, {time.monotonic() - began:.0f} s")
        time.sleep(POLL_SECONDS)
    process.terminate()
    raise refused(f"is not up after {timeout:.0f} s: {last_words()}")
