"""Delta's states of table and log, worked out while the source is read.

Spark's commits need them, and Delta works them out anew after each commit, a Spark job of its own that waits more than
it works: 0.2 s for each of both on the way of a small load, next to nothing beside it.
"""

from concurrent.futures import ThreadPoolExecutor

from incload_assets.loading.columns import col
from incload_assets.loading.context import Context


def look_ahead(context: Context) -> None:
    """Have Delta work out the states of log and table in the background; if it cannot, who needs them will say so.

    Nobody waits for the answers: whoever needs a state that is being worked out waits for it in Delta.

    Args:
        context: Of the load, with table and log.
    """
    table = context.table
    ahead = ThreadPoolExecutor(1, "incload-ahead")
    ahead.submit(_look, context, context.log.uri, "_window")
    ahead.submit(_look, context, context.uri, (*table.write.stored_by, *table.columns)[0])
    ahead.shutdown(wait=False)  # an error stays in its future


def _look(context: Context, uri: str, column: str) -> None:
    """Ask for the files that hold no value: Delta needs the table's state to tell, and hardly ever names one."""
    rows = context.spark.read.format("delta").load(context.lake.spark_uri(uri))
    rows.filter(col(column).isNull()).inputFiles()
