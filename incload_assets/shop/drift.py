"""A manual edit of a sample table that bypasses the loader, for reconciliation to find and repair."""

import dagster as dg
from pyspark.sql import SparkSession

from incload_assets.platform.lake import Lake
from incload_assets.platform.settings import Settings
from incload_assets.platform.spark.resource import SparkResource
from incload_assets.platform.sql import literal
from incload_assets.progress.run_tags import PRIORITY_TAG, UPKEEP

TABLE = "prices"
CRON = "40 1 * * *"
"""Before the nightly checks."""


@dg.op
def edit_by_hand(context: dg.OpExecutionContext) -> None:
    """Deletes the article whose price was set last, and gives the one before it a wrong price."""
    with SparkResource().session(TABLE) as spark:
        deleted, changed = edit(spark, Lake.of(Settings()))
    if not deleted:
        context.log.info(f"{TABLE} has no rows to edit yet")
        return
    context.log.info(
        f"deleted {deleted} from {TABLE}, and set {changed or 'nothing'} to 0.01, like an edit by hand. The table's "
        "check reconciliation finds this at night or when you run it, and the sensor has the partition loaded again."
    )
    context.add_output_metadata({"deleted": deleted, "changed": changed or "-"})


def edit(spark: SparkSession, lake: Lake) -> tuple[str | None, str | None]:
    """Edits the table of prices; returns the deleted and the changed article, None if the table has too few rows."""
    lake.expect_own(TABLE)
    uri = lake.table_uri([TABLE])
    if lake.version(uri) is None:
        return None, None
    name = lake.sql_name(uri)
    newest = [row["sku"] for row in spark.sql(f"SELECT sku FROM {name} ORDER BY updated_at DESC, sku LIMIT 2").head(2)]
    deleted, changed = [*newest, None, None][:2]
    if deleted:
        spark.sql(f"DELETE FROM {name} WHERE sku = {literal(deleted)}").first()
    if changed:
        spark.sql(f"UPDATE {name} SET price = 0.01 WHERE sku = {literal(changed)}").first()
    return deleted, changed


@dg.job(executor_def=dg.in_process_executor, tags={**UPKEEP, PRIORITY_TAG: "1"})
def edit_prices_by_hand() -> None:
    """Edits the table prices like a user who does not know that it is loaded: a drill for drift."""
    edit_by_hand()


drift_schedule = dg.ScheduleDefinition(
    name="drift_schedule",
    job=edit_prices_by_hand,
    cron_schedule=CRON,
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Edits the sample table prices each night, for reconciliation to find.",
)
