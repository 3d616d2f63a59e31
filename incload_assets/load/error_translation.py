"""Errors of loads and checks, each told as one that names what was done, what it is and what to do."""

import re

import dagster as dg
from pyspark.errors import PySparkException

from incload_assets.change_log.lake_errors import lost_file, refusal
from incload_assets.contract.contract import MASK
from incload_assets.declaration.table import Table
from resources.errors import IncrementalLoadError
from resources.failures import masked, translate
from resources.lake import Lake


def told(error: BaseException, doing: str, table: Table, lake: Lake) -> BaseException:
    """The error of this project that an error amounts to.

    Spark's own errors are told in one line, with values hidden where the table has personal columns, as they quote what
    they read. Of one that nobody foresaw the class is told, too: a ``KeyError`` says nothing but ``'rows'``.

    Args:
        error: What was raised.
        doing: What was being done, naming table and partition.
        table: The declaration.
        lake: Where tables are.
    """
    known = translate(error, doing)
    if isinstance(known, IncrementalLoadError | dg.Failure):
        return known
    if not isinstance(known, PySparkException):
        return IncrementalLoadError(
            f"{doing}: {type(known).__name__}: {masked(str(known))}",
            remedy="this was not foreseen; the run's log has the stack trace",
        )
    uri = lake.sql_name(lake.table_uri(table.key.path))
    if meaning := lost_file(known, table, lake) or refusal(known, table, uri):
        return meaning
    line = masked(str(known).strip().splitlines()[0])
    if table.contract.personal:
        line = re.sub(r"'[^']*'|\"[^\"]*\"", f"'{MASK}'", line)
    return IncrementalLoadError(
        f"{table.name}: Spark could not do it: {line}", remedy="see the server's log for the rest"
    )


def unforeseen(error: BaseException) -> BaseException | None:
    """An error whose stack a person has to see; None for others, and for Spark's, which quote what they read."""
    return None if isinstance(error, IncrementalLoadError | dg.Failure | PySparkException) else error
