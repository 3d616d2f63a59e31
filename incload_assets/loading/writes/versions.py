"""From all changes of some keys to their versions, and what the table lacks of them.

A key's changes at one value of the first sequence column are a *moment*; its newest change says what the key is from
then on. Moments in a row that say the same of the tracked columns are one *stretch*: a version, or a time without the
key, if they delete it. So the versions depend on nothing but the set of changes, whatever the order in which they came.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as Over
from pyspark.sql import functions as F

from incload_assets.loading.columns import DELETE, REPLACED, UPSERT, col, content_hash_sql, log_order
from incload_assets.loading.context import PENDING, Context, Plan, Snapshot

if TYPE_CHECKING:
    from incload_assets.loading.declaration import Table
    from incload_assets.loading.writes.history import History


def version_plan(context: Context, at: Snapshot, write: History) -> Plan:
    """The versions that the keys of the snapshot's windows should have, against those that the table has.

    Args:
        context: Of the load.
        at: The versions to read, and the windows.
        write: Names and tracked columns.

    Returns:
        Its actions have, beside what every plan has, ``_window``, one of the windows that concern the key; ``_seen``,
        hash of the row in the table, which has to be there unchanged.
    """
    table = context.table
    changes = context.changes(at)
    here = changes.filter(F.col("_window").isin(*at.controls) & F.col("_kind").isin(UPSERT, DELETE, REPLACED))
    concerned = here.groupBy(*map(col, table.identity)).agg(F.min("_window").alias("_lead"))
    history = changes.filter(F.col("_kind").isin(UPSERT, DELETE)).join(concerned, list(table.identity))
    wanted = _versions(_stretches(_moments(history, table, at), table, write), table, write)
    present = context.rows(at).join(concerned, list(table.identity))
    actions = _compared(wanted, present, table, write)
    return Plan(
        actions,
        identity=(*table.identity, write.valid_from),
        valid=f"{content_hash_sql(table.schema.names, 't')} <=> s._seen",
        ledger=_ledger(actions, here, table),
    )


def _moments(history: DataFrame, table: Table, at: Snapshot) -> DataFrame:
    """Per key and time ``_at``: the newest change, and how many of the windows' changes there are."""
    place = [*map(col, table.identity), F.col("_lead")]
    rows = (
        history.alias("log")
        .select(
            *place,
            F.when(F.col("_window").isin(*at.controls), F.col("_window")).alias("_mine"),
            col(table.changes.sequence_by[0], "log").alias("_at"),
            log_order(table).alias("_order"),
            F.struct(*(col(name, "log") for name in table.columns)).alias("_content"),
        )
        .repartition(*map(col, table.identity))  # all that follows is per key: one shuffle does for it
    )
    here = (
        rows.groupBy(*place, "_at", "_mine")
        .agg(
            F.max("_order").alias("_order"),
            F.max_by("_content", "_order").alias("_content"),
            F.count(F.lit(1)).alias("_rows"),
            F.count_distinct("_order").alias("_distinct"),
        )
        .withColumn("_counts", F.when(F.col("_mine").isNotNull(), F.struct("_mine", "_rows", "_distinct", "_order")))
    )
    return here.groupBy(*place, "_at").agg(
        F.max("_order").alias("_order"),
        F.max_by("_content", "_order").alias("_content"),
        F.collect_list("_counts").alias("_counts"),  # skips NULLs
    )


def _stretches(moments: DataFrame, table: Table, write: History) -> DataFrame:
    """Moments in a row that say the same: since when (``_from``), and the newest change of them."""
    place = [*map(col, table.identity), F.col("_lead")]
    in_time = Over.partitionBy(*map(col, table.identity)).orderBy(F.asc_nulls_first("_at"))
    tracked = F.expr(content_hash_sql(write.tracked(table.columns, table.changes), "_content"))
    says = F.when(~F.col("_order").getField("delete"), tracked)
    counts = F.transform("_counts", lambda c: c.withField("_applied", c["_order"] == F.col("_order")))
    return (
        moments.select(*place, "_at", "_order", "_content", counts.alias("_counts"), says.alias("_says"))
        .withColumn("_turns", ~F.col("_says").eqNullSafe(F.lag("_says").over(in_time)))
        .withColumn("_stretch", F.count(F.when(F.col("_turns"), 1)).over(in_time))
        .groupBy(*place, "_stretch")
        .agg(
            F.min(F.struct("_at")).getField("_at").alias("_from"),  # in a struct a NULL is the least
            F.max("_order").alias("_newest"),
            F.max_by("_content", "_order").alias("_content"),
            F.flatten(F.collect_list("_counts")).alias("_counts"),
        )
    )


