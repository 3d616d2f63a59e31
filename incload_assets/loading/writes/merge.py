"""The fenced MERGE: one commit that brings the keys of a window to what the plan says.

The fence is a Delta transaction identifier ``(table/window, number)`` in the MERGE's own commit. Its number is larger
than every number that was committed when the plan was read, and at least ``landing << 20``; a MERGE whose fence has
moved since is refused by Delta, or skipped, and counts as lost. So a MERGE that outlives its client (a shared server
finishes it) changes nothing once a later attempt has committed. See Delta's protocol, *Transaction Identifiers*.
"""

from dataclasses import dataclass

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from incload_assets.loading.columns import literal, quoted, row_order_sql
from incload_assets.loading.declaration import Table
from incload_assets.loading.delta_tables import lost_the_race
from incload_assets.loading.folding import PENDING, Snapshot
from incload_assets.loading.window import Window
from resources.lake import Lake

LANDING_SHIFT = 20


@dataclass(frozen=True)
class Merged:
    """What one MERGE changed, in rows, as its commit counts them."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0

    def __add__(self, other: "Merged") -> "Merged":
        return Merged(self.inserted + other.inserted, self.updated + other.updated, self.deleted + other.deleted)


def app_id(table: Table, window: Window) -> str:
    """The identifier that fences the merges of a window."""
    return f"{table.name}/{window.key}"


def is_merged(at: Snapshot) -> bool:
    """Whether some MERGE of the window's present landing has been committed."""
    return at.fence > at.control.landing << LANDING_SHIFT


def merge(
    spark: SparkSession, table: Table, lake: Lake, table_uri: str, window: Window, at: Snapshot, plan: DataFrame
) -> Merged | None:
    """Carry out a plan in one commit; without pending actions the commit carries only the fence.

    The conditions are judged again on the rows that the MERGE itself sees, which may be newer than those the plan
    saw: a fast action still has to be newer than the row, a full one replaces only the very row it was compared with.

    Returns:
        The rows changed, or None if another load committed first and the plan has to be made anew.
    """
    plan.filter(F.col("_action").isin(*PENDING)).createOrReplaceTempView("_plan")
    fence = {
        "spark.databricks.delta.write.txnAppId": app_id(table, window),
        "spark.databricks.delta.write.txnVersion": str(max(at.control.landing << LANDING_SHIFT, at.fence) + 1),
        "spark.databricks.delta.commitInfo.userMetadata": f"merged {window.key}, run {at.control.run_id}",
    }
    settings = {
        "spark.databricks.delta.merge.repartitionBeforeWrite.enabled": str(
            len(at.control.partitions or ()) > 1
        ).lower(),
    }
    for name, value in (settings | fence).items():
        spark.conf.set(name, value)
    try:
        counts = spark.sql(_statement(table, lake.sql_name(table_uri), at)).first()
    except PySparkException as error:
        if lost_the_race(error):
            return None
        raise
    finally:
        for name in fence:  # session-wide: left set, it would silently skip the next statement
            spark.conf.unset(name)
    if counts is None:
        return None
    return Merged(counts.num_inserted_rows, counts.num_updated_rows, counts.num_deleted_rows)


def _statement(table: Table, target: str, at: Snapshot) -> str:
    on = [f"t.{quoted(c)} = s.{quoted(c)}" for c in table.identity]
    partition = table.write.partition_by
    if partition is not None and at.control.partitions is not None:
        kind = next(f.data_type for f in table.contract.fields if f.name == partition).simpleString()
        values = ", ".join(f"CAST({literal(v)} AS {kind})" for v in at.control.partitions)
        on.insert(0, f"t.{quoted(partition)} IN ({values})" if values else "false")
    seen = row_order_sql(table, "t")
    valid = f"CASE WHEN s._full THEN {seen} <=> s._seen ELSE {seen} < s._order END"
    assign = ", ".join(f"t.{quoted(c)} = s._row.{quoted(c)}" for c in table.columns)
    names = ", ".join(map(quoted, table.columns))
    row = ", ".join(f"s._row.{quoted(c)}" for c in table.columns)
    return (
        f"MERGE INTO {target} AS t USING _plan AS s ON {' AND '.join(on)} "
        f"WHEN MATCHED AND s._action = 'delete' AND {valid} THEN DELETE "
        f"WHEN MATCHED AND s._action <> 'delete' AND {valid} THEN UPDATE SET {assign} "
        f"WHEN NOT MATCHED AND s._action = 'insert' THEN INSERT ({names}) VALUES ({row})"
    )
