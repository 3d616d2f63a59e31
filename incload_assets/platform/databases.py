"""Databases by name, from the environment: queried by a Python driver, read by Spark over JDBC."""

import os
import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from incload_assets.platform.dialects.dialect import Address, Dialect
from incload_assets.platform.dialects.mysql import Mysql
from incload_assets.platform.dialects.postgres import Postgres
from incload_assets.platform.errors import SourceUnreadable
from incload_assets.platform.secret import secret

POSTGRES, MYSQL = Postgres(), Mysql()
DIALECTS: tuple[Dialect, ...] = (POSTGRES, MYSQL)

NAME = re.compile(r"[a-z][a-z0-9_]*")
BY_SCHEME = {scheme: dialect for dialect in DIALECTS for scheme in dialect.schemes}
_provided: "dict[str, Callable[[], Database]]" = {}


@dataclass(frozen=True, kw_only=True)
class Database(Address):
    """A database by its name in the environment, and its dialect.

    The account needs only read access. Connections are read-only, in UTC, and limited to ten seconds to connect and
    ``timeout`` seconds per statement, or twice that if the network drops all packets.
    """

    name: str
    dialect: Dialect = POSTGRES

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
                url.port,
                dict(parse_qsl(url.query, strict_parsing=bool(url.query))),
            )
        except ValueError:
            raise _wrong(name, f"{prefix}URL is no URL, or its port or {prefix}TIMEOUT is no number") from None
        catalog = unquote(url.path.removeprefix("/"))
        dialect = BY_SCHEME.get(url.scheme)
        if dialect is None or not host or not catalog or timeout <= 0:
            raise _wrong(name, f"{prefix}URL lacks the host or the database, or has another scheme")
        if url.username or url.password:
            raise _wrong(name, f"{prefix}URL holds an account", f"accounts belong in {prefix}USER and {prefix}PASSWORD")
        if unknown := sorted(options.keys() - set(dialect.tls)):
            raise _wrong(name, f"{prefix}URL has the options {unknown}", f"options are {', '.join(dialect.tls)}")
        if problem := _tls_problem(dialect, options):
            raise _wrong(name, f"{prefix}URL: {problem}", f"{dialect.tls_mode[0]} is one of {_modes(dialect)}")
        try:
            password = secret(prefix + "PASSWORD")
        except ValueError as error:
            raise _wrong(name, str(error)) from None
        return cls(
            name=name,
            dialect=dialect,
            host=host,
            port=port or dialect.port,
            catalog=catalog,
            user=given["USER"],
            password=password,
            tls=options,
            timeout=timeout,
        )

    def connect(self) -> AbstractContextManager[Any]:
        """A connection for small queries, in autocommit mode."""
        return self.dialect.connect(self)

    @property
    def jdbc_url(self) -> str:
        """The JDBC URL for Spark, without the account."""
        return self.dialect.jdbc_url(self)

    @property
    def encrypted(self) -> tuple[bool, str]:
        """True if its connections are encrypted in any case, and the option that says so."""
        option, default = self.dialect.tls_mode
        mode = self.tls.get(option, default)
        return mode in self.dialect.encrypted_modes, f"{option} is {mode}"


def knows(name: str) -> bool:
    """True if the environment configures, or something provides, a database of that name."""
    return bool(NAME.fullmatch(name)) and (
        name in _provided or bool(os.environ.get(f"INCLOAD_DATABASE_{name.upper()}_URL"))
    )


def configured(dialect: Dialect) -> bool:
    """True if the environment configures a database of a dialect."""
    addresses = (value for key, value in os.environ.items() if re.fullmatch(r"INCLOAD_DATABASE_\w+_URL", key))
    return any(address.startswith(tuple(f"{scheme}://" for scheme in dialect.schemes)) for address in addresses)


def provide(name: str, provider: Callable[[], Database]) -> None:
    """Registers a provider of a database that the environment does not configure; it may raise SourceUnavailable.

    Dagster's runs are separate processes, so call this in the module that declares the tables of the database.
    """
    _provided[name] = provider


def _modes(dialect: Dialect) -> str:
    return ", ".join((*dialect.plain_modes, *dialect.encrypted_modes))


def _tls_problem(dialect: Dialect, options: Mapping[str, str]) -> str:
    """The reason why TLS would not be as an URL's options seem to say; empty if there is none."""
    option, default = dialect.tls_mode
    authority, *verifying = dialect.authority
    mode = options.get(option, default)
    if mode not in (*dialect.plain_modes, *dialect.encrypted_modes):
        return f"{option} has an unknown value"
    if authority in options and mode not in verifying:
        return f"{authority} has no effect, because {option} is {mode}; it needs {' or '.join(verifying)}"
    return ""


def _wrong(name: str, problem: str, rule: str | None = None) -> Exception:
    prefix = f"INCLOAD_DATABASE_{name.upper()}_"
    return SourceUnreadable(
        f"database {name!r}: {problem}",
        rule=rule or f"{prefix}URL is {', '.join(BY_SCHEME)}://host:port/database, with TLS options after a ?",
        remedy=f"set {prefix}URL, {prefix}USER and {prefix}PASSWORD where the code location runs",
    )
