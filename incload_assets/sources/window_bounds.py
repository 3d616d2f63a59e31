"""Stored window boundaries (offsets, ids) of sources without reliable event times; immutable once written.

A *window bound* at an instant is the place (an id, or an offset per topic partition) up to which all records belong to
windows that end at or before the instant. Each window reads from one bound to the next. All processes use the same
bounds, so the windows cover the source without gaps or overlaps, in whatever order they are loaded.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from incload_assets.declaration import window as windows
from incload_assets.platform.attempts import in_attempts
from incload_assets.platform.errors import SourceUnavailable
from incload_assets.platform.lake import Lake

Bound = Mapping[str, Any]
"""Place in the source, JSON-ready; its content is up to the source."""

Choose = Callable[[Sequence[datetime], Mapping[datetime, Bound]], Mapping[datetime, Bound]]
"""From the instants without a bound (ascending) and all known bounds to new bounds, for some or all of these instants.

Bounds must ascend with their instants. If another process writes first, the function is called again with the bounds
known then.
"""

ATTEMPTS = 20
FILES = 64
"""Number of commits after which the files are merged: each commit adds a file, and every read reads all of them."""
_SCHEMA = pa.schema(
    [
        pa.field("at", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("cut", pa.string(), nullable=False),
        pa.field("written_at", pa.timestamp("us", tz="UTC"), nullable=False),
    ]
)


class WindowBounds:
    """The window bounds of one table, stored in a small Delta table.

    Writes are compare-and-swap by Delta's transaction identifiers: each commit has the number after the one that its
    writer read, so if two writers read the same number, one fails and reads again.
    """

    def __init__(self, lake: Lake, table_name: str) -> None:
        self._lake, self._table = lake, table_name
        self._uri = lake.cuts_uri(table_name.split("/"))

    def known(self) -> dict[datetime, Bound]:
        """All stored bounds by instant, aware, UTC, ascending."""
        return _bounds(self._read()[0])

    def at(self, instants: Sequence[datetime], choose: Choose) -> dict[datetime, Bound]:
        """The bounds at some aware instants; missing ones are chosen and stored, except where ``choose`` returns none.

        Raises SourceUnavailable if other processes kept writing bounds in between.
        """
        wanted = {instant.astimezone(UTC) for instant in instants}

        def found() -> dict[datetime, Bound] | None:
            rows, number = self._read()
            known, chosen = _bounds(rows), dict[datetime, Bound]()
            if missing := sorted(wanted - known.keys()):
                chosen = dict(choose(missing, known))
            if not chosen or self._write(chosen, number + 1, rows):
                merged = {**known, **chosen}
                return {instant: merged[instant] for instant in sorted(wanted) if instant in merged}
            return None

        lost = SourceUnavailable(
            f"{self._table}: other processes wrote window bounds during each of {ATTEMPTS} attempts to write them",
            rule="window bounds are written by one process at a time",
            remedy="none: the load is retried",
        )
        return in_attempts(ATTEMPTS, found, lost)

    def _read(self) -> tuple[list[dict[str, Any]], int]:
        """All rows, and the number of the latest commit; 0 if there is none."""
        table = self._lake.delta(self._uri)
        if table is None:
            return [], 0
        rows = sorted(table.to_pyarrow_table().to_pylist(), key=lambda row: row["at"])
        return rows, table.transaction_version(self._app_id) or 0

    def _write(self, bounds: Mapping[datetime, Bound], number: int, before: list[dict[str, Any]]) -> bool:
        now, replacing = windows.now(), number % FILES == 0
        new = [{"at": at, "cut": json.dumps(bound, sort_keys=True), "written_at": now} for at, bound in bounds.items()]
        rows = pa.Table.from_pylist([*before, *new] if replacing else new, _SCHEMA)
        return self._lake.append(self._uri, rows, self._app_id, number, replacing=replacing)

    @property
    def _app_id(self) -> str:
        return f"{self._table}/cuts"


def _bounds(rows: list[dict[str, Any]]) -> dict[datetime, Bound]:
    return {row["at"]: json.loads(row["cut"]) for row in rows}
