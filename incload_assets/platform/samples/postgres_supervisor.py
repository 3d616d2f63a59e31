"""The supervisor of the sample PostgreSQL, a process of its own: ``python -m … FOLDER < order.json``.

It holds the server's lock, creates the data if there is none, runs PostgreSQL as its child, and ends it when it has
been idle for a while, when its folder is gone or on SIGTERM. If the supervisor itself is killed, PostgreSQL continues
alone, and the next supervisor ends it before it starts its own.
"""

import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psycopg

from incload_assets.platform.local_servers.files import free_port
from incload_assets.platform.local_servers.supervisor import Process, Record, supervise
from incload_assets.platform.samples.postgres import (
    HOST,
    Account,
    Cluster,
    PostgresFailed,
    PostgresFiles,
    open_to_all,
    stop,
)

USER = CATALOG = "shop"
ROOTS_PLACE = Path("/var/lib/incload")
"""Where root keeps the data if the account that runs PostgreSQL cannot enter the home folder."""

_UP_SECONDS = 30.0
_ATTEMPTS = 5
"""Attempts to start: a port may be taken before its use, and processes of a killed server may linger for a second."""
_POLL_SECONDS = 0.05
_CONFIGURATION = """
shared_buffers = '32MB'
max_connections = 50
min_wal_size = '32MB'
max_wal_size = '128MB'
log_checkpoints = off
"""


@dataclass(frozen=True)
class Order:
    """The server's configuration, read from standard input.

    Args:
        idle_seconds: Seconds without a request or a connection after which the server ends.
    """

    idle_seconds: float


class PostgresService:
    """PostgreSQL as a service for :mod:`incload_assets.platform.local_servers.supervisor`.

    Args:
        files: The server's folder.
    """

    def __init__(self, files: PostgresFiles) -> None:
        self._files = files
        self._cluster: Path | None = None

    def start(self) -> tuple[Process, Record]:
        """Starts the server, and waits until it is up with its database."""
        account = _account(self._files)
        self._cluster = Path(account.cluster)
        cluster = Cluster(self._cluster)
        cluster.end_leftover()
        for attempt in range(_ATTEMPTS):
            time.sleep(attempt)
            port = free_port()
            server = cluster.start(port, sys.stdout.buffer)
            if _is_up(server, port, account.password):
                return server, Record(port, os.getpid(), account.password)
            stop(server)
        raise PostgresFailed("PostgreSQL does not stay up; its reason is above")

    def is_used(self, process: Process, record: Record) -> bool:
        """True if another client is connected."""
        with suppress(psycopg.Error), _connect(record.port, record.password, "postgres") as connection:
            others = "SELECT FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
            return bool(connection.execute(others).fetchall())
        return False

    def stop(self, process: Process) -> None:
        """Ends the server; connections are closed."""
        stop(process)

    def forget(self) -> None:
        """Removes the data, which root may keep outside of the folder."""
        if self._cluster is not None:
            shutil.rmtree(self._cluster, ignore_errors=True)


def _account(files: PostgresFiles) -> Account:
    """The account of the existing data, or of new data if there is none."""
    account = files.read_account()
    if account and (Path(account.cluster) / "data" / "PG_VERSION").exists():
        return account
    folder = files.folder / "cluster"
    if not os.geteuid() and not open_to_all(files.folder):
        ROOTS_PLACE.mkdir(mode=0o755, parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(dir=ROOTS_PLACE, prefix="postgres-"))
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    account = Account(str(folder), secrets.token_urlsafe(32))
    try:
        Cluster(folder).create(USER, account.password, _CONFIGURATION)
    except PostgresFailed:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    files.write_account(account)
    return account


def _is_up(server: "subprocess.Popen[bytes]", port: int, password: str) -> bool:
    """Waits until the server answers and has the database; returns whether it does in time."""
    deadline = time.monotonic() + _UP_SECONDS
    while server.poll() is None and time.monotonic() < deadline:
        try:
            with _connect(port, password, "postgres") as connection:
                if not connection.execute("SELECT FROM pg_database WHERE datname = %s", [CATALOG]).fetchall():
                    connection.execute(f"CREATE DATABASE {CATALOG}")
                return True
        except psycopg.OperationalError:
            time.sleep(_POLL_SECONDS)
    return False


def _connect(port: int, password: str, catalog: str) -> "psycopg.Connection[tuple[object, ...]]":
    return psycopg.connect(
        host=HOST, port=port, dbname=catalog, user=USER, password=password, connect_timeout=5, autocommit=True
    )


if __name__ == "__main__":
    files = PostgresFiles(Path(sys.argv[1]))
    supervise(files, PostgresService(files), Order(**json.load(sys.stdin)).idle_seconds)
