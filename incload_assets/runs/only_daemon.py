"""The only daemon of a Dagster instance: a second one is refused, as Dagster itself only logs an error and runs both.

Two daemons would ask each sensor twice, and launch a run twice whose turn has come.
"""

import os
import socket
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from dagster import DagsterInstance

from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.local_servers.locks import exclusive

LOCK = "daemon.lock"
"""The name of the file in the instance's folder that the daemon locks, if the storage is in SQLite files."""
_KEY = (0x494E434C, 1)
"""The numbers of the daemon's lock in a PostgreSQL database: ``INCL``, and the first of its locks."""
_PATIENCE = 5.0
"""How long a daemon waits for one that is just ending, in seconds."""
_KEEPALIVE = ("tcp_keepalives_idle = 30", "tcp_keepalives_interval = 10", "tcp_keepalives_count = 3")
"""With these settings the database learns within a minute that the machine of a daemon is gone, not after two hours."""
_HOLDER = """
SELECT a.application_name FROM pg_locks l JOIN pg_stat_activity a USING (pid) JOIN pg_database d ON d.oid = l.database
WHERE l.locktype = 'advisory' AND l.granted AND l.classid = %s AND l.objid = %s AND d.datname = current_database()
"""


class OnlyDaemon:
    """The claim of this process to be the only daemon of an instance, which ends with the process, however it ends.

    It is the lock of a file for a storage in SQLite files, and a lock in the database for one in PostgreSQL. For other
    storages there is none.
    """

    def __init__(self, instance: DagsterInstance) -> None:
        self._instance, self._held = instance, ExitStack()
        self._storage: Any = instance.run_storage
        self._in_database = "postgres" in type(self._storage).__module__
        self._connection: Any = None

    def take(self) -> None:
        """Makes the claim; raises IncrementalLoadError if another process has it."""
        if self._in_database:
            self._lock_in_database()
        elif "sqlite" in type(self._storage).__module__ and self._instance.is_persistent:
            self._lock_file(Path(self._instance.root_directory, LOCK))

    def keep(self) -> None:
        """Makes the claim again if the connection to the database that held it was lost; raises as :meth:`take`."""
        if not self._in_database:
            return
        try:
            self._connection.exec_driver_sql("SELECT 1")
        except Exception:  # of whatever driver, or because there is no connection since
            self.give_up()
            self._lock_in_database()

    def give_up(self) -> None:
        """Ends the claim."""
        held, self._held, self._connection = self._held, ExitStack(), None
        with suppress(Exception):  # of a connection that was lost
            held.close()

    def _lock_file(self, file: Path) -> None:
        if not self._held.enter_context(exclusive(file, _PATIENCE)):
            raise _refused(str(file.parent), file.read_text())
        file.write_text(_own_name())

    def _lock_in_database(self) -> None:
        with ExitStack() as opened:
            connection = opened.enter_context(self._storage.connect())
            connection.exec_driver_sql("SELECT set_config('application_name', %s, false)", (_own_name(),))
            for setting in _KEEPALIVE:
                connection.exec_driver_sql(f"SET {setting}")
            deadline = time.monotonic() + _PATIENCE
            while not connection.exec_driver_sql("SELECT pg_try_advisory_lock(%s, %s)", _KEY).scalar():
                if time.monotonic() > deadline:
                    where, holder = connection.engine.url, connection.exec_driver_sql(_HOLDER, _KEY).scalar()
                    raise _refused(f"{where.host}:{where.port}/{where.database}", holder or "")
                time.sleep(0.2)
            self._connection, self._held = connection, opened.pop_all()


def _own_name() -> str:
    return f"process {os.getpid()} on {socket.gethostname()}"


def _refused(where: str, holder: str) -> IncrementalLoadError:
    return IncrementalLoadError(
        f"a daemon of Dagster is running on {where}" + (f": {holder}" if holder else ""),
        rule="an instance has one daemon; two would launch runs twice",
        remedy="stop that one first. Webservers and the command line can use the instance from anywhere",
    )
