"""The files of a local Spark Connect server, and its state as seen from other processes."""

import hashlib
import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from incload_assets.platform.local_servers import files as local_server


@dataclass(frozen=True)
class Server:
    """The content of ``server.json``: a local server.

    Args:
        port: The server's port on loopback.
        pid: The process that holds the lock; ending it ends the server.
        jvm_pid: Spark's own process, a child of ``pid``.
        token: The pre-shared key.
        configuration: :func:`fingerprint` of the configuration with which the server was started.
    """

    port: int
    pid: int
    jvm_pid: int
    token: str
    configuration: str

    @property
    def url(self) -> str:
        """The address for a client, with ``localhost``, because PySpark requires TLS with a key for any other host."""
        return f"sc://localhost:{self.port}/;token={self.token}"

    def connections(self) -> int:
        """How many clients are connected now."""
        return local_server.sockets(self.jvm_pid, self.port).count(psutil.CONN_ESTABLISHED)

    def listens(self) -> bool:
        """True if Spark's process still listens, determined without connecting."""
        return psutil.CONN_LISTEN in local_server.sockets(self.jvm_pid, self.port)

    def answers(self) -> bool:
        """True if a process listens on the server's port."""
        return local_server.answers(self.port)


@dataclass(frozen=True)
class ServerFiles(local_server.ServerFolder):
    """The files of a workspace's local server, all in one folder that only its owner may enter."""

    @classmethod
    def of(cls, home: Path) -> "ServerFiles":
        """The files under ``home``; the folder is created."""
        return cls.under(home, "spark")

    @property
    def properties(self) -> Path:
        """The configuration with which the server starts."""
        return self.folder / "spark.properties"

    @property
    def scratch(self) -> Path:
        """Spark's local files: shuffles, spills, the materialized sources of MERGEs."""
        return self.folder / "scratch"

    def read(self) -> Server | None:
        """The content of ``server.json``, None if there is none. Only the lock shows whether that server is alive."""
        facts = local_server.read_facts(self.record)
        with suppress(TypeError):
            return Server(**facts) if facts else None
        return None

    def write(self, server: Server) -> None:
        """Writes ``server.json``, readable only by its owner."""
        local_server.write_facts(self.record, asdict(server))


def fingerprint(parts: object, token: str) -> str:
    """Hash of JSON-ready ``parts``, keyed with the server's token, so that the parts cannot be guessed from it."""
    content = json.dumps(parts, sort_keys=True)
    return hashlib.blake2b(content.encode(), key=token.encode()[:64], digest_size=16).hexdigest()
