"""Base class of the sources that query a database table."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, ClassVar

from pyspark.sql import DataFrame, SparkSession

from incload_assets.declaration.declared import Declared
from incload_assets.declaration.field_types import check_types
from incload_assets.declaration.source import Position, Shows, Source
from incload_assets.declaration.window import Window
from incload_assets.platform.databases import Database
from incload_assets.platform.dialects.dialect import Column, Dialect, Server
from incload_assets.platform.errors import DeclarationError
from incload_assets.sources.database.chunks import chunks_of
from incload_assets.sources.database.closing import NOTHING, closing_of, server_of
from incload_assets.sources.database.errors import looking
from incload_assets.sources.database.ranges import Range
from incload_assets.sources.database.reading import Part, read_parts
from incload_assets.sources.database.relation import DatabaseName, Relation, check_names, relation_of


@dataclass(frozen=True)
class DatabaseSession:
    """A connection for one detection of a table; the state of the server is from before any row is read."""

    database: Database
    connection: Any
    server: Server
    relation: Relation
    column: Column


@dataclass(frozen=True)
class DatabaseSource(Source):
    """A database table whose windows are ranges of one of its columns."""

    database: DatabaseName
    table: str
    asked: tuple[str, ...] = field(init=False, default=(), repr=False, compare=False)

    shows: ClassVar[Shows] = Shows(inserts=True, updates=True, deletes=True)
    retains_absent_keys: ClassVar[bool] = True
    changes_while_read: ClassVar[bool] = True

    @property
    @abstractmethod
    def by(self) -> str:
        """The column whose ranges are windows."""

    @abstractmethod
    def types(self, dialect: Dialect) -> Mapping[str, str]:
        """Types that the column may have; see :meth:`Relation.column`."""

    @property
    @abstractmethod
    def lag(self) -> timedelta:
        """How long after the end of a window transactions may begin that still add rows to it."""

    def __str__(self) -> str:
        return f"{self._place} by {self.by}"

    def asked_for(self, fields: Sequence[str]) -> Source:
        """This source, which then requires a column of each of these names; see :meth:`Source.asked_for`."""
        made = replace(self)
        object.__setattr__(made, "asked", tuple(fields))
        return made

    def validate(self, table_name: str) -> None:
        """Checks names and types; see :meth:`Source.validate`."""
        check_types(table_name, "source: ", self)
        check_names(table_name, self.table, self.by)

    def validate_changes(self, declared: Declared) -> None:
        """Refuses strategies that take each window for the whole table; see :meth:`Source.validate_changes`."""
        if declared.supersedes:
            raise DeclarationError(
                f"{declared.table_name}: write is {declared.way}(), but a window of {type(self).__name__} holds only "
                f"the rows of its range of {self.by!r}",
                rule=f"{declared.way} takes the newest window for the whole table, and deletes what it lacks",
                remedy="write Merge() or Append(), or read extracts of the whole table, for example as files",
            )

    def extract(self, spark: SparkSession, table_name: str, position: Position, fields: Sequence[str]) -> DataFrame:
        """The rows of a window; see :meth:`Source.extract`."""
        return self.extract_windows(spark, table_name, {"": position}, fields).drop("_window")

    def extract_windows(
        self, spark: SparkSession, table_name: str, positions: Mapping[str, Position], fields: Sequence[str]
    ) -> DataFrame:
        """The rows of several windows; small windows share a query, a big window is split into several."""
        details = {key: position.detail for key, position in positions.items()}
        parts = {key: Part(Range(d["low"], d["high"]), d["rows"], d["least"], d["most"]) for key, d in details.items()}
        with looking(table_name, self._place):
            database = Database.named(self.database)
            with database.connect() as connection:
                relation = relation_of(connection, table_name, database, self.table)
            column = relation.column(table_name, self.by, self.types(database.dialect))
            relation.check_asked(table_name, self.asked)
            frame = read_parts(spark, database, relation, column, parts, fields)
            frame.schema  # noqa: B018 - queries the database here, so that errors name it
            return frame

    def divided(
        self, table_name: str, position: Position, number: int, known: Sequence[Position] = ()
    ) -> list[Position]:
        """Ranges of the window column; see :meth:`Source.divided`."""
        with self.look(table_name) as look:
            database = look.database.host, look.database.port, look.database.catalog
            return chunks_of(look.connection, look.relation, look.column, position, number, known, database)

    def empty_position(self, window: Window) -> Position:
        """The position of a window that is complete without a row."""
        return NOTHING

    def records_in(self, position: Position) -> Mapping[str, int]:
        """The number of rows that the query of a position returns."""
        return {"": int(position.detail.get("rows", 0))}

    def settled(self, position: Position) -> bool:
        """True if no transaction is left that could add a row; see :meth:`Source.settled`."""
        return closing_of(position).state == "closed"

    def why_open(self, position: Position) -> str:
        """The reason why the server does not tell all transactions; see :meth:`Source.why_open`."""
        return str(position.detail.get("blind", ""))

    @contextmanager
    def look(self, table_name: str) -> Iterator[DatabaseSession]:
        """Connects to the table for a detection; database errors become SourceUnavailable or SourceUnreadable."""
        database = Database.named(self.database)
        with looking(table_name, self._place), database.connect() as connection:
            server = server_of(database.dialect, connection)  # before any row is read
            relation = relation_of(connection, table_name, database, self.table)
            server = replace(server, blind=server.blind or relation.catalog.blind)
            column = relation.column(table_name, self.by, self.types(database.dialect))
            yield DatabaseSession(database, connection, server, relation, column)

    @property
    def _place(self) -> str:
        return f"{self.database}.{self.table}"
