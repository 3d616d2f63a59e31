"""Databases by name, from the environment: queried with psycopg, read by Spark over JDBC."""

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

from incload_assets.platform.errors import SourceUnreadable
from incload_assets.platform.secret import secret

APPLICATION = "incload"
"""The name of our connections in the database's own views."""
CONNECT_SECONDS = 10
DRIVER = "org.postgresql.Driver"

NAME = re.compile(r"[a-z][a-z0-9_]*")
# libpq and the JDBC driver have the same names for these; passwords do not belong in an address
_TLS = ("sslmode", "sslrootcert", "sslcert", "sslkey")
_provided: "dict[str, Callable[[], Database]]" = {}


@dataclass(frozen=True)
class Database:
    """A PostgreSQL database and the account that reads it.

    Connections are read-only, in UTC, and limited in time: ten seconds to connect, ``timeout`` seconds per statement. A
    connection on which the network drops all packets is closed after twice that time.

    Args:
        name: The name in the environment variables, in lower case.
        host: Host name or address.
        port: The server's port.
        catalog: The database's name on the server.
        user: The account; it needs only read access.
        password: The account's password. Never shown.
        tls: ``sslmode``, ``sslrootcert``, ``sslcert``, ``sslkey``, with the meaning that libpq and JDBC give them.
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
        """The database that the environment configures for a name, or else the one provided for it.

        ``INCLOAD_DATABASE_<NAME>_URL`` is ``postgresql://host:port/database?sslmode=verify-full``, ``…_USER`` and
        ``…_PASSWORD`` are the account, ``…_PASSWORD_FILE`` names a file with the password instead, ``…_TIMEOUT`` is
        optional.

        Args:
            name: Letters, digits and ``_``, in lower case.
            otherwise: Used if the environment does not configure the name; default: the provider of :func:`provide`.

        Raises:
            SourceUnreadable: A variable is missing or wrong; its value is not shown, because it may hold a password.
            SourceUnavailable: The provided database is not available.

        Example:
            >>> # INCLOAD_DATABASE_SHOP_URL=postgresql://db.example:5432/shop?sslmode=require
            >>> Database.named("shop").jdbc_url[:50]  # doctest: +SKIP
            'jdbc:postgresql://db.example:5432/shop?sslmode=req'
        """
        prefix = f"INCLOAD_DATABASE_{name.upper()}_"
        if not NAME.fullmatch(name):
            raise _wrong(name, "invalid name", "a name is letters, digits and _, in lower case")
        given = {part: os.environ.get(prefix + part, "") for part in ("URL", "USER")}
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
            raise _wrong(name, f"{prefix}URL is no URL, or its port or {prefix}TIMEOUT is no number") from None
        catalog = unquote(url.path.removeprefix("/"))
        if url.scheme not in ("postgresql", "postgres") or not host or not catalog or timeout <= 0:
            raise _wrong(name, f"{prefix}URL lacks the host or the database, or has another scheme")
        if url.username or url.password:
            raise _wrong(name, f"{prefix}URL holds an account", f"accounts belong in {prefix}USER and {prefix}PASSWORD")
        if unknown := sorted(options.keys() - set(_TLS)):
            raise _wrong(name, f"{prefix}URL has the options {unknown}", f"options are {', '.join(_TLS)}")
        try:
            password = secret(prefix + "PASSWORD")
        except ValueError as error:
            raise _wrong(name, str(error)) from None
        return cls(name, host, port, catalog, given["USER"], password, options, timeout)

    @contextmanager
    def connect(self) -> Iterator[psycopg.Connection[Any]]:
        """A connection for small queries, in autocommit mode.

        Raises:
            psycopg.Error: The server or the network failed.
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
        # if the network drops packets silently, the server's time-outs do not help
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
        """The JDBC URL for Spark, without the account."""
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
        # hashes of rows depend on values as text, so the defaults of the account or the server must not apply
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
    """Registers a database for a name that the environment does not configure.

    Dagster's runs are separate processes, so call this in the module that declares the tables of the database.

    Args:
        name: The name, see :meth:`Database.named`.
        provider: Called each time the database is needed; raises SourceUnavailable if it is not available.

    Example:
        >>> provide("archive", lambda: Database("archive", "db.example", 5432, "archive", "reader", ""))
        >>> Database.named("archive").host
        'db.example'
    """
    _provided[name] = provider


def _cut(descriptor: int) -> None:
    """Closes a connection from outside, so that a thread that waits for its answer gets an error."""
    with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as same:
        same.shutdown(socket.SHUT_RDWR)


def _wrong(name: str, problem: str, rule: str | None = None) -> Exception:
    prefix = f"INCLOAD_DATABASE_{name.upper()}_"
    return SourceUnreadable(
        f"database {name!r}: {problem}",
        rule=rule or f"{prefix}URL is postgresql://host:port/database, with TLS options after a ?",
        remedy=f"set {prefix}URL, {prefix}USER and {prefix}PASSWORD where the code location runs",
    )
