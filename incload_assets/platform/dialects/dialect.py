"""The interface of a dialect: all that differs between the databases that sources query.

A value of a range is a whole number: a number of the column, or, of a time, microseconds since 1970.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, ClassVar, Literal, Protocol

APPLICATION = "incload"
"""The name of our connections in the database's own views."""

Kind = Literal["refused", "forbidden", "missing", "slow", "down"]
"""A kind of error: of the connection, of a permission, of a name, of a time-out, of a server that is away."""


@dataclass(frozen=True, kw_only=True)
class Address:
    """A database (``catalog``) of a server, and the account that reads it.

    ``tls`` has the options of the URL, as the dialect names them; ``timeout`` is in seconds, of a statement.
    """

    host: str
    port: int
    catalog: str
    user: str
    password: str = field(repr=False)
    tls: Mapping[str, str] = field(default_factory=dict)
    timeout: int = 300

    connect_seconds: ClassVar[int] = 10


class Connection(Protocol):
    """A connection of a Python driver, read-only, in UTC, in autocommit mode."""

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows of a query; each ``%s`` in it is one of the values; without values ``%`` is literal."""


@dataclass(frozen=True)
class Column:
    """A column of a table; ``type`` is the dialect's name of its type; ``nested`` types are read as JSON.

    ``cache`` is how many values a session takes from the column's sequence at once, ``last`` the last value that was
    given out; None if the column has no sequence, or if the account may not read it. A value of a ``long`` type may
    take more than 64 kB.
    """

    name: str
    type: str
    nested: bool = False
    cache: int | None = None
    last: int | None = None
    long: bool = False


@dataclass(frozen=True)
class Stated:
    """A column as the catalog states it, for a declaration.

    ``kind`` is its type in Spark's words; None if values have to decide. ``said`` is its type in the database's words.
    """

    name: str
    said: str
    kind: str | None
    required: bool
    in_key: bool
    indexed: bool


@dataclass(frozen=True)
class Catalog:
    """A table or view in the catalog: its schema and name, its columns in order.

    ``oid`` changes when the table is created again; 0 if the database has no such number. ``blind`` says why the server
    does not tell all transactions of this table; empty if it tells them.
    """

    schema: str
    name: str
    oid: int
    columns: tuple[Column, ...]
    blind: str = ""


@dataclass(frozen=True)
class Server:
    """State of a server at one moment; ``now`` is its clock, aware, UTC, ``skew`` its lead on the loader's clock.

    Names of transactions are only unique since ``started``, in the server's own spelling. ``blind`` says why the server
    does not tell all transactions that may add rows; empty if it tells them. ``prepared`` counts transactions that are
    prepared and not yet committed. ``transactions`` has the begin of the running ones by name, ``sessions`` by process
    and begin; None if it is hidden.
    """

    now: datetime
    started: str
    blind: str
    prepared: int
    transactions: Mapping[str, datetime | None]
    sessions: Mapping[str, datetime | None]
    skew: timedelta = timedelta(0)


class Dialect(ABC):
    """The words of one kind of database, for its Python driver, for Spark's JDBC, and for SQL."""

    name: ClassVar[str]
    schemes: ClassVar[tuple[str, ...]]
    """The schemes of its URLs, the best known first."""
    port: ClassVar[int]
    tls: ClassVar[tuple[str, ...]]
    """Names of options of the URL."""
    tls_mode: ClassVar[tuple[str, str]]
    """The option that turns TLS on, and its value where the URL has none."""
    encrypted_modes: ClassVar[tuple[str, ...]]
    """Values of that option with which every connection is encrypted."""
    plain_modes: ClassVar[tuple[str, ...]]
    """Other values of that option."""
    authority: ClassVar[tuple[str, ...]]
    """The option that names a file with a trusted authority, and the modes that look at it."""
    schema: ClassVar[str]
    """The schema of a table that is named without one; empty: the database is its own schema."""
    text: ClassVar[str]
    """The type to which values are cast to have them as text."""
    jar: ClassVar[str]
    """Maven coordinate of the JDBC driver."""
    driver: ClassVar[str]
    """Class of the JDBC driver."""
    account: ClassVar[tuple[str, str]]
    """Variables in which clients of the database look for user and password."""
    times: ClassVar[Mapping[str, str]]
    """Types of a column of times, with their names for people."""
    integers: ClassVar[Mapping[str, str]]
    """Types of a column of numbers, with their names for people."""
    patterns: ClassVar[Mapping[Kind, str]]
    """Regular expressions that find errors of both drivers by their texts."""
    rights: ClassVar[str]
    """The rights that reading a table needs."""
    gate: ClassVar[str]
    """The part of the server's configuration that decides who may connect."""

    @property
    def package(self) -> str:
        """The Java package of the driver, which its errors name."""
        return ".".join(self.driver.split(".")[:2])

    # connections

    @abstractmethod
    def connect(self, address: Address) -> AbstractContextManager[Any]:
        """A :class:`Connection` for small queries."""

    @abstractmethod
    def jdbc_url(self, address: Address) -> str:
        """The JDBC URL for Spark, without the account, with the same settings of the session."""

    @abstractmethod
    def jdbc_options(self, address: Address) -> Mapping[str, str]:
        """Further options of Spark's reader."""

    @abstractmethod
    def told(self, error: Exception) -> tuple[str, bool] | None:
        """The text of an error of the Python driver, and whether it may pass; None for errors of others."""

    # what a server knows

    @abstractmethod
    def catalog(self, connection: Any, name: str) -> Catalog | None:
        """The table ``schema.table`` or ``table``; None if there is none."""

    @abstractmethod
    def stated(self, connection: Any, table: Catalog) -> list[Stated]:
        """Each column of a table, as the catalog states it."""

    @abstractmethod
    def server(self, connection: Any) -> Server:
        """The state of the server, to be read before any row."""

    def spread(self, connection: Any, table: Catalog, column: Column) -> Sequence[int]:
        """Ascending values between which there are about as many rows each, by the statistics; empty without them."""
        return ()

    # SQL

    @abstractmethod
    def quoted(self, name: str) -> str:
        """A quoted SQL name, which may contain any character."""

    @abstractmethod
    def readable(self, column: Column) -> str:
        """SQL of the value in a form that Spark reads without loss."""

    @abstractmethod
    def literal(self, column: Column, value: int) -> str:
        """SQL of a value of a range, of the column's own type, so that an index on the column is used."""

    @abstractmethod
    def value(self, column: Column) -> str:
        """SQL of a row's value in the units of ranges; NULL if it is infinite or no date."""

    @abstractmethod
    def bucket(self, column: Column, bounds: Sequence[int]) -> str:
        """SQL of the number of ascending bounds, at least one, that a row's value has reached; 0 for NULL."""

    @abstractmethod
    def statistics(self, sql: str, columns: Sequence[Column], by: Column, bucket: str, where: str) -> str:
        """A query that returns, by bucket: bucket, rows, hash, bytes of text, NULLs of ``by``, its least, its greatest.

        The hash is text, independent of the rows' order, and different if a row is there twice.
        """

    def finite(self, name: str) -> str:
        """SQL condition that a value of a window column is a moment or a number."""
        return f"{name} IS NOT NULL"
