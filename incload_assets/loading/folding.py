"""Folding: what the log says each key of a window should be, against what the table holds.

The outcome is a *plan*: one row per key with the action that makes the table right. An empty plan (no pending action)
is the proof that the window is reconciled; a plan with pending actions is the source of the MERGE. Both are the same
query, so what is merged and what is checked cannot drift apart.

Two folds give the same table (a property test says so):

* fast, for keys that only gained changes: the newest change of the window, the newest delete anywhere in the log, and
  the row that the table holds decide. The log's history is not read.
* full, for keys that had a row taken away, and for repairs: all changes of the key in the log decide, the row in the
table
  is only compared.
"""

from dataclasses import dataclass

import pyspark.sql.types as T
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from incload_assets.loading.change_log import ChangeLog, Control
from incload_assets.loading.columns import (
    DELETE,
    REPLACED,
    UPSERT,
    col,
    log_order,
    row_order_sql,
)
from incload_assets.loading.declaration import Table
from incload_assets.loading.window import Window

PENDING = ("insert", "update", "delete")


@dataclass(frozen=True)
class Snapshot:
    """The versions that one plan is made from; the table's is read before the log's.

    Args:
        table_version: Delta version of the table.
        log_version: Delta version of the log.
        fence: The window's last committed fence in ``table_version``; 0 if none.
        control: The window's control row in ``log_version``.
    """

    table_version: int
    log_version: int
    fence: int
    control: Control


def fold_plan(
    spark: SparkSession, table: Table, log: ChangeLog, table_uri: str, window: Window, at: Snapshot, *, full: bool
) -> DataFrame:
    """The plan for a window's keys.

    Args:
        spark: The load's session.
        table: The declaration.
        log: The table's log.
        table_uri: Where the table is.
        window: Which.
        at: The versions to read.
        full: Fold every key in full; otherwise only those that had a row taken away.

    Returns:
        One row per key: the identity columns; ``_row``, the row the key should have; ``_action``, one of insert,
        update, delete (pending), same (the window's newest change is in effect) or stale (something newer is);
        ``_order``, ``_seen``: order of the deciding change and of the row seen in the table;
        ``_full``; ``_rows``, ``_distinct``: changes of the key in the window, and how many of them differ.
    """
    changes = log.read(spark, at.log_version)
    here = changes.filter(F.col("_window") == window.key)
    mine = _newest(here.filter(F.col("_kind").isin(UPSERT, DELETE)), table, "mine")
    identity = list(table.identity)
    if full:
        keys = here.filter(F.col("_kind").isin(UPSERT, DELETE, REPLACED)).select(*map(col, identity)).distinct()
        wanted = _folded(changes, keys, mine, table, at)
    elif at.control.replaced:
        marked = here.filter(F.col("_kind") == REPLACED).select(*map(col, identity)).distinct()
        fast = mine.join(marked, identity, "left_anti")
        wanted = _against_deletes(changes, fast, table, window, at).unionByName(
            _folded(changes, marked, mine.join(marked, identity, "left_semi"), table, at)
        )
    else:
        wanted = _against_deletes(changes, mine, table, window, at)
    return _compared(wanted, _present(spark, table, log, table_uri, at), table)


def _newest(changes: DataFrame, table: Table, prefix: str) -> DataFrame:
    """Per key: the newest change's order and row, and how many changes there are."""
    order = log_order(table)
    ordered = changes.alias("log").select(
        *(col(name, "log") for name in table.identity),
        order.alias("_o"),
        F.struct(*(col(name, "log") for name in table.columns)).alias("_r"),
    )
    return ordered.groupBy(*map(col, table.identity)).agg(
        F.max("_o").alias(f"_{prefix}_order"),
        F.max_by("_r", "_o").alias(f"_{prefix}_row"),
        F.count(F.lit(1)).alias(f"_{prefix}_rows"),
        F.count_distinct("_o").alias(f"_{prefix}_distinct"),
    )


