"""Databases by name, from the environment: looked at with psycopg, read by Spark over JDBC."""

import os
import re
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Timer
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

import psycopg

from resources.errors import SourceUnreadable

APPLICATION = "incload"
"""What the database's own views call our connections."""
CONNECT_SECONDS = 10
DRIVER = "org.postgresql.Driver"

NAME = re.compile(r"[a-z][a-z0-9_]*")
# libpq's names and the JDBC driver's are the same for these; a password is no part of an address
_TLS = ("sslmode", "sslrootcert", "sslcert", "sslkey")
_provided: "dict[str, Callable[[], Database]]" = {}


@dataclass(frozen=True)
class Database:
    """A PostgreSQL database and the account that reads it.

    Connections are read-only, in UTC, and bounded in time: ten seconds to connect, ``timeout`` seconds per statement.
    One that the network has swallowed is given up after twice that time.

    Args:
        name: As in the names of its environment variables, in lower case.
        host: Name or address.
        port: Of the server.
        catalog: What the server calls the database.
        user: The account; it needs to read, and nothing else.
        password: Never shown.
        tls: ``sslmode``, ``sslrootcert``, ``sslcert``, ``sslkey``, as libpq and the JDBC driver call them.
        timeout: Seconds.
    """

    name: str
    host: str
    port: int
    catalog: str
    user: str
    password: str = field(repr=False)
    tls: Mapping[str, str] = field(default_factory=dict)
    timeout: int = 300

    @classmethod
    def named(cls, name: str, otherwise: "Callable[[], Database] | None" = None) -> "Database":
        """The database that the environment gives for a name, or, where that says nothing, the one provided for it.

        ``INCLOAD_DATABASE_<NAME>_URL`` is ``postgresql://host:port/database?sslmode=verify-full``, ``…_USER`` and
        ``…_PASSWORD`` are the account, ``…_TIMEOUT`` is optional.

        Args:
            name: Letters, digits and ``_``, in lower case.
            otherwise: Where the environment says nothing; default: what :func:`provide` was told.

        Raises:
            SourceUnreadable: A variable is missing or wrong; its value is not shown, it may hold a password.
            SourceUnavailable: The database that is provided is not there.

        Example:
            >>> # INCLOAD_DATABASE_SHOP_URL=postgresql://db.example:5432/shop?sslmode=require
            >>> Database.named("shop").jdbc_url[:50]  # doctest: +SKIP
            'jdbc:postgresql://db.example:5432/shop?sslmode=req'
        """
        prefix = f"INCLOAD_DATABASE_{name.upper()}_"
        if not NAME.fullmatch(name):
            raise _wrong(name, "it is no name of a database", "a name is letters, digits and _, in lower case")
        given = {part: os.environ.get(prefix + part, "") for part in ("URL", "USER", "PASSWORD")}
        otherwise = otherwise or _provided.get(name)
        if otherwise and not given["URL"] and not given["USER"]:
            return otherwise()
        if missing := [prefix + part for part in ("URL", "USER") if not given[part]]:
            raise _wrong(name, f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not set")
        try:
            url, timeout = urlsplit(given["URL"]), int(os.environ.get(prefix + "TIMEOUT") or 300)
            host, port, options = (
                url.hostname,
                url.port or 5432,
                dict(parse_qsl(url.query, strict_parsing=bool(url.query))),
            )
        except ValueError:
            raise _wrong(name, f"{prefix}URL is no URL, or its port or …_TIMEOUT no number") from None
        catalog = unquote(url.path.removeprefix("/"))
        if url.scheme not in ("postgresql", "postgres") or not host or not catalog or timeout <= 0:
            raise _wrong(name, f"{prefix}URL lacks its host or database, or is of another kind")
        if url.username or url.password:
            raise _wrong(name, f"{prefix}URL holds an account", f"accounts are in {prefix}USER and {prefix}PASSWORD")
        if unknown := sorted(options.keys() - set(_TLS)):
            raise _wrong(name, f"{prefix}URL has the options {unknown}", f"options are {', '.join(_TLS)}")
        return cls(name, host, port, catalog, given["USER"], given["PASSWORD"], options, timeout)

    @contextmanager
    def connect(self) -> Iterator[psycopg.Connection[Any]]:
        """A connection for looks, each statement a transaction of its own.

        Raises:
            psycopg.Error: As the server or the network has it.
        """
        connection = psycopg.connect(
            host=self.host,
            port=self.port,
            dbname=self.catalog,
            user=self.user,
            password=self.password,
            connect_timeout=CONNECT_SECONDS,
            application_name=APPLICATION,
            options=self._session,
            autocommit=True,
            **self.tls,  # type: ignore[arg-type]
        )
        # where the way to the server is lost without a word, no time-out of the server's helps
        watch = Timer(2 * self.timeout + CONNECT_SECONDS, _cut, [connection.fileno()])
        watch.daemon = True
        with connection:
            watch.start()
            try:
                yield connection
            finally:
                watch.cancel()

    @property
    def jdbc_url(self) -> str:
        """For Spark; without the account."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        options = {
            **self.tls,
            "ApplicationName": APPLICATION,
            "connectTimeout": CONNECT_SECONDS,
            "loginTimeout": 2 * CONNECT_SECONDS,
            "socketTimeout": self.timeout + CONNECT_SECONDS,
            "tcpKeepAlive": "true",
            "options": self._session,
        }
        encoded = urlencode(options, quote_via=quote)
        return f"jdbc:postgresql://{host}:{self.port}/{quote(self.catalog, safe='')}?{encoded}"

    @property
    def _session(self) -> str:
        # how values look as text decides about hashes of rows: not the account's or the server's defaults
        settings = {
            "default_transaction_read_only": "on",
            "statement_timeout": f"{self.timeout * 1000}",
            "TimeZone": "UTC",
            "DateStyle": "ISO",
            "IntervalStyle": "iso_8601",
            "bytea_output": "hex",
            "extra_float_digits": "1",
        }
        return " ".join(f"-c {name}={value}" for name, value in settings.items())


def provide(name: str, provider: Callable[[], Database]) -> None:
    """Say what a name stands for where the environment does not.

    Dagster's runs are processes of their own, so this belongs into the module that declares the tables of the database.

    Args:
        name: As for :meth:`Database.named`.
        provider: Asked each time the database is needed; raises SourceUnavailable where it cannot be had.

    Example:
        >>> provide("archive", lambda: Database("archive", "db.example", 5432, "archive", "reader", ""))
        >>> Database.named("archive").host
        'db.example'
    """
    _provided[name] = provider


def _cut(descriptor: int) -> None:
    """End a connection from outside: whoever waits for its answer is told that it is closed."""
    with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as same:
        same.shutdown(socket.SHUT_RDWR)


def _wrong(name: str, problem: str, rule: str | None = None) -> Exception:
    prefix = f"INCLOAD_DATABASE_{name.upper()}_"
    return SourceUnreadable(
        f"database {name!r}: {problem}",
        rule=rule or f"{prefix}URL is postgresql://host:port/database, with TLS options after a ?",
        remedy=f"set {prefix}URL, {prefix}USER and {prefix}PASSWORD where the code location runs",
    )
