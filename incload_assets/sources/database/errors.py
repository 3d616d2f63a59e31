"""Translation of a database's errors, reported by the Python driver or by JDBC with the same words of the server."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException

from incload_assets.platform.databases import DIALECTS
from incload_assets.platform.dialects.dialect import Dialect, Kind
from incload_assets.platform.errors import IncrementalLoadError, SourceUnavailable, SourceUnreadable
from incload_assets.platform.failures import Fault, first_match, masked, not_installed

_MEANINGS: dict[Kind, tuple[type[IncrementalLoadError], str, str, str]] = {
    "refused": (
        SourceUnreadable,
        "{table}: {place}: the server refuses the connection ({found})",
        "the account of INCLOAD_DATABASE_<NAME>_USER may connect, by the TLS options of …_URL",
        "check user, password, database name and TLS options in the environment, and {gate}",
    ),
    "forbidden": (
        SourceUnreadable,
        "{table}: {place}: {found}",
        "the account may read the table: {rights}",
        "GRANT them to the account of INCLOAD_DATABASE_<NAME>_USER",
    ),
    "missing": (
        SourceUnreadable,
        "{table}: {place}: {found}",
        "the table and the columns that the source names exist",
        "restore them, or change the table's declaration",
    ),
    "slow": (
        SourceUnavailable,
        "{table}: {place} did not answer in time ({found})",
        "a statement takes at most INCLOAD_DATABASE_<NAME>_TIMEOUT seconds",
        "index the column that the source asks by, or raise the time-out; the load is tried again",
    ),
    "down": (
        SourceUnavailable,
        "{table}: {place}: the database is down or the connection was cut ({found})",
        "what does not answer is not taken for empty",
        "check that the server runs and can be reached; the load is tried again",
    ),
}


@contextmanager
def looking(table_name: str, place: str) -> Iterator[None]:
    """Turns errors of a block into SourceUnavailable (no answer in time) or SourceUnreadable (refused)."""
    try:
        yield
    except PySparkException as error:
        raise read_failure(table_name, place, error) or error from None
    except Exception as error:
        for dialect in DIALECTS:
            if told := dialect.told(error):
                text, transient = told
                raise meaning_of(dialect, table_name, place, text) or _other(
                    table_name, place, str(error), transient
                ) from None
        raise


def read_failure(table_name: str, place: str, error: PySparkException) -> IncrementalLoadError | None:
    """The error for a JDBC driver's error within Spark's; None if the error is of another kind."""
    told = str(error)
    for dialect in DIALECTS:
        if re.search(rf"ClassNotFoundException\W+{re.escape(dialect.driver)}", told):
            raise not_installed(
                f"{table_name}: {place}: Spark has no JDBC driver of {dialect.name}",
                rule="Spark has the drivers of the databases that the environment configures when Spark starts",
                remedy=f"restart Spark (incload stop); a Spark server of yours needs {dialect.jar}",
            )
        if dialect.package in told:
            reason = re.search(rf"(?:{re.escape(dialect.package)}|java\.sql)\S+?(?:Exception|Error): ([^\n]+)", told)
            return meaning_of(dialect, table_name, place, told) or _other(
                table_name, place, reason[1] if reason else told, transient=False
            )
    return None


def meaning_of(dialect: Dialect, table_name: str, place: str, told: str) -> IncrementalLoadError | None:
    """The error for the text of a server or a driver; None if the text is of no known kind."""
    faults = [Fault(dialect.patterns[kind], *meaning) for kind, meaning in _MEANINGS.items()]
    values = {"table": table_name, "place": place, "gate": dialect.gate, "rights": dialect.rights}
    return first_match(faults, masked(told), **values)


def _other(table_name: str, place: str, told: str, transient: bool) -> IncrementalLoadError:
    kind = SourceUnavailable if transient else SourceUnreadable
    return kind(f"{table_name}: {place}: {_line(told)}", remedy="see the database's own log; then load again")


def _line(told: str) -> str:
    return masked(told.strip().splitlines()[0][:200]) if told.strip() else "no reason was given"
