"""The files and processes of a workspace's servers: a folder with locks, a record and a log; launch, sockets, ports."""

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

from incload_assets.platform.whole_files import replace_file

_LOOPBACK = "127.0.0.1"
_PORTS = range(20_000, 32_768)
"""Ports below the range for outgoing connections: 32768 to 60999 on Linux, from 49152 elsewhere."""

_started: list[subprocess.Popen[bytes]] = []  # kept, so that a server that has ended is reaped and leaves no zombie


class ServerFailed(Exception):
    """Raised if a server does not run; the message is the reason."""


@dataclass(frozen=True)
class ServerFolder:
    """The files of one server of a workspace; files with a secret are readable only by their owner."""

    folder: Path

    @classmethod
    def under(cls, home: Path, name: str, mode: int = 0o700) -> Self:
        """The files in a folder of the given name, which is created; by default only its owner may enter it."""
        folder = home / name
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(mode)
        return cls(folder)

    @property
    def lock(self) -> Path:
        """The lock that the server's process holds for as long as it lives."""
        return self.folder / "server.lock"

    @property
    def start_lock(self) -> Path:
        """The lock that a process holds while it starts a server."""
        return self.folder / "start.lock"

    @property
    def record(self) -> Path:
        """The server's record while it is up; its modification time is the time of the last request for the server."""
        return self.folder / "server.json"

    @property
    def log(self) -> Path:
        """The output of the server and its supervisor."""
        return self.folder / "server.log"


def read_facts(path: Path) -> dict[str, Any] | None:
    """The content of a JSON file, None if there is none."""
    try:
        return dict(json.loads(path.read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def write_facts(path: Path, facts: Mapping[str, Any]) -> None:
    """Writes a JSON file atomically, readable only by its owner from the first byte on."""
    replace_file(path, json.dumps(facts).encode(), 0o600)


def launch(files: ServerFolder, module: str, order: bytes) -> "subprocess.Popen[bytes]":
    """Starts a supervisor in its own session; its order is its standard input, because arguments are visible to all."""
    if files.log.exists():
        files.log.replace(files.log.with_suffix(".log.1"))
    package = str(Path(__file__).parents[3])
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
    """Reaps the supervisors started here that have ended; waits for ``ended``, which is about to end."""
    for process in _started:
        if process.pid == ended:
            process.wait()
    _started[:] = [process for process in _started if process.poll() is None]


def answers(port: int) -> bool:
    """True if a process listens on a port of this machine."""
    try:
        socket.create_connection((_LOOPBACK, port), timeout=1).close()
    except OSError:
        return False
    return True


def sockets(pid: int, port: int) -> list[str]:
    """The states of a process's sockets at a port, by :mod:`psutil`'s names."""
    try:
        found = psutil.Process(pid).net_connections("tcp")
    except psutil.NoSuchProcess:
        return []
    return [socket.status for socket in found if socket.laddr and socket.laddr.port == port]


def free_port() -> int:
    """A port of this machine on which nothing listens now; raises ServerFailed if none is found.

    Ports for outgoing connections are left out: now and then they are taken again before the server listens.
    """
    chance = random.SystemRandom()  # not the generator that tests seed: two tests would try the same ports
    for _ in range(100):
        with socket.socket() as probe, suppress(OSError):
            probe.bind((_LOOPBACK, chance.choice(_PORTS)))
            return int(probe.getsockname()[1])
    raise ServerFailed(f"no port of {_LOOPBACK} from {_PORTS[0]} to {_PORTS[-1]} is free")
