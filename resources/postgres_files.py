"""What the sample's PostgreSQL leaves in its folder."""

import os
from dataclasses import asdict, dataclass
from pathlib import Path

from resources.local_server import ServerFolder, read_facts, write_facts


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
class PostgresFiles(ServerFolder):
    """The files beside the data; those that hold the password are readable by their owner alone."""

    @classmethod
    def of(cls, home: Path) -> "PostgresFiles":
        """Those under ``home``; the folder is made."""
        folder = home / "postgres"
        folder.mkdir(parents=True, exist_ok=True)
        # where root starts the server, it is run by another account, which has to pass
        folder.chmod(0o700 if os.geteuid() else 0o711)
        return cls(folder)

    @property
    def account(self) -> Path:
        """Where the data is; written when it is complete."""
        return self.folder / "account.json"

    def read(self) -> PostgresServer | None:
        """What ``server.json`` says, None if there is none; whether that server lives is for the lock to say."""
        facts = read_facts(self.record)
        return PostgresServer(**facts) if facts else None

    def read_account(self) -> Account | None:
        """What ``account.json`` says, None if there is none."""
        facts = read_facts(self.account)
        return Account(**facts) if facts else None

    def write(self, content: PostgresServer | Account) -> None:
        """Write the file of a server, or of an account, readable by its owner alone."""
        write_facts(self.account if isinstance(content, Account) else self.record, asdict(content))