def _versions(stretches: DataFrame, table: Table, write: History) -> DataFrame:
    """What the table should have of each stretch: ``_row``, NULL where the key is deleted."""
    in_time = Over.partitionBy(*map(col, table.identity)).orderBy("_stretch")
    row = F.struct(
        *(F.col("_content").getField(name).alias(name) for name in table.columns),
        F.col("_from").alias(write.valid_from),
        F.col("_to").alias(write.valid_to),
        F.col("_to").isNull().alias(write.is_current),  # only the first stretch of a key can begin with NULL
    )
    return stretches.withColumn("_to", F.lead("_from").over(in_time)).withColumn(
        "_row", F.when(~F.col("_newest").getField("delete"), row)
    )


def _compared(wanted: DataFrame, present: DataFrame, table: Table, write: History) -> DataFrame:
    """Wanted and present versions side by side, with the action that makes them one."""
    seen = present.alias("t").select(
        *(col(name, "t") for name in table.identity),
        col(write.valid_from, "t").alias("_from"),
        "_lead",
        F.expr(content_hash_sql(table.schema.names, "t")).alias("_seen"),
        F.expr(content_hash_sql(table.columns, "t")).alias("_seen_content"),
    )
    same_version = F.col("w._row").isNotNull() & F.col("w._from").eqNullSafe(F.col("t._from"))
    for name in table.identity:
        same_version &= col(name, "w") == col(name, "t")
    absent, unwanted = F.col("_seen").isNull(), F.col("_row").isNull()
    differs = F.expr(content_hash_sql(table.schema.names, "_row")) != F.col("_seen")
    return (
        wanted.alias("w")
        .join(seen.alias("t"), same_version, "full")
        .select(
            *(F.coalesce(col(name, "w"), col(name, "t")).alias(name) for name in table.identity),
            F.coalesce("w._from", "t._from").alias(write.valid_from),
            F.coalesce("w._lead", "t._lead").alias("_window"),
            F.when(absent & unwanted, "same")
            .when(unwanted, "delete")
            .when(absent, "insert")
            .when(differs, "update")
            .otherwise("same")
            .alias("_action"),
            *map(F.col, ("_row", "_seen", "_seen_content", "_newest", "_counts")),
        )
    )


def _ledger(actions: DataFrame, here: DataFrame, table: Table) -> DataFrame:
    """How the changes of each window count: the newest of a moment is applied, the others are stale."""
    shown = (F.col("_action") == "same") & F.col("_seen").isNotNull()

    def of_window(count: Column) -> Column:
        distinct, applied = count["_distinct"], count["_applied"].cast("long")
        in_row = shown & (count["_order"] == F.col("_newest"))
        return _entry(
            count["_mine"],
            applied=applied,
            stale=distinct - applied,
            duplicate=count["_rows"] - distinct,
            present=in_row.cast("long"),
            log_hash=F.when(in_row, count["_order"]["hash"]),
            table_hash=F.when(in_row, F.col("_seen_content")),
        )

    pending = F.array(_entry(F.col("_window"), pending=F.col("_action").isin(*PENDING).cast("long")))
    entries = F.concat(pending, F.coalesce(F.transform("_counts", of_window), F.slice(pending, 1, 0)))
    keys = here.select("_window", *map(col, table.identity)).distinct()
    return actions.select(F.inline(entries)).unionByName(
        keys.select(F.inline(F.array(_entry(F.col("_window"), keys=F.lit(1).cast("long")))))
    )


def _entry(window: Column, **values: Column) -> Column:
    """A row of the ledger; what is not given is nothing."""
    zero, none = F.lit(0).cast("long"), F.lit(None).cast("long")
    numbers = ("keys", "pending", "applied", "stale", "duplicate", "present")
    return F.struct(
        window.alias("_window"),
        *(F.coalesce(values.get(name, zero), zero).alias(f"_{name}") for name in numbers),
        *(values.get(name, none).alias(f"_{name}") for name in ("log_hash", "table_hash")),
    )
