"""Keys that have several rows in the table. No load makes them: somebody else has written to it.

A load does not look for them, which would cost a look at the whole table. It finds that its sums do not add up, or
Delta that it cannot tell which row is meant, and only then it is asked why.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from incload_assets.delta.sql import col
from incload_assets.loading.context import Context
from incload_assets.loading.errors import ReconciliationFailed

_AMBIGUOUS = "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE"


@contextmanager
def copies_told(context: Context, where: str) -> Iterator[None]:
    """What goes wrong inside because a key has several rows says so.

    Args:
        context: Of the load.
        where: Table and partition, for the message.

    Raises:
        ReconciliationFailed: Keys have several rows.
    """
    try:
        yield
    except (ReconciliationFailed, PySparkException) as error:
        if isinstance(error, ReconciliationFailed) or _AMBIGUOUS in str(error):
            _check_copies(context, where, error)
        raise


def _check_copies(context: Context, where: str, cause: Exception) -> None:
    keys, condition = context.table.write.unique_rows(context.table.changes)
    if not keys:
        return
    rows = context.spark.read.format("delta").load(context.lake.spark_uri(context.uri))
    groups = (rows.filter(condition) if condition else rows).groupBy(*map(col, keys)).count().filter("count > 1")
    shown = [F.lit("***") if name in context.table.contract.personal else col(name).cast("string") for name in keys]
    found = groups.agg(F.count(F.lit(1)).alias("keys"), F.min(F.concat_ws(", ", *shown)).alias("example")).first()
    if found is None or not found["keys"]:
        return
    raise ReconciliationFailed(
        f"{where}: the table has several rows of a key, for example of {', '.join(keys)} {found['example']!r}; "
        f"such keys: {found['keys']:,}",
        rule="a key has one row; no load makes another, so somebody else has written to the table",
        remedy="delete all rows of these keys, then materialize every partition that holds changes of them again",
    ) from cause
