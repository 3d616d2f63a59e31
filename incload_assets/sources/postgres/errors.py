"""Translation of a database's errors, reported by psycopg or by the JDBC driver with the same words of the server."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from pyspark.errors import PySparkException

from incload_assets.platform.errors import IncrementalLoadError, SourceUnavailable, SourceUnreadable
from incload_assets.platform.failures import Fault, first_match, masked

# a server may speak another language: psycopg's text is preceded by the SQLSTATE, which the JDBC driver does not report
_FAULTS = (
    Fault(
        r"password authentication failed|authentication failed|no password (was )?(supplied|provided)"
        r"|requested no password|no pg_hba\.conf entry|(role|database) \"[^\"]*\" does not exist"
        r"|is not permitted to log in|does not support SSL|certificate [^\n]*|sslmode[^\n]*|SSLHandshakeException"
        r"|permission denied for database",
        SourceUnreadable,
        "{table}: {place}: the server refuses the connection ({found})",
        rule="the account of INCLOAD_DATABASE_<NAME>_USER may connect, by the TLS options of …_URL",
        remedy="check user, password, database name and TLS options in the environment, and pg_hba.conf",
    ),
    Fault(
        r"permission denied for [^\n.]+|(?<=^42501: ).+",
        SourceUnreadable,
        "{table}: {place}: {found}",
        rule="the account may read the table: USAGE on its schema, SELECT on it",
        remedy="GRANT them to the account of INCLOAD_DATABASE_<NAME>_USER",
    ),
    Fault(
        r"(?:relation|column|schema|type) \"?[^\s]+ does not exist|column [^\n]+ does not exist"
        r"|(?<=^42P01: |^42703: |^42704: |^3F000: ).+",
        SourceUnreadable,
        "{table}: {place}: {found}",
        rule="the table and the columns that the source names exist",
        remedy="restore them, or change the table's declaration",
    ),
    Fault(
        r"canceling statement due to (statement timeout|conflict with recovery|user request)|Read timed out"
        r"|(?<=^57014: ).+",
        SourceUnavailable,
        "{table}: {place} did not answer in time ({found})",
        rule="a statement takes at most INCLOAD_DATABASE_<NAME>_TIMEOUT seconds",
        remedy="index the column that the source asks by, or raise the time-out; the load is tried again",
    ),
    Fault(
        r"[Cc]onnection refused|Connection to \S+ refused|connection timeout expired|timeout expired"
        r"|[Cc]onnect timed out|connection attempt failed|An I/O error occurred|terminating connection"
        r"|the database system is|server closed the connection|connection (is|was|has been) (lost|closed|reset)"
        r"|Connection reset|too many clients|remaining connection slots|could not (translate|connect)"
        r"|failed to resolve host"
        r"|No route to host|Network is unreachable|EOFException|recovery mode|consuming input failed"
        r"|SSL error|SSL connection has been closed|(?<=^57P..: |^08...: ).+",
        SourceUnavailable,
        "{table}: {place}: the database is down or the connection was cut ({found})",
        rule="what does not answer is not taken for empty",
        remedy="check that the server runs and can be reached; the load is tried again",
    ),
)


@contextmanager
def looking(table_name: str, place: str) -> Iterator[None]:
    """Turns the errors of a block into errors of this package.

    Args:
        table_name: The asset's name, for messages.
        place: The database's name and the table's in it.

    Raises:
        SourceUnavailable: The database does not answer, or not in time.
        SourceUnreadable: It refuses.
    """
    try:
        yield
    except psycopg.Error as error:
        meaning = meaning_of(table_name, place, f"{error.sqlstate}: {error}")
        transient = isinstance(error, psycopg.OperationalError)
        raise meaning or _other(table_name, place, str(error), transient) from None
    except PySparkException as error:
        if "org.postgresql" not in str(error):
            raise
        raise read_failure(table_name, place, error) from None


def read_failure(table_name: str, place: str, error: PySparkException) -> IncrementalLoadError:
    """The error for the JDBC driver's error within Spark's."""
    told = str(error)
    reason = re.search(r"org\.postgresql\.\S+?(?:Exception|Error): ([^\n]+)", told)
    return meaning_of(table_name, place, told) or _other(
        table_name, place, reason[1] if reason else told, transient=False
    )


def meaning_of(table_name: str, place: str, told: str) -> IncrementalLoadError | None:
    """The error for the text of a server or a driver; None if the text is of no known kind.

    Example:
        >>> error = meaning_of("orders", "shop.public.orders", "ERROR: permission denied for table orders")
        >>> str(error).partition(". Rule")[0]
        'orders: shop.public.orders: permission denied for table orders'
    """
    return first_match(_FAULTS, masked(told), table=table_name, place=place)


def _other(table_name: str, place: str, told: str, transient: bool) -> IncrementalLoadError:
    kind = SourceUnavailable if transient else SourceUnreadable
    return kind(f"{table_name}: {place}: {_line(told)}", remedy="see the database's own log; then load again")


def _line(told: str) -> str:
    return masked(told.strip().splitlines()[0][:200]) if told.strip() else "no reason was given"
