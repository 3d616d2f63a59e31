"""A real MariaDB for the tests, with a binary log of rows."""

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

import pymysql
import pytest

from incload_assets.platform.local_servers.files import free_port

_CONFIGURATION = """
[mysqld]
bind_address = 127.0.0.1
character_set_server = utf8mb4
skip_name_resolve
innodb_flush_log_at_trx_commit = 0
innodb_buffer_pool_size = 64M
performance_schema = off
log_bin = binlog
binlog_format = ROW
binlog_row_image = FULL
server_id = 1
"""


class MariadbServer:
    """A server with its data in a folder of its own; an account that may do everything, with a password.

    Args:
        folder: Empty, and gone with the server.
    """

    host = "127.0.0.1"
    user = "incload"
    password = "not-to-be-shown"

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self._folder, self._log = folder, folder / "log"
        self._process: subprocess.Popen[bytes] | None = None

    def create(self, *lines: str) -> None:
        """Make the empty server, with more lines of its configuration."""
        (self._folder / "my.cnf").write_text(_CONFIGURATION + "\n".join(lines) + "\n")
        command = ["mariadb-install-db", *self._places(), "--auth-root-authentication-method=normal", "--skip-test-db"]
        subprocess.run(command, capture_output=True, check=True)
        (self._folder / "first.sql").write_text(
            f"CREATE USER '{self.user}'@'%' IDENTIFIED BY '{self.password}';\n"
            f"GRANT ALL ON *.* TO '{self.user}'@'%' WITH GRANT OPTION;\n"
        )
        self.start(f"--init-file={self._folder / 'first.sql'}")
        self.stop()

    def start(self, *options: str) -> None:
        """Start, and wait until it answers."""
        sockets = ["--port", str(self.port), "--socket", str(self._folder / "socket")]
        # the server ends with the process that started it, however that one ends
        command = ["setpriv", "--pdeathsig=TERM", shutil.which("mariadbd") or "/usr/sbin/mariadbd", *self._places()]
        command += [*sockets, "--pid-file", str(self._folder / "pid"), *options]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        for _ in range(600):
            if self._process.poll() is not None:
                raise RuntimeError(f"MariaDB ended: {self._log.read_text()[-2000:]}")
            with suppress(pymysql.err.OperationalError):
                self.connect(None).close()
                return
            time.sleep(0.1)
        raise RuntimeError("MariaDB does not answer")

    def stop(self, *, kill: bool = False) -> None:
        """Stop: connections are cut; with ``kill`` as in a power failure."""
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
        self._process.wait(60)
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
        self.run(None, f"DROP DATABASE IF EXISTS `{name}`", f"CREATE DATABASE `{name}`")
        self.run(name, *statements)
        return f"mariadb://{self.host}:{self.port}/{name}"

    def connect(self, database: str | None, **options: Any) -> "pymysql.Connection[Any]":
        """A connection of the known account; its options are PyMySQL's."""
        place: dict[str, Any] = {"host": self.host, "port": self.port, "database": database, "charset": "utf8mb4"}
        return pymysql.connect(**(place | {"user": self.user, "password": self.password} | options))

    def run(self, database: str | None, *statements: str) -> None:
        """Run statements, each in a transaction of its own."""
        with self.connect(database, autocommit=True) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def rows(self, database: str, query: str) -> list[tuple[Any, ...]]:
        """What a query returns."""
        with self.connect(database) as connection, connection.cursor() as cursor:
            cursor.execute(query)
            return list(cursor.fetchall())

    def _places(self) -> list[str]:
        own = ["--user=root"] if os.geteuid() == 0 else []
        # a server that starts removes what another one has in the same folder for temporary files
        (self._folder / "tmp").mkdir(exist_ok=True)
        places = {"defaults-file": "my.cnf", "datadir": "data", "tmpdir": "tmp"}
        return [*(f"--{name}={self._folder / place}" for name, place in places.items()), *own]


@contextmanager
def running_mariadb(*lines: str) -> Iterator[MariadbServer]:
    """A server for as long as the block runs, with more lines of its configuration, for tests that stop or kill it."""
    folder = Path(tempfile.mkdtemp(prefix="mariadb-"))
    server = MariadbServer(folder)
    try:
        server.create(*lines)
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariadbServer]:
    """One server for each process of the test run (it is up in a few seconds); each test uses its own database."""
    with running_mariadb() as server:
        yield server
