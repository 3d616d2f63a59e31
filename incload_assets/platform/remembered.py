"""Values that took time to find out, remembered in small SQLite files that processes share; any of them may be lost."""

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

_AT_ONCE = 500
_CREATE = "CREATE TABLE IF NOT EXISTS remembered (name TEXT PRIMARY KEY, state TEXT NOT NULL, value TEXT NOT NULL)"


class Remembered:
    """Values by name, each of one state of what is named; its folder is made when needed."""

    def __init__(self, store: Path) -> None:
        self._store = store

    def recall(self, states: Mapping[str, str]) -> dict[str, str]:
        """The values of names that are known in their present states."""
        known: dict[str, str] = {}
        with self._connection() as connection:
            if connection is not None:
                names = list(states)
                for start in range(0, len(names), _AT_ONCE):
                    chunk = names[start : start + _AT_ONCE]
                    marks = ",".join("?" * len(chunk))
                    rows = connection.execute(
                        f"SELECT name, state, value FROM remembered WHERE name IN ({marks})", chunk
                    )
                    known.update({name: value for name, state, value in rows if states[name] == state})
        return known

    def keep(self, found: Iterable[tuple[str, str, str]]) -> None:
        """Keeps names, states and values; an earlier state of a name is replaced."""
        if rows := list(found):
            with self._connection() as connection:
                if connection is not None:
                    connection.executemany("INSERT OR REPLACE INTO remembered VALUES (?, ?, ?)", rows)

    def forget(self) -> None:
        """Removes everything."""
        self._store.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection | None]:
        """A connection whose work is committed at the end, or None; its failures cost time and nothing else."""
        connection = None
        try:
            self._store.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(self._store, timeout=5)
            connection.execute(_CREATE)
        except (OSError, sqlite3.Error) as error:
            if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
                self._store.unlink(missing_ok=True)
            if connection is not None:
                connection.close()
            connection = None
        try:
            with contextlib.suppress(sqlite3.Error):
                yield connection
                if connection is not None:
                    connection.commit()
        finally:
            if connection is not None:
                connection.close()
