"""Delta's state of the table, worked out while the source is read.

Spark's commits need it, and Delta works it out anew after each commit, a Spark job of its own that waits more than it
works: 0.2 s on the way of a small load, next to nothing beside it. The log is committed to without Spark.
"""

from concurrent.futures import ThreadPoolExecutor

from incload_assets.delta.sql import col
from incload_assets.loading.context import Context


def look_ahead(context: Context) -> None:
    """Have Delta work out the table's state in the background; if it cannot, who needs it will say so.

    Nobody waits for the answer: whoever needs a state that is being worked out waits for it in Delta.

    Args:
        context: Of the load, with its table.
    """
    ahead = ThreadPoolExecutor(1, "incload-ahead")
    ahead.submit(_look, context)
    ahead.shutdown(wait=False)  # an error stays in its future


def _look(context: Context) -> None:
    """Ask for the files that hold no value: Delta needs the table's state to tell, and hardly ever names one."""
    table = context.table
    rows = context.spark.read.format("delta").load(context.lake.spark_uri(context.uri))
    rows.filter(col((*table.write.stored_by, *table.columns)[0]).isNull()).inputFiles()
