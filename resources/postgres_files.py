"""What the sample's PostgreSQL leaves in its folder."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class PostgresServer:
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
class Account:
    """What belongs to the data, whether a server is up or not.

    Args:
        cluster: The cluster's folder.
        password: Of its one account.
    """

    cluster: str
    password: str


@dataclass(frozen=True)
class PostgresFiles:
    """The files beside the data; those that hold the password are readable by their owner alone."""

    folder: Path

    @classmethod
    def of(cls, home: Path) -> "PostgresFiles":
        """Those under ``home``; the folder is made."""
        folder = home / "postgres"
        folder.mkdir(parents=True, exist_ok=True)
        # where root starts the server, it is run by another account, which has to pass
        folder.chmod(0o700 if os.geteuid() else 0o711)
        return cls(folder)

    @property
    def lock(self) -> Path:
        """Held by the supervisor for as long as it lives."""
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
    def account(self) -> Path:
        """Where the data is; written when it is complete."""
        return self.folder / "account.json"

    @property
    def log(self) -> Path:
        """What the server and its supervisor print."""
        return self.folder / "server.log"

    def read(self) -> PostgresServer | None:
        """What ``server.json`` says, None if there is none; whether that server lives is for the lock to say."""
        facts = _read(self.record)
        return PostgresServer(**facts) if facts else None

    def read_account(self) -> Account | None:
        """What ``account.json`` says, None if there is none."""
        facts = _read(self.account)
        return Account(**facts) if facts else None

    def write(self, content: PostgresServer | Account) -> None:
        """Write the file in one step, readable by its owner alone from the first byte on."""
        target = self.account if isinstance(content, Account) else self.record
        draft = target.with_suffix(".draft")
        draft.unlink(missing_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump(asdict(content), file)
        draft.rename(target)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        return dict(json.loads(path.read_text()))
    except (FileNotFoundError, ValueError):
        return None
