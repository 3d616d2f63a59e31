"""Translation of any error of a load or check into one that names the action, the cause and the remedy."""

import re

import dagster as dg
import pyarrow as pa
from deltalake.exceptions import DeltaError
from pyspark.errors import PySparkException

from incload_assets.change_log.lake_errors import lost_file, refusal
from incload_assets.contract.contract import MASK
from incload_assets.declaration.table import Table
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.failures import masked, translate
from incload_assets.platform.lake import Lake
from incload_assets.platform.unreadable import unreadable


def translated(error: BaseException, doing: str, table: Table, lake: Lake) -> BaseException:
    """The error of this project for an error; ``doing`` names table and partition.

    Spark's own errors become one line, with values hidden if the table has personal columns, because Spark quotes the
    values that it reads. An unforeseen error is reported with its class: a ``KeyError`` alone reads ``'rows'``.
    """
    known = translate(error, doing)
    if isinstance(known, IncrementalLoadError | dg.Failure):
        return known
    uri = lake.table_uri(table.key.path)
    sure = isinstance(known, DeltaError)
    if isinstance(known, DeltaError | OSError | pa.ArrowException) and (said := unreadable(known, uri, sure=sure)):
        return said
    if not isinstance(known, PySparkException):
        return IncrementalLoadError(
            f"{doing}: {type(known).__name__}: {masked(str(known))}",
            remedy="this was not foreseen; the run's log has the stack trace",
        )
    if meaning := lost_file(known, table, lake) or refusal(known, table, lake.sql_name(uri)):
        return meaning
    line = masked(str(known).strip().splitlines()[0])
    if table.contract.personal:
        line = re.sub(r"'[^']*'|\"[^\"]*\"", f"'{MASK}'", line)
    return IncrementalLoadError(f"{table.name}: Spark failed: {line}", remedy="see the server's log for the rest")


def unforeseen(error: BaseException) -> BaseException | None:
    """The error, if a person needs its stack trace; None for known errors, and for Spark's, which quote values."""
    return None if isinstance(error, IncrementalLoadError | dg.Failure | PySparkException | DeltaError) else error