def _against_deletes(changes: DataFrame, mine: DataFrame, table: Table, window: Window, at: Snapshot) -> DataFrame:
    """Fast fold: the window's newest change, unless the log holds a delete that is newer."""
    deletes = changes.filter((F.col("_kind") == DELETE) & (F.col("_window") != window.key))
    deletes = _near(deletes, table, at)
    if (first := at.control.first_sequence) is not None:
        column = table.changes.sequence_by[0]
        kind = _type_of(table, column)
        deletes = deletes.filter(col(column) >= F.lit(first).cast(kind))  # older ones decide nothing; skips their files
    newest = (
        deletes.alias("log")
        .select(*(col(name, "log") for name in table.identity), log_order(table).alias("_o"))
        .groupBy(*map(col, table.identity))
        .agg(F.max("_o").alias("_delete_order"))
    )
    joined = mine.join(newest, list(table.identity), "left")
    beaten = F.coalesce(F.col("_delete_order") > F.col("_mine_order"), F.lit(False))
    return joined.select(
        *map(col, table.identity),
        F.when(beaten, F.col("_delete_order")).otherwise(F.col("_mine_order")).alias("_order"),
        F.col("_mine_row").alias("_row"),
        F.lit(False).alias("_full"),
        "_mine_order",
        F.col("_mine_rows").alias("_rows"),
        F.col("_mine_distinct").alias("_distinct"),
    )


def _folded(changes: DataFrame, keys: DataFrame, mine: DataFrame, table: Table, at: Snapshot) -> DataFrame:
    """Full fold of the keys, from every change that the log holds of them."""
    identity = list(table.identity)
    history = _near(changes.filter(F.col("_kind").isin(UPSERT, DELETE)), table, at).join(keys, identity, "left_semi")
    newest = _newest(history, table, "all")
    return (
        keys.join(newest, identity, "left")
        .join(mine, identity, "left")
        .select(
            *map(col, identity),
            F.col("_all_order").alias("_order"),
            F.col("_all_row").alias("_row"),
            F.lit(True).alias("_full"),
            "_mine_order",
            F.coalesce("_mine_rows", F.lit(0)).alias("_rows"),
            F.coalesce("_mine_distinct", F.lit(0)).alias("_distinct"),
        )
    )


def _present(spark: SparkSession, table: Table, log: ChangeLog, table_uri: str, at: Snapshot) -> DataFrame:
    """The table's rows as of the snapshot, in the partitions that the window touches."""
    path = log.lake.spark_uri(table_uri)
    rows = spark.read.format("delta").option("versionAsOf", at.table_version).load(path)
    return (
        _near(rows, table, at)
        .alias("t")
        .select(*(col(name, "t") for name in table.identity), F.expr(row_order_sql(table, "t")).alias("_seen"))
    )


def _near(rows: DataFrame, table: Table, at: Snapshot) -> DataFrame:
    """Only rows of the partitions that the window touches, by literals: nothing else prunes files."""
    if table.write.partition_by is None or at.control.partitions is None:
        return rows
    return rows.filter(partition_filter(table, at.control.partitions))


def partition_filter(table: Table, values: list[str], alias: str | None = None) -> Column:
    """The condition that a row lies in one of the partitions."""
    column = table.write.partition_by
    assert column is not None
    kind = _type_of(table, column)
    return col(column, alias).isin(*(F.lit(value).cast(kind) for value in values)) if values else F.lit(False)


def _type_of(table: Table, column: str) -> T.DataType:
    return next(field.data_type for field in table.contract.fields if field.name == column)


def _compared(wanted: DataFrame, present: DataFrame, table: Table) -> DataFrame:
    """Name the action per key."""
    both = wanted.join(present, list(table.identity), "left")
    gone = F.col("_order").isNull() | F.col("_order").getField("delete")
    absent = F.col("_seen").isNull()
    older = F.col("_seen") < F.col("_order")
    differs = ~F.col("_seen").eqNullSafe(F.col("_order"))
    in_effect = F.coalesce(F.col("_mine_order") == F.col("_order"), F.lit(False))
    settled = F.when(in_effect, "same").otherwise("stale")
    fast = (
        F.when(gone & ~absent & older, "delete")
        .when(~gone & absent, "insert")
        .when(~gone & older, "update")
        .when(absent | ~differs, settled)
        .otherwise("stale")
    )
    fully = (
        F.when(gone & ~absent, "delete")
        .when(~gone & absent, "insert")
        .when(~gone & differs, "update")
        .otherwise(settled)
    )
    return both.withColumn("_action", F.when(F.col("_full"), fully).otherwise(fast))
