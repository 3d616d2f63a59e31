"""Append: insert-only tables with each event once, even if it is delivered twice."""

from dataclasses import dataclass
from typing import ClassVar

import pyspark.sql.types as T
from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as Over
from pyspark.sql import functions as F

from incload_assets.change_log.change import REPLACED, UPSERT, order_sql
from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.read_view import ReadView, near
from incload_assets.contract.contract import Contract
from incload_assets.declaration.changes import Changes
from incload_assets.declaration.table import Table
from incload_assets.platform.sql import col, content_hash_sql, row_id_sql
from incload_assets.writes.merge_into import merge
from incload_assets.writes.plan import Merged, MergePlan
from incload_assets.writes.row_fold import ledger_of
from incload_assets.writes.strategy import Strategy


@dataclass(frozen=True, kw_only=True)
class Append(Strategy):
    """Inserts events that never change, each one once.

    With ``changes.keys`` an event is identified by its key, and its first content is final: of two contents under one
    key the *oldest* stays, in the order (sequence, NULL first; content hash), and the other counts as stale. "Oldest"
    is by that order, not by arrival: an older content that arrives late replaces the newer one, so that the order of
    loads does not matter.

    Without keys an event is identified by its whole content, compared by a hash that does not collide; the sequence is
    not used then.

    There are no deletes. But an event leaves the table if the source withdraws it: its window is delivered again
    without it, and no other window has it. A NULL in a key or in ``partition_by`` is quarantined. An event whose
    partition changes becomes two events; the uniqueness check finds them by their key.

    Args:
        partition_by: Column that partitions the table and is fixed for an event (the day it happened). None: not
            partitioned; every load compares with the whole table, and loads are serialized.

    Example:
        >>> Append(partition_by="day").deletes
        False
    """

    ordered: ClassVar[bool] = False
    keyed: ClassVar[bool] = False
    deletes: ClassVar[bool] = False
    adoptable: ClassVar[bool] = True

    def is_content(self, changes: Changes) -> bool:
        """True if a row is identified by its whole content: if there are no keys."""
        return not changes.keys

    def marked(self, contract: Contract, changes: Changes) -> tuple[str, ...]:
        """The identity of an event, or all columns if there are no keys."""
        return self.identity(changes) if changes.keys else contract.names

    def explained(self, changes: Changes) -> list[str]:
        """Sentences for people; see :meth:`Write.explained`."""
        if changes.keys:
            ordered = f"smallest {', '.join(changes.sequence_by)}" if changes.sequence_by else "smaller hash"
            event = f"The table has each event once, identified by {', '.join(self.identity(changes))}."
            wins = f"An event never changes: of two contents the oldest stays, by the {ordered}, not by arrival."
        else:
            event = "The table has each event once, identified by its whole content."
            wins = "An event never changes: one that is delivered twice stands once."
        return [
            event,
            wins,
            "Nothing is deleted, but an event leaves the table if its window is loaded again without it and no other "
            "window has it.",
        ]

    def plan(self, load: LoadContext, at: ReadView, *, full: bool) -> MergePlan:
        """The merge plan: the oldest content of each event of the windows, compared with the table's.

        The log's other windows are read only for events withdrawn by a window, or for all events if ``full``. For the
        others the table already has the oldest content of earlier loads.
        """
        table, seen, event = load.table, _order_sql(load.table, "t"), Over.partitionBy("_id")
        changes = near(load.near_changes(at) if full or at.replaced else load.window_changes(at), table, at)
        is_here = F.col("_window").isin(*at.records)
        events = _events(changes.filter(F.col("_kind") == UPSERT), table)
        here, elsewhere = events.filter(is_here), events.filter(~is_here)
        taken = _events(changes.filter(is_here & (F.col("_kind") == REPLACED)), table)
        places = here.unionByName(taken) if at.replaced else here
        places = places.groupBy("_id", "_window").agg(*_summary())
        again = F.lit(full) if full or not at.replaced else F.max("_taken").over(event)
        leads = F.row_number().over(event.orderBy("_window")) == 1
        places = places.withColumns({"_full": again, "_leads": leads})
        if full or at.replaced:
            here = here.unionByName(elsewhere.join(places.filter("_full"), "_id", "left_semi"))
        wanted = here.groupBy("_id").agg(F.min("_o").alias("_order"), F.min_by("_r", "_o").alias("_row"))
        present = load.rows(at, near=True).alias("t")
        present = present.select(F.expr(_id_sql(table, "t")).alias("_id"), F.expr(seen).alias("_seen"))
        both = places.join(wanted, "_id", "left").join(present, "_id", "left")
        actions = both.withColumn("_action", _action())
        return MergePlan(
            actions,
            identity=(),
            match=f"{_id_sql(table, 't')} = s._id",
            valid=f"CASE WHEN s._full THEN {seen} <=> s._seen ELSE {seen} > s._order END",
            ledger=ledger_of(actions),
        )

    def apply(self, load: LoadContext, at: ReadView, plan: MergePlan) -> Merged | None:
        """Executes the plan in one fenced MERGE."""
        return merge(load, at, plan)


def _id_sql(table: Table, alias: str) -> str:
    keys = [name for name in table.changes.keys if isinstance(table.type_of(name), T.FloatType | T.DoubleType)]
    return row_id_sql(table.write.marked(table.contract, table.changes), alias, zeros=keys)


def _order_sql(table: Table, alias: str) -> str:
    content = content_hash_sql(table.columns, alias)
    return order_sql(table, alias=alias, is_delete="false", content_hash=content)


def _events(rows: DataFrame, table: Table) -> DataFrame:
    """Rows of the log with the identifier of the event and the order of its content."""
    return rows.alias("log").select(
        "_window",
        (F.col("_kind") == REPLACED).alias("_taken"),
        F.expr(_id_sql(table, "log")).alias("_id"),
        F.expr(_order_sql(table, "log")).alias("_o"),
        F.struct(*(col(name, "log") for name in table.columns)).alias("_r"),
    )


def _summary() -> list[Column]:
    """Aggregates per event and window: the oldest content, and numbers of rows; withdrawn rows do not count."""
    order = F.when(~F.col("_taken"), F.col("_o"))
    return [
        F.max("_taken").alias("_taken"),
        F.min(order).alias("_mine_order"),
        F.count(order).alias("_rows"),
        F.count_distinct(order).alias("_distinct"),
    ]


def _action() -> Column:
    """The pending action per event; if there is none, whether its content in the window is in effect or stale."""
    wanted, seen = F.col("_order"), F.col("_seen")
    right = F.when(F.col("_full"), wanted).otherwise(F.least(wanted, seen))  # least ignores NULL
    pending = (
        F.when(wanted.isNull() & seen.isNotNull(), "delete")
        .when(wanted.isNotNull() & seen.isNull(), "insert")
        .when(~seen.eqNullSafe(right), "update")
    )
    counted = F.when(F.col("_mine_order") == right, "same").otherwise("stale")
    return F.coalesce(F.when(F.col("_leads"), pending), counted)
