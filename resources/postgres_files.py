"""What the sample's PostgreSQL leaves in its folder."""

import os
from dataclasses import asdict, dataclass
from pathlib import Path

from resources.local_server import read_facts, write_facts
from resources.supervising import SupervisedFolder


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
class PostgresFiles(SupervisedFolder):
    """The files beside the data; those that hold the password are readable by their owner alone."""

    @classmethod
    def of(cls, home: Path) -> "PostgresFiles":
        """Those under ``home``; the folder is made."""
        # where root starts the server, it is run by another account, which has to pass
        return cls.under(home, "postgres", 0o700 if os.geteuid() else 0o711)

    @property
    def account(self) -> Path:
        """Where the data is; written when it is complete."""
        return self.folder / "account.json"

    def read_account(self) -> Account | None:
        """What ``account.json`` says, None if there is none."""
        facts = read_facts(self.account)
        return Account(**facts) if facts else None

    def write_account(self, account: Account) -> None:
        """Write ``account.json``, readable by its owner alone."""
        write_facts(self.account, asdict(account))
