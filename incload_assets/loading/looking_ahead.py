"""Delta's states of table and log, worked out while the source is read.

Spark's commits need them, and Delta works them out anew after each commit, a Spark job of its own that waits more than
it works: 0.2 s for each of both on the way of a small load, next to nothing beside it.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from incload_assets.loading.columns import col
from incload_assets.loading.context import Context


@contextmanager
def looking_ahead(context: Context) -> Iterator[None]:
    """Have Delta work out the states of log and table in the background; if it cannot, who needs them will say so.

    Args:
        context: Of the load, with table and log.
    """
    table = context.table
    place = (*table.write.stored_by, *table.columns)[0]
    with ThreadPoolExecutor(1, "incload-ahead") as ahead:  # an error stays in its future
        ahead.submit(_look, context, context.log.uri, "_window")
        ahead.submit(_look, context, context.uri, place)
        yield


def _look(context: Context, uri: str, column: str) -> None:
    """Ask for the files that hold no value: Delta needs the table's state to tell, and hardly ever names one."""
    rows = context.spark.read.format("delta").load(context.lake.spark_uri(uri))
    rows.filter(col(column).isNull()).inputFiles()
