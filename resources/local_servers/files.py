"""What the servers of a workspace have in common: a folder with locks, a record and a log, and a process of their own.

Whoever needs such a server first starts it, and nobody owns it; see :mod:`resources.spark.server`.
"""

import json
import os
import random
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import psutil

_LOOPBACK = "127.0.0.1"
_PORTS = range(20_000, 32_768)
"""Below those of outgoing connections: Linux gives them 32768 to 60999, others 49152 and above."""

_started: list[subprocess.Popen[bytes]] = []  # kept, so that a server that ended is reaped instead of left a zombie


class ServerFailed(Exception):
    """There is no server, and why."""


@dataclass(frozen=True)
class ServerFolder:
    """The files of one server of a workspace; those that hold a secret are readable by their owner alone."""

    folder: Path

    @classmethod
    def under(cls, home: Path, name: str, mode: int = 0o700) -> Self:
        """Those in a folder of that name, which is made; by default only its owner may enter it."""
        folder = home / name
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(mode)
        return cls(folder)

    @property
    def lock(self) -> Path:
        """Held by the server's process for as long as it lives."""
        return self.folder / "server.lock"

    @property
    def start_lock(self) -> Path:
        """Held by whoever is starting a server."""
        return self.folder / "start.lock"

    @property
    def record(self) -> Path:
        """Where the server listens, while it is up; its modification time is when somebody last asked."""
        return self.folder / "server.json"

    @property
    def log(self) -> Path:
        """What the server and its supervisor print."""
        return self.folder / "server.log"


def read_facts(path: Path) -> dict[str, Any] | None:
    """What a JSON file says, None if there is none."""
    try:
        return dict(json.loads(path.read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def write_facts(path: Path, facts: Mapping[str, Any]) -> None:
    """Write a JSON file in one step, readable by its owner alone from the first byte on."""
    draft = path.with_suffix(".draft")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(facts, file)
    draft.rename(path)


def launch(files: ServerFolder, module: str, order: bytes) -> "subprocess.Popen[bytes]":
    """Start a supervisor in a session of its own, so that it survives this process and its terminal.

    Args:
        files: Of the server.
        module: The supervisor's; its argument is the folder.
        order: Its standard input, because everybody can see arguments.
    """
    if files.log.exists():
        files.log.replace(files.log.with_suffix(".log.1"))
    package = str(Path(__file__).parents[2])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))}
    with open(os.open(files.log, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", module, str(files.folder)],
            stdin=subprocess.PIPE, stdout=log, stderr=log,
            cwd=files.folder, env=environment, start_new_session=True, close_fds=True,
        )  # fmt: skip
    _started.append(process)
    if process.stdin:
        with suppress(BrokenPipeError), process.stdin as pipe:
            pipe.write(order)
    return process


def reap(ended: int | None = None) -> None:
    """Forget servers started here that have ended; wait for ``ended``, which is about to."""
    for process in _started:
        if process.pid == ended:
            process.wait()
    _started[:] = [process for process in _started if process.poll() is None]


def answers(port: int) -> bool:
    """Whether anything listens on a port of this machine."""
    try:
        socket.create_connection((_LOOPBACK, port), timeout=1).close()
    except OSError:
        return False
    return True


def sockets(pid: int, port: int) -> list[str]:
    """The states of the sockets that a process has at a port, as :mod:`psutil` calls them."""
    try:
        found = psutil.Process(pid).net_connections("tcp")
    except psutil.NoSuchProcess:
        return []
    return [socket.status for socket in found if socket.laddr and socket.laddr.port == port]


def free_port() -> int:
    """A port of this machine on which nothing listens just now.

    Of those that no system gives to outgoing connections: of theirs one would be taken again, now and then, before
    its server listens.

    Raises:
        ServerFailed: None is found.
    """
    chance = random.SystemRandom()  # not the one that a test seeds: two of them would look for the same
    for _ in range(100):
        with socket.socket() as probe, suppress(OSError):
            probe.bind((_LOOPBACK, chance.choice(_PORTS)))
            return int(probe.getsockname()[1])
    raise ServerFailed(f"no port of {_LOOPBACK} from {_PORTS[0]} to {_PORTS[-1]} is free")
