"""A real PostgreSQL for the tests, with logical decoding."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

from incload_assets.platform.local_servers.files import free_port
from incload_assets.platform.samples import database as sample_database
from incload_assets.platform.samples.postgres import Cluster, PostgresFiles
from incload_assets.platform.settings import Settings

_CONFIGURATION = """
fsync = off
wal_level = logical
max_replication_slots = 20
max_wal_senders = 20
max_connections = 100
max_prepared_transactions = 4
shared_buffers = '64MB'
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
        self._cluster, self._log = Cluster(folder), folder / "log"
        self._process: subprocess.Popen[bytes] | None = None

    def create(self) -> None:
        """Make the empty database cluster."""
        self._cluster.create(self.user, self.password, _CONFIGURATION)

    def start(self) -> None:
        """Start, and wait until it answers."""
        with self._log.open("ab") as log:
            # the server ends with the process that started it, however that one ends
            self._process = self._cluster.start(self.port, log, ["setpriv", "--pdeathsig=TERM"])
        for _ in range(300):
            if self._process.poll() is not None:
                raise RuntimeError(f"PostgreSQL ended: {self._log.read_text()[-2000:]}")
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
        """Make a database again and run statements in it.

        Returns:
            Its URL, without account.
        """
        self.run("postgres", f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)', f'CREATE DATABASE "{name}"')
        self.run(name, *statements)
        return f"postgresql://{self.host}:{self.port}/{name}"

    def dump(self, database: str, **account: str) -> bytes:
        """What ``pg_dump`` writes of a database; as the known account, unless ``user`` and ``password`` are given."""
        return self._client("pg_dump", "--format=custom", database, **account)

    def restore(self, database: str, dump: bytes) -> None:
        """Have ``pg_restore`` put a dump into an empty database."""
        self._client("pg_restore", "--exit-on-error", f"--dbname={database}", given=dump)

    def _client(
        self, program: str, *arguments: str, given: bytes = b"", user: str = user, password: str = password
    ) -> bytes:
        account = ["--host", self.host, "--port", str(self.port), "--username", user]
        command = [str(self._cluster.binaries() / program), *account, *arguments]
        environment = os.environ | {"PGPASSWORD": password}
        return subprocess.run(command, input=given, capture_output=True, check=True, env=environment).stdout

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


@contextmanager
def sample_database_ends(home: Path) -> Iterator[None]:
    """The sample shop's server of a home folder, if one is started, is gone with its data after the block."""
    try:
        yield
    finally:
        sample_database.stop(Settings(home=home))
        if account := PostgresFiles.of(home).read_account():
            shutil.rmtree(account.cluster, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One server for each process of the test run (it is up in a second); each test uses a database of its own."""
    with running_postgres() as server:
        yield server
