"""Source of database rows by the time of their last change."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar

from incload_assets.declaration.source import Clock, DetectRequest, Position
from incload_assets.declaration.window import Window
from incload_assets.platform.dialects.dialect import Column, Dialect
from incload_assets.platform.dialects.values import micros
from incload_assets.platform.wording import several, spoken
from incload_assets.sources.database.closing import Lag, closing, closing_of, position_of
from incload_assets.sources.database.ranges import Range, found_in
from incload_assets.sources.database.relation import Relation
from incload_assets.sources.database.source import DatabaseSource


@dataclass(frozen=True)
class QueryByTime(DatabaseSource):
    """A table of a database, read by a column with the time of each row's last change.

    A window has the rows whose time lies in it, as the database holds them when they are read. A row that changes
    leaves the window of its former change, which keeps the version that it ingested. Deletes at the source are not
    detected, but ``delete_when`` can use a column that marks rows as deleted.

    - Rows that are older than the table's first window, or have no time, belong to that first window. After a change of
      the partitions they are not read again, unless the era says ``read_older``.
    - A window is complete when every transaction has ended that began before its end plus ``lag``. Sensors keep
      requesting it until then, so that a row whose transaction commits late is found. A standby does not know the
      transactions of its primary server, and MySQL shows them to an account with PROCESS alone. Otherwise no window is
      ever complete.
    - Times without a time zone are UTC. Rows dated in the future wait for their window and are reported.
    - The table may change while it is read: a row that comes or goes meanwhile is found by the next detection.

    Args:
        database: The database's name in the environment, ``INCLOAD_DATABASE_<NAME>_URL``.
        table: ``schema.table`` or ``table``, a table or a view; in MySQL and MariaDB ``database.table``.
        modified: The column, a time of any precision; it should be indexed.
        lag: How far the times that writers set may be behind the server's clock.

    Example:
        >>> str(QueryByTime("shop", "public.customers", modified="updated_at"))
        'shop.public.customers by updated_at'
    """

    modified: str
    lag: Lag = timedelta(minutes=5)

    has_row_times: ClassVar[bool] = True

    @property
    def by(self) -> str:
        """The column of times."""
        return self.modified

    def types(self, dialect: Dialect) -> Mapping[str, str]:
        """Times."""
        return dialect.times

    def explained(self) -> list[str]:
        """Sentences for people; see :meth:`Source.explained`."""
        return [
            f"Rows are read from the table {self.table} of the database {self.database}: a window has the rows whose "
            f"{self.modified} lies in it, as they are when they are read. The first window has all older rows, too.",
            f"A row that is committed late is found: its window is looked at until {spoken(self.lag)} after "
            "its end, and "
            "until every transaction of that time has ended.",
            "A row that changes leaves the window of its former change, which keeps what it read; its new "
            "window has it.",
            "A row that is deleted at the source is not noticed and stays, unless a column marks it for delete_when.",
        ]

    def detect(self, request: DetectRequest) -> dict[str, Position]:
        """Positions with count and hash of the rows of each window, from one query; see :meth:`Source.detect`."""
        if not request.windows:
            return {}
        ranges = {
            w.key: Range(None if request.older and w.start == request.first else micros(w.start), micros(w.end))
            for w in request.windows
        }
        with self.look(request.table_name) as look:
            found = found_in(look.connection, look.relation, look.column, ranges)
            ahead = _ahead(look.connection, look.relation, look.column, look.server.now + self.lag)
        positions = {}
        for window in request.windows:
            before = request.ingested.get(window.key)
            state = closing(window.end + self.lag, closing_of(before), look.server)
            if found[window.key].rows or before or look.server.now >= window.end + self.lag:
                positions[window.key] = position_of(
                    look.relation, ranges[window.key], found[window.key], state, look.server
                )
        return _with_ahead(positions, request.windows, ahead)

    def clocks(self, table_name: str) -> list[Clock]:
        """The clock of the server; see :meth:`Source.clocks`."""
        with self.look(table_name) as look:
            rows, first = _ahead(look.connection, look.relation, look.column, look.server.now + self.lag)
        return [Clock(look.server.skew, self.lag, rows, first or "infinity")]


def _ahead(connection: Any, relation: Relation, column: Column, after: datetime) -> tuple[int, str | None]:
    """The number of rows dated after an instant, and the first of their finite times."""
    dialect = relation.dialect
    name = dialect.quoted(column.name)
    first = f"CAST(min(CASE WHEN {dialect.finite(name)} THEN {name} END) AS {dialect.text})"
    later = f"{name} >= {dialect.literal(column, micros(after))}"
    [(rows, least)] = connection.rows(f"SELECT count(*), {first} FROM {relation.sql} WHERE {later}")
    return rows, least


def _with_ahead(
    positions: dict[str, Position], windows: Sequence[Window], ahead: tuple[int, str | None]
) -> dict[str, Position]:
    rows, least = ahead
    last = windows[-1].key
    if rows and last in positions:
        p = positions[last]
        note = f"dated in the future, from {least or 'infinity'} on, and left to later windows: {several(rows, 'row')}"
        positions[last] = Position(p.fingerprint, {**p.detail, "rows_ahead": rows}, f"{p.summary}; {note}", p.size)
    return positions
