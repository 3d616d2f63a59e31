"""Replacing a part of the table as a whole: its rows are compared with those it should have, repeats included.

A replacement is one ``replaceWhere`` commit with a literal predicate, or an overwrite of everything, that carries the
fence as a writer option. Delta raises no conflict when somebody else has replaced the same part since the plan was
made; but it skips a commit whose fence is not above the last one, which shows in the session's last commit: none.
"""

from dataclasses import replace

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incload_assets.change_log.read_view import Snapshot
from incload_assets.delta.sql import col, row_id_sql
from incload_assets.loading.context import Context
from incload_assets.loading.declaration import Table
from incload_assets.loading.delta_tables import lost_the_race
from incload_assets.loading.ledger import entry
from incload_assets.loading.plan import PENDING, Merged, Plan
from incload_assets.loading.writes.merging import commit_note, fence_number, merge

_LAST_COMMIT = "spark.databricks.delta.lastCommitVersionInSession"


def content_plan(table: Table, wanted: DataFrame, present: DataFrame, *, in_effect: bool = True) -> Plan:
    """A plan that makes the present rows the wanted ones, however often each of them occurs.

    Args:
        table: The declaration.
        wanted: ``_window`` and the table's columns.
        present: The same, of the table.
        in_effect: Whether the wanted rows are those of the windows themselves, and count as applied.
    """
    keys = ["_window", "_id"]
    both = _counted(wanted, table, "wanted").join(_counted(present, table, "present"), keys, "full")
    numbers = [F.coalesce(name, F.lit(0)).alias(name) for name in ("_wanted", "_present")]
    row = F.coalesce("_wanted_row", "_present_row").alias("_row")
    content = both.select(*keys, *numbers, row)
    more = F.col("_wanted") - F.col("_present")
    copies = F.flatten(
        F.array(
            _repeated("same", F.least("_wanted", "_present")), _repeated("insert", more), _repeated("delete", -more)
        )
    )
    applies = (more == 0) & (F.col("_wanted") > 0) & F.lit(in_effect)
    columns = entry(
        keys=F.lit(1),
        pending=more != 0,
        applied=F.when(F.lit(in_effect), F.col("_wanted")),
        present=F.when(applies, F.col("_present")),
        log_hash=F.when(applies, F.xxhash64("_id", "_wanted")),
        table_hash=F.when(applies, F.xxhash64("_id", "_present")),
    )
    actions = content.withColumn("_action", F.explode(copies))
    return Plan(actions, identity=(), valid="false", ledger=content.select(*columns), match="false")


def _counted(rows: DataFrame, table: Table, name: str) -> DataFrame:
    """How often each content occurs per window, and one row of it."""
    columns = [col(column) for column in table.columns]
    known = rows.select("_window", F.expr(row_id_sql(table.columns)).alias("_id"), F.struct(*columns).alias("_row"))
    return known.groupBy("_window", "_id").agg(
        F.count(F.lit(1)).alias(f"_{name}"), F.any_value("_row").alias(f"_{name}_row")
    )


def _repeated(action: str, times: Column) -> Column:
    return F.array_repeat(F.lit(action), times.cast("int"))


def replace_content(
    context: Context, at: Snapshot, plan: Plan, wanted: DataFrame, where: str | None = None
) -> Merged | None:
    """Replace a part of the table in one fenced commit; if it is right as it is, only the fence is committed.

    Args:
        context: Of the load.
        at: What the plan was made from.
        plan: As :func:`content_plan` makes it.
        wanted: The table's columns: all rows that the part should have.
        where: The part, as a SQL condition with literals; None: all of the table.

    Returns:
        The rows that came and went, or None if another load committed first and the plan has to be made anew.
    """
    pending = plan.actions.filter(F.col("_action").isin(*PENDING))
    counts = {row["_action"]: row["count"] for row in pending.groupBy("_action").count().head(len(PENDING))}
    if not counts:
        return merge(context, at, replace(plan, actions=plan.actions.filter("false")))
    if not fenced_overwrite(context, at, wanted.select(*map(col, context.table.columns)), where):
        return None
    return Merged(inserted=counts.get("insert", 0), deleted=counts.get("delete", 0), rewrites=1)


def fenced_overwrite(context: Context, at: Snapshot, rows: DataFrame, where: str | None) -> bool:
    """Replace a part of the table in one fenced commit.

    Args:
        context: Of the load.
        at: What the plan was made from.
        rows: All that the part should have.
        where: The part, as a SQL condition with literals; None: all of the table.

    Returns:
        Whether it was committed; False if another load committed first.
    """
    writer = rows.write.format("delta").mode("overwrite").option("userMetadata", commit_note(at))
    writer = writer.option("txnAppId", at.app_id).option("txnVersion", fence_number(at))
    if where is not None:
        writer = writer.option("replaceWhere", where)
    context.spark.conf.unset(_LAST_COMMIT)
    try:
        writer.save(context.lake.spark_uri(context.uri))
    except PySparkException as error:
        if lost_the_race(error):
            return False
        raise
    return context.spark.conf.get(_LAST_COMMIT, None) is not None
