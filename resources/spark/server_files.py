"""What a local Spark Connect server leaves in its folder, and what can be seen of it from outside."""

import hashlib
import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from resources.local_servers import files as local_server


@dataclass(frozen=True)
class Server:
    """A local server as ``server.json`` tells of it.

    Args:
        port: Where it listens on loopback.
        pid: The process that holds the lock; ending it ends the server.
        jvm_pid: Spark's own process, a child of ``pid``.
        token: The pre-shared key.
        configuration: :func:`fingerprint` of what it was started with.
    """

    port: int
    pid: int
    jvm_pid: int
    token: str
    configuration: str

    @property
    def url(self) -> str:
        """The address for a client; ``localhost`` by name, because pyspark wants TLS for a key to any other host."""
        return f"sc://localhost:{self.port}/;token={self.token}"

    def connections(self) -> int:
        """How many clients are connected now."""
        return local_server.sockets(self.jvm_pid, self.port).count(psutil.CONN_ESTABLISHED)

    def listens(self) -> bool:
        """Whether Spark's process still takes clients; asked without becoming one."""
        return psutil.CONN_LISTEN in local_server.sockets(self.jvm_pid, self.port)

    def answers(self) -> bool:
        """Whether anything listens on its port."""
        return local_server.answers(self.port)


@dataclass(frozen=True)
class ServerFiles(local_server.ServerFolder):
    """The files of the local server of one workspace, all in one folder that only its owner may enter."""

    @classmethod
    def of(cls, home: Path) -> "ServerFiles":
        """Those under ``home``; the folder is made."""
        return cls.under(home, "spark")

    @property
    def properties(self) -> Path:
        """The configuration the server starts from."""
        return self.folder / "spark.properties"

    @property
    def scratch(self) -> Path:
        """Spark's local files: shuffles, spills, what a MERGE materializes."""
        return self.folder / "scratch"

    def read(self) -> Server | None:
        """What ``server.json`` says, None if there is none; whether that server lives is for the lock to say."""
        facts = local_server.read_facts(self.record)
        with suppress(TypeError):
            return Server(**facts) if facts else None
        return None

    def write(self, server: Server) -> None:
        """Write ``server.json``, readable by its owner alone."""
        local_server.write_facts(self.record, asdict(server))


def fingerprint(parts: object, token: str) -> str:
    """Hash of JSON-ready ``parts``, keyed by the server's own token: it tells nobody else what the parts are."""
    told = json.dumps(parts, sort_keys=True)
    return hashlib.blake2b(told.encode(), key=token.encode()[:64], digest_size=16).hexdigest()
