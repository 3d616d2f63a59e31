"""Rows of a database table by a number that only grows."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import psycopg

from incload_assets.declaration.source import DetectRequest, Position
from incload_assets.sources.postgres.closing import Closing, Lag, closing, closing_of, position_of
from incload_assets.sources.postgres.ranges import Range, found_in
from incload_assets.sources.postgres.relation import INTEGERS, Column, Relation, quoted
from incload_assets.sources.postgres.source import DatabaseSource
from incload_assets.sources.window_bounds import Bound, Choose, WindowBounds
from resources.errors import SourceUnreadable

_LEAST = 1 - 2**63


@dataclass(frozen=True)
class QueryById(DatabaseSource):
    """The rows of a PostgreSQL table by a column whose numbers grow: an identity, a sequence, a version.

    Which number a window ends with is the highest one that is visible when somebody first looks after its end; it is
    written down once, and never moved. So a window has fixed numbers, whoever loads it and whenever; windows that were
    over before anybody looked have nothing, but the first of them, which has it all.

    - Rows that become visible later with a lower number (of a long transaction, of a sequence's cache) belong to the
      window of their number. It is complete when every transaction has ended that began before its last number was
      written down, and ``lag`` has passed; where the sequence has a cache, every session.
    - A standby knows nothing of the transactions of the server it repeats: there no window is ever complete.
    - Gaps are no rows. A table made anew, or a sequence that was set back or has begun again, stops the load.
    - Updates and deletes are not seen, unless each update gives the row a new number: then the column is a version.

    Args:
        database: The database's name in the environment, ``INCLOAD_DATABASE_<NAME>_URL``.
        table: ``schema.table``, a table or a view, of PostgreSQL 11 or newer.
        id: The column, an integer; should be indexed, and not NULL.
        lag: How long a number may be taken from the sequence before the transaction begins that uses it.

    Example:
        >>> str(QueryById("shop", "public.payments", id="payment_id"))
        'shop.public.payments by payment_id'
    """

    id: str
    lag: Lag = timedelta(minutes=5)

    types = INTEGERS

    @property
    def by(self) -> str:
        """The column of numbers."""
        return self.id

    def detect(self, request: DetectRequest) -> dict[str, Position]:
        """Count and hash of the rows of each window, by one query for all; see :meth:`Source.detect`.

        Raises:
            SourceUnreadable: The numbers no longer grow, or the table is another one.
        """
        if not request.windows:
            return {}
        cuts = WindowBounds(request.lake, request.table_name)
        written = cuts.known()  # before the database is looked at, which then shows no less than these saw
        with self.look(request.table_name) as look:
            server, relation, column = look.server, look.relation, look.column
            highest = _highest(look.connection, relation, column)
            _check_growth(request.table_name, relation, column, highest, written.values())
            begun = [window for window in request.windows if window.start <= server.now]
            instants = {w.start for w in begun if w.start != request.first} | {
                w.end for w in begun if w.end <= server.now
            }
            now = {"id": highest, "oid": relation.oid, "sequence": column.last, "looked_at": server.now.isoformat()}
            known = cuts.at(sorted(instants), _chosen(now))
            ends = {w.key: known.get(w.end, now) for w in begun}
            ranges = {w.key: _range(None if w.start == request.first else known[w.start], ends[w.key]) for w in begun}
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
    """From one cut, exclusive, to another, inclusive; a cut without a number is before all of them."""
    if end["id"] is None:
        return Range(_LEAST, _LEAST)
    if start is None:
        return Range(None, end["id"] + 1)
    return Range(_LEAST if start["id"] is None else start["id"] + 1, end["id"] + 1)


def _chosen(now: Bound) -> Choose:
    """WindowBounds to write: as the next one that is written, or, after the last of them, as it is now.

    Another process may have written one since, and have seen more: then that one counts.
    """

    def choose(missing: Sequence[datetime], known: Mapping[datetime, Bound]) -> dict[datetime, Bound]:
        newest = max([now, *known.values()], key=lambda cut: _LEAST if cut["id"] is None else cut["id"])
        return {at: next((known[later] for later in sorted(known) if later > at), newest) for at in missing}

    return choose


def _highest(connection: psycopg.Connection[Any], relation: Relation, column: Column) -> int | None:
    row = connection.execute(f"SELECT max({quoted(column.name)})::bigint FROM {relation.sql}".encode()).fetchone()
    return row[0] if row else None


def _check_growth(
    table_name: str, relation: Relation, column: Column, highest: int | None, cuts: Collection[Bound]
) -> None:
    """Raise SourceUnreadable where numbers begin again: rows would be taken for ones that were loaded."""
    last = max((cut["id"] for cut in cuts if cut["id"] is not None), default=None)
    if last is None:
        return
    sequence = max((cut["sequence"] for cut in cuts if cut["sequence"] is not None), default=0)
    if any(cut["oid"] != relation.oid for cut in cuts):
        problem = "the table was made anew since the last load"
    elif highest is not None and highest < last:
        problem = f"the highest {column.name!r} is {highest}, and was {last}"
    elif column.last is not None and column.last < sequence:
        problem = f"the sequence of {column.name!r} is at {column.last}, and was at {sequence}"
    else:
        return
    raise SourceUnreadable(
        f"{table_name}: {relation.place}: {problem}",
        rule="numbers only grow, and no number is used twice: windows end with a number",
        remedy="if the newest rows were deleted, load when there are newer ones; else delete the table's folder below "
        "_cuts in the lake and load all its windows again, or query it by time",
    )
