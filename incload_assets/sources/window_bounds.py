"""Where windows end in a source whose records bear no reliable time: written down once, never moved.

A *cut* at an instant says up to where (an id, an offset per topic partition) everything belongs to the windows that end
at or before it. Windows then tile what the source holds, in whatever order and by however many processes they are
loaded, because each reads from one cut to the next, and a cut is the same for everybody from the moment it is written.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from incload_assets.declaration import window as windows
from resources.errors import SourceUnavailable
from resources.lake import Lake

Bound = Mapping[str, Any]
"""JSON-ready, of the source's own making."""

Choose = Callable[[Sequence[datetime], Mapping[datetime, Bound]], Mapping[datetime, Bound]]
"""From the instants without a cut (ascending) and all cuts there are to the cuts to write, for all or some of them.

A cut must not lie before that of an earlier instant, or behind that of a later one. Where another process was faster,
the function is called again with what is there then.
"""

ATTEMPTS = 20
FILES = 64
"""Each commit adds a file, and all are read at each look; so every so many commits they become one."""
_SCHEMA = pa.schema(
    [
        pa.field("at", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("cut", pa.string(), nullable=False),
        pa.field("written_at", pa.timestamp("us", tz="UTC"), nullable=False),
    ]
)


class WindowBounds:
    """The cuts of one table, a small Delta table of its own.

    Each commit carries the number after the one its writer read, so that of two writers who read the same one loses
    and looks again: compare and swap, by Delta's transaction identifiers.

    Args:
        lake: Where tables are.
        table: The table's name, its asset key with slashes.

    Example:
        >>> cuts = WindowBounds(lake, "retail/payments")  # doctest: +SKIP
        >>> cuts.at([monday], lambda missing, known: {at: {"id": 17} for at in missing})  # doctest: +SKIP
        {datetime(2026, 1, 5, tzinfo=UTC): {'id': 17}}
    """

    def __init__(self, lake: Lake, table_name: str) -> None:
        self._lake, self._table = lake, table_name
        self._uri = lake.cuts_uri(table_name.split("/"))

    def known(self) -> dict[datetime, Bound]:
        """All cuts written, by instant, aware, UTC, ascending."""
        return _cuts(self._read()[0])

    def at(self, instants: Sequence[datetime], choose: Choose) -> dict[datetime, Bound]:
        """The cuts at some instants; those without one are given one, if ``choose`` names it.

        Args:
            instants: Aware.
            choose: See :data:`Choose`.

        Raises:
            SourceUnavailable: Other processes kept writing cuts in between.
        """
        wanted = {instant.astimezone(UTC) for instant in instants}
        for _ in range(ATTEMPTS):
            rows, number = self._read()
            known, chosen = _cuts(rows), dict[datetime, Bound]()
            if missing := sorted(wanted - known.keys()):
                chosen = dict(choose(missing, known))
            if not chosen or self._write(chosen, number + 1, rows):
                merged = {**known, **chosen}
                return {instant: merged[instant] for instant in sorted(wanted) if instant in merged}
        raise SourceUnavailable(
            f"{self._table}: other processes wrote cuts each of {ATTEMPTS} times between reading and writing them",
            rule="cuts are written by one process at a time",
            remedy="none: the load is tried again",
        )

    def _read(self) -> tuple[list[dict[str, Any]], int]:
        """All rows, and the number of the commit that wrote the last of them; 0 without any."""
        table = self._lake.delta(self._uri)
        if table is None:
            return [], 0
        rows = sorted(table.to_pyarrow_table().to_pylist(), key=lambda row: row["at"])
        return rows, table.transaction_version(self._app_id) or 0

    def _write(self, cuts: Mapping[datetime, Bound], number: int, before: list[dict[str, Any]]) -> bool:
        now, anew = windows.now(), number % FILES == 0
        new = [{"at": at, "cut": json.dumps(cut, sort_keys=True), "written_at": now} for at, cut in cuts.items()]
        rows = pa.Table.from_pylist([*before, *new] if anew else new, _SCHEMA)
        return self._lake.append(self._uri, rows, self._app_id, number, anew=anew)

    @property
    def _app_id(self) -> str:
        return f"{self._table}/cuts"


def _cuts(rows: list[dict[str, Any]]) -> dict[datetime, Bound]:
    return {row["at"]: json.loads(row["cut"]) for row in rows}
