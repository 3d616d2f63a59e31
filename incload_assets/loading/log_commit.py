"""One fenced commit that replaces windows of the log."""

from collections.abc import Mapping

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incload_assets.loading.columns import CONTROL, SKIPPED, col, literal
from incload_assets.loading.context import Context
from incload_assets.loading.control_rows import Control
from incload_assets.loading.delta_tables import lost_the_race


def commit(
    context: Context,
    content: DataFrame,
    controls: Mapping[str, Control],
    app_id: str,
    number: int,
    *,
    note: str,
) -> bool:
    """Replace windows of the log in one commit fenced by ``(app_id, number)``.

    Args:
        context: Of the load.
        content: Rows of the windows, without control rows; those that are no changes are left out.
        controls: The windows, with their new control rows.
        app_id: Identifier of the fence.
        number: Its number.
        note: What the commit says of itself to people.

    Returns:
        Whether it was this commit that the log holds now.
    """
    log = context.log
    rows = log.control_frame(context.spark, controls).withColumn("_kind", F.lit(CONTROL))
    everything = content.filter(F.col("_kind") != SKIPPED).unionByName(rows, allowMissingColumns=True)
    writer = (
        everything.select(*(col(name) for name in log.schema.names))
        .write.format("delta")
        .mode("overwrite")
        .option("replaceWhere", f"_window IN ({', '.join(map(literal, controls))})")
        .option("txnAppId", app_id)
        .option("txnVersion", number)
        .option("userMetadata", note)
    )
    try:
        writer.save(log.lake.spark_uri(log.uri))
    except PySparkException as error:
        if lost_the_race(error):
            return False
        raise
    return log.controls(only=list(controls)) == dict(controls)
