"""Source of database rows by a number that only grows."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from incload_assets.declaration.source import DetectRequest, Position, Shows
from incload_assets.platform.dialects.dialect import Column, Dialect
from incload_assets.platform.errors import SourceUnreadable
from incload_assets.platform.wording import spoken
from incload_assets.sources.database.closing import Closing, Lag, closing, closing_of, position_of
from incload_assets.sources.database.ranges import Range, found_in
from incload_assets.sources.database.relation import Relation
from incload_assets.sources.database.source import DatabaseSource
from incload_assets.sources.window_bounds import Bound, Choose, WindowBounds

_LEAST = 1 - 2**63


@dataclass(frozen=True)
class QueryById(DatabaseSource):
    """A table of a database, read by a column whose numbers grow: an identity, a sequence or a version.

    A window ends with the highest number that is visible at the first detection after its end. This window bound is
    stored once and never moved, so a window always has the same numbers, whichever process loads it and whenever. Of
    several windows that were over before the first detection, the first one has all rows, and the others have none.

    - Rows that become visible later with a lower number (from a long transaction, or from a sequence's cache) belong to
      the window of their number. The window is complete when every transaction has ended that began before its bound
      was stored, or within ``lag`` after that; if the sequence has a cache, every session instead.
    - A standby does not know the transactions of its primary server, and MySQL shows them to an account with PROCESS
      alone. Otherwise no window is ever complete.
    - Gaps in the numbers are fine. A recreated table, or a sequence that was reset or has wrapped around, stops the
      load.
    - Updates and deletes are not detected, unless each of them has a new number: then the column is a version, or the
      number of a journal's entry, and no key. A table with the column among its keys can only append rows.

    Args:
        database: The database's name in the environment, ``INCLOAD_DATABASE_<NAME>_URL``.
        table: ``schema.table`` or ``table``, a table or a view; in MySQL and MariaDB ``database.table``.
        id: The column, an integer; it should be indexed and never NULL.
        lag: Longest time between taking a number from the sequence and the begin of the transaction that uses it.

    Example:
        >>> str(QueryById("shop", "public.payments", id="payment_id"))
        'shop.public.payments by payment_id'
    """

    id: str
    lag: Lag = timedelta(minutes=5)

    @property
    def by(self) -> str:
        """The column of numbers."""
        return self.id

    def types(self, dialect: Dialect) -> Mapping[str, str]:
        """Whole numbers."""
        return dialect.integers

    def explained(self) -> list[str]:
        """Sentences for people; see :meth:`Source.explained`."""
        return [
            f"Rows are read from the table {self.table} of the database {self.database}: a window ends with "
            "the greatest "
            f"{self.id} that is visible when its end is first seen, and this bound never moves.",
            f"A row that is committed late belongs to the window of its {self.id}, which is looked at until "
            f"{spoken(self.lag)} after its end, and until every transaction of that time has ended.",
            f"A row that changes is noticed only if it gets a greater {self.id}; one that is deleted is not, "
            "and stays.",
            f"A load fails if {self.id} no longer grows, as after the table was created again.",
        ]

    def shown(self, keys: Sequence[str]) -> Shows:
        """Inserts only, where its number identifies a row; see :meth:`Source.shown`."""
        return Shows() if self.id in keys else self.shows

    def detect(self, request: DetectRequest) -> dict[str, Position]:
        """Positions with count and hash of each window's rows, from one query; refuses numbers that no longer grow."""
        if not request.windows:
            return {}
        bounds = WindowBounds(request.lake, request.table_name)
        written = bounds.known()  # read before the database, which then has at least the numbers of these bounds
        with self.look(request.table_name) as look:
            server, relation, column = look.server, look.relation, look.column
            highest = _highest(look.connection, relation, column)
            _check_growth(request.table_name, relation, column, highest, written.values())
            begun = [window for window in request.windows if window.start <= server.now]
            oldest = request.first if request.older else None
            instants = {w.start for w in begun if w.start != oldest} | {w.end for w in begun if w.end <= server.now}
            now = {
                "id": highest,
                "oid": relation.catalog.oid,
                "sequence": column.last,
                "looked_at": server.now.isoformat(),
            }
            known = bounds.at(sorted(instants), _chosen(now))
            ends = {w.key: known.get(w.end, now) for w in begun}
            ranges = {w.key: _range(None if w.start == oldest else known[w.start], ends[w.key]) for w in begun}
            found = found_in(look.connection, relation, column, ranges)
        positions = {}
        for window in begun:
            key, before = window.key, request.ingested.get(window.key)
            edge = datetime.fromisoformat(ends[key]["looked_at"]) + self.lag if window.end in known else None
            state = closing(edge, closing_of(before), server, by_session=(column.cache or 1) > 1)
            if edge is not None and ranges[key].empty:
                state = Closing("closed")
            if found[key].rows or before or edge is not None:
                positions[key] = position_of(relation, ranges[key], found[key], state, server)
        return positions


def _range(start: Bound | None, end: Bound) -> Range:
    """The range from one bound, exclusive, to another, inclusive; a bound without a number is before all numbers."""
    if end["id"] is None:
        return Range(_LEAST, _LEAST)
    if start is None:
        return Range(None, end["id"] + 1)
    return Range(_LEAST if start["id"] is None else start["id"] + 1, end["id"] + 1)


def _chosen(now: Bound) -> Choose:
    """Chooser of missing bounds: the next stored bound, or, after the last of them, the present state.

    If another process has meanwhile stored a bound with a higher number, that bound is used instead.
    """

    def choose(missing: Sequence[datetime], known: Mapping[datetime, Bound]) -> dict[datetime, Bound]:
        newest = max([now, *known.values()], key=lambda bound: _LEAST if bound["id"] is None else bound["id"])
        return {at: next((known[later] for later in sorted(known) if later > at), newest) for at in missing}

    return choose


def _highest(connection: Any, relation: Relation, column: Column) -> int | None:
    [(highest,)] = connection.rows(f"SELECT max({relation.dialect.quoted(column.name)}) FROM {relation.sql}")
    return None if highest is None else int(highest)


def _check_growth(
    table_name: str, relation: Relation, column: Column, highest: int | None, bounds: Collection[Bound]
) -> None:
    """Raises SourceUnreadable if numbers begin again: new rows would be mistaken for rows that were loaded."""
    last = max((bound["id"] for bound in bounds if bound["id"] is not None), default=None)
    if last is None:
        return
    sequence = max((bound["sequence"] for bound in bounds if bound["sequence"] is not None), default=0)
    if any(bound["oid"] != relation.catalog.oid for bound in bounds):
        problem = "the table was recreated since the last load"
    elif highest is not None and highest < last:
        problem = f"the highest {column.name!r} is {highest}, and was {last}"
    elif column.last is not None and column.last < sequence:
        problem = f"the sequence of {column.name!r} is at {column.last}, and was at {sequence}"
    else:
        return
    raise SourceUnreadable(
        f"{table_name}: {relation.place}: {problem}",
        rule="numbers only grow, and no number is used twice, because windows are ranges of numbers",
        remedy="if the newest rows were deleted, load when there are newer ones; otherwise delete the table's folder "
        "below _cuts in the lake and load all its windows again, or use QueryByTime",
    )
