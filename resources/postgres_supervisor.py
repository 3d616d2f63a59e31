"""The process of the sample's PostgreSQL: ``python -m resources.postgres_supervisor FOLDER IDLE_SECONDS``.

It holds the server's lock, makes the data if there is none, runs PostgreSQL below it and ends it when nobody has asked
for a while, when its folder is gone or when it is told to (SIGTERM). If it is killed itself, PostgreSQL goes on alone,
and the next supervisor ends that before it starts its own.
"""

import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

import psycopg

from resources.local_server import free_port
from resources.locks import exclusive
from resources.postgres import HOST, Cluster, PostgresFailed, open_to_all, stop
from resources.postgres_files import Account, PostgresFiles, PostgresServer

USER = CATALOG = "shop"
ROOTS_PLACE = Path("/var/lib/incload")
"""Where root keeps the data if others have no way to the home folder: PostgreSQL is run by an account of its own."""

_LOCK_SECONDS = 5.0
_UP_SECONDS = 30.0
_ATTEMPTS = 5
"""A port may be taken in between; of a server that was killed, processes may linger for a second."""
_POLL_SECONDS = 0.05
_CONFIGURATION = """
shared_buffers = '32MB'
max_connections = 50
min_wal_size = '32MB'
max_wal_size = '128MB'
log_checkpoints = off
"""


def serve(files: PostgresFiles, idle_seconds: float) -> None:
    """Run the server until it is idle, dead or told to stop; return at once if another one holds the lock."""
    told_to_stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: told_to_stop.set())
    with exclusive(files.lock, _LOCK_SECONDS) as held:
        if not held:
            return
        server = account = None
        try:
            account = _account(files)
            server, port = _start(Cluster(Path(account.cluster)), account)
            files.write(PostgresServer(port, os.getpid(), account.password))
            _watch(files, server, idle_seconds, told_to_stop)
        except PostgresFailed as error:
            print(f"error: {error}", flush=True)
        finally:
            if _own(files):
                files.record.unlink(missing_ok=True)
            if server is not None:
                stop(server)
            if account is not None and not files.folder.exists():
                shutil.rmtree(account.cluster, ignore_errors=True)  # root's, which may be elsewhere


def _account(files: PostgresFiles) -> Account:
    """The data as it is, or made anew where there is none."""
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
    files.write(account)
    return account


def _start(cluster: Cluster, account: Account) -> "tuple[subprocess.Popen[bytes], int]":
    """The server, up, and its port."""
    cluster.end_leftover()
    for attempt in range(_ATTEMPTS):
        time.sleep(attempt)
        port = free_port()
        server = cluster.start(port, sys.stdout.buffer)
        if _is_up(server, port, account.password):
            return server, port
        stop(server)
    raise PostgresFailed("PostgreSQL does not stay up; its reason is above")


def _is_up(server: "subprocess.Popen[bytes]", port: int, password: str) -> bool:
    """Wait until it answers and has the database; whether it does."""
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


def _watch(
    files: PostgresFiles, server: "subprocess.Popen[bytes]", idle_seconds: float, told_to_stop: threading.Event
) -> None:
    """Return when the server should end."""
    while not told_to_stop.wait(min(2.0, idle_seconds / 5)):
        if server.poll() is not None:
            raise PostgresFailed(f"PostgreSQL ended with code {server.returncode}")
        try:
            known = _own(files)
            if known and time.time() - files.record.stat().st_mtime < idle_seconds:
                continue
            if known is None or not _is_used(known):
                return
            os.utime(files.record)
        except FileNotFoundError:
            return


def _own(files: PostgresFiles) -> PostgresServer | None:
    """What ``server.json`` says; None if the home folder was removed since, and maybe has another server by now."""
    known = files.read()
    return known if known and known.pid == os.getpid() else None


def _is_used(server: PostgresServer) -> bool:
    with suppress(psycopg.Error), _connect(server.port, server.password, "postgres") as connection:
        others = "SELECT FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        return bool(connection.execute(others).fetchall())
    return False


def _connect(port: int, password: str, catalog: str) -> "psycopg.Connection[tuple[object, ...]]":
    return psycopg.connect(
        host=HOST, port=port, dbname=catalog, user=USER, password=password, connect_timeout=5, autocommit=True
    )


if __name__ == "__main__":
    serve(PostgresFiles(Path(sys.argv[1])), float(sys.argv[2]))
