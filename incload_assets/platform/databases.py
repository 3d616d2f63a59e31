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
    """A PostgreSQL database (``catalog``) and the account that reads it, which needs only read access.

    Connections are read-only, in UTC, and limited to ten seconds to connect and ``timeout`` seconds per statement, or
    twice that if the network drops all packets. ``tls`` has ``sslmode``, ``sslrootcert`` and so on, as in libpq and
    JDBC.
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
        """The database that the environment configures for a name, or else that of ``otherwise`` or :func:`provide`.

        ``INCLOAD_DATABASE_<NAME>_URL`` is ``postgresql://host:port/database?sslmode=verify-full``, ``…_USER`` and
        ``…_PASSWORD`` are the account, ``…_PASSWORD_FILE`` names a file with the password instead, ``…_TIMEOUT`` is
        optional. Raises SourceUnreadable, which shows no value, for a missing or wrong variable, and SourceUnavailable.
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
        """A connection for small queries, in autocommit mode."""
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


def knows(name: str) -> bool:
    """True if the environment configures, or something provides, a database of that name."""
    return bool(NAME.fullmatch(name)) and (
        name in _provided or bool(os.environ.get(f"INCLOAD_DATABASE_{name.upper()}_URL"))
    )


def provide(name: str, provider: Callable[[], Database]) -> None:
    """Registers a provider of a database that the environment does not configure; it may raise SourceUnavailable.

    Dagster's runs are separate processes, so call this in the module that declares the tables of the database.
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
