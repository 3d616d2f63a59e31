"""Rows of a database table by the time of their last change."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar

import psycopg
from pyspark.sql import DataFrame, SparkSession

from incload_assets.loading.sources.base import Position, Sees, Source
from incload_assets.loading.sources.database_closing import closing, server_of
from incload_assets.loading.sources.database_errors import looking
from incload_assets.loading.sources.database_position import NOTHING, check_lag, closing_of, position_of, read
from incload_assets.loading.sources.database_ranges import Range, literal, micros
from incload_assets.loading.sources.database_scan import found_in
from incload_assets.loading.sources.database_table import TIMES, Column, Relation, check_names, quoted, relation_of
from incload_assets.loading.window import Window
from resources.databases import Database
from resources.lake import Lake


@dataclass(frozen=True)
class QueryByTime(Source):
    """The rows of a PostgreSQL table by a column that says when each was last changed.

    A window has the rows whose time is in it, as the database holds them when they are read. A row that is changed
    leaves the window of its former change, which keeps what was landed of it. Deletes at the source are not seen; a
    column that marks rows as deleted is, by ``delete_when``.

    - Rows that are older than the table's first window, or have no time, belong to that first window.
    - A window is complete when every transaction has ended that began before its end and ``lag``: only then do sensors
      stop asking for it, so that a row whose transaction commits late is found. A standby knows nothing of the
      transactions of the server it repeats: there no window is ever complete.
    - Times without a time zone are UTC. Rows dated in the future wait for their window, and are told of.
    - What is landed need not stand still: a row that comes or goes while it is read is found by the next look.

    Args:
        database: The database's name in the environment, ``INCLOAD_DATABASE_<NAME>_URL``.
        table: ``schema.table``, a table or a view, of PostgreSQL 11 or newer.
        modified: The column, timestamptz or timestamp; should be indexed.
        lag: How far the times that writers set may be behind the server's clock.

    Example:
        >>> str(QueryByTime("shop", "public.customers", modified="updated_at"))
        'shop.public.customers by updated_at'
    """

    database: str
    table: str
    modified: str
    lag: timedelta = timedelta(minutes=5)

    sees: ClassVar[Sees] = Sees(inserts=True, updates=True, deletes=True, order=False)
    keeps: ClassVar[bool] = True
    moves: ClassVar[bool] = True

    def __str__(self) -> str:
        return f"{self.database}.{self.table} by {self.modified}"

    def validate(self, table: str) -> None:
        """Check names and lag; see :meth:`Source.validate`."""
        check_names(table, self.database, self.table, self.modified)
        check_lag(table, self.lag)

    def detect(
        self,
        table: str,
        windows: Sequence[Window],
        landed: Mapping[str, Position],
        *,
        first: datetime | None = None,
        lake: Lake | None = None,
    ) -> dict[str, Position]:
        """Count and hash of the rows of each window, by one query for all; see :meth:`Source.detect`."""
        if not windows:
            return {}
        ranges = {w.key: Range(None if w.start == first else micros(w.start), micros(w.end)) for w in windows}
        database = Database.named(self.database)
        with looking(table, f"{self.database}.{self.table}"), database.connect() as connection:
            server = server_of(connection)  # before the rows are looked at
            relation = relation_of(connection, table, database, self.table)
            column = relation.column(table, self.modified, TIMES)
            found = found_in(connection, relation, column, ranges)
            ahead = _ahead(connection, relation, column, server.now + self.lag)
        positions = {}
        for window in windows:
            before = landed.get(window.key)
            state = closing(window.end + self.lag, closing_of(before), server)
            if found[window.key].rows or before or server.now >= window.end + self.lag:
                positions[window.key] = position_of(relation, ranges[window.key], found[window.key], state, server)
        return _with_ahead(positions, windows, ahead)

    def extract(self, spark: SparkSession, table: str, position: Position, fields: Sequence[str]) -> DataFrame:
        """The rows of a window; see :meth:`Source.extract`."""
        return self.extract_windows(spark, table, {"": position}, fields).drop("_window")

    def extract_windows(
        self, spark: SparkSession, table: str, positions: Mapping[str, Position], fields: Sequence[str]
    ) -> DataFrame:
        """The rows of some windows, by one query each, or some for a big window."""
        return read(spark, table, self.database, self.table, self.modified, TIMES, positions, fields)

    def empty_position(self, window: Window) -> Position:
        """The position of a window that is complete without a row."""
        return NOTHING

    def settled(self, position: Position) -> bool:
        """Whether no transaction is left that could add a row."""
        return closing_of(position).state == "closed"


def _ahead(
    connection: psycopg.Connection[Any], relation: Relation, column: Column, after: datetime
) -> tuple[int, int | None]:
    """How many rows are dated after an instant, and the first of their times, if it is finite."""
    name = quoted(column.name)
    row = connection.execute(
        f"SELECT count(*), min({name}) FILTER (WHERE isfinite({name}))::text FROM {relation.sql} "
        f"WHERE {name} >= {literal(column, micros(after))}".encode()
    ).fetchone()
    return row or (0, None)


def _with_ahead(
    positions: dict[str, Position], windows: Sequence[Window], ahead: tuple[int, Any]
) -> dict[str, Position]:
    rows, least = ahead
    last = windows[-1].key
    if rows and last in positions:
        p = positions[last]
        told = f"{rows} rows are dated in the future, from {least or 'infinity'} on, and wait for their windows"
        positions[last] = Position(p.fingerprint, {**p.detail, "rows_ahead": rows}, f"{p.summary}; {told}", p.size)
    return positions
