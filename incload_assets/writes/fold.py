"""A row per key that all windows make together: sums, extremes and last states."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyspark.sql.types as T
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incload_assets.change_log.change import REPLACED, UPSERT, log_order
from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.read_view import ReadView, of_keys
from incload_assets.contract.contract import Contract
from incload_assets.declaration.changes import Changes
from incload_assets.declaration.field_types import as_columns
from incload_assets.declaration.source import Source
from incload_assets.declaration.table import Table
from incload_assets.delta.sql import col, content_hash_sql
from incload_assets.writes.merge_into import merge
from incload_assets.writes.overflow import sum_of
from incload_assets.writes.plan import PENDING, Merged, MergePlan, entry
from incload_assets.writes.strategy import Strategy
from resources.errors import DeclarationError


@dataclass(frozen=True, kw_only=True)
class Fold(Strategy):
    """Fold what the windows say of a key into one row, whatever the order in which they are loaded.

    - Every row of a window is a contribution to its key. A window that is ingested again contributes what it now holds,
      and nothing of what it held before; a key to which nothing contributes any more has no row.
    - Columns in ``sums``, ``mins`` and ``maxes`` are folded so; NULLs are left out, and of NULLs alone comes NULL. All
      others are those of the contribution with the greatest sequence (NULL is older than any value; of equal ones a
      hash of the content decides).
    - The contract judges contributions, not what they make together. A sum that its type cannot hold fails the load.

    So an event log becomes a materialized view in two steps: a table of events by their identifier (an event that comes
    twice is there once), and a table derived from it with ``Fold``, whose function sums the events of a window up. A
    late event, or one that is corrected or deleted, asks for its window alone.

    A load reads the contributions of all windows to the keys of its own, and no events of other windows. Any load may
    touch any row, so loads are serialized, and share one fence.

    Args:
        sums: Columns to be added up; integers or decimals, because a sum of doubles depends on the order.
        mins: Columns of which the least value counts.
        maxes: Columns of which the greatest value counts.

    Example:
        >>> Fold(sums=["quantity", "movements"], maxes=["last_moved_at"]).sums
        ('quantity', 'movements')
    """

    sums: Sequence[str] = ()
    mins: Sequence[str] = ()
    maxes: Sequence[str] = ()

    ordered: ClassVar[bool] = False
    deletes: ClassVar[bool] = False
    whole: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name in ("sums", "mins", "maxes"):
            object.__setattr__(self, name, as_columns(getattr(self, name)))

    def validate(self, table_name: str, contract: Contract, changes: Changes, source: Source) -> None:
        """Every column is a key, or is folded in one way."""
        if self.partition_by is not None:
            raise DeclarationError(
                f"{table_name}: write.partition_by is {self.partition_by!r}, but a fold has none",
                rule="any window may contribute to any key",
                remedy="drop partition_by; where a window makes rows of its own, write Overwrite(partition_by=...)",
            )
        folded = [(way, column) for way in ("sums", "mins", "maxes") for column in getattr(self, way)]
        ways: dict[str, str] = dict.fromkeys(changes.keys, "changes.keys")
        for way, column in folded:
            if column not in contract.names:
                raise DeclarationError(
                    f"{table_name}: write.{way} names {column!r}, which {contract.model_name} does not have",
                    rule=f"folded are columns of the contract ({', '.join(contract.names)})",
                    remedy=f"add {column!r} to {contract.model_name}, or name one of its columns",
                )
            if column in ways:
                raise DeclarationError(
                    f"{table_name}: write.{way} names {column!r}, which is in {ways[column]}, too",
                    rule="a column is a key, or is folded in one way",
                    remedy="name it once",
                )
            ways[column] = f"write.{way}"
            kind = contract.type_of(column)
            if way != "sums" and "map<" in kind.simpleString():
                raise DeclarationError(
                    f"{table_name}: write.{way} names {column!r} of type {kind.simpleString()}",
                    rule="maps have no order, so that none of them is the least or the greatest",
                    remedy="drop it there, and name columns in sequence_by: then it is that of the newest contribution",
                )
            if way == "sums" and not isinstance(kind, T.IntegralType | T.DecimalType):
                raise DeclarationError(
                    f"{table_name}: write.sums names {column!r} of type {kind.simpleString()}",
                    rule="sums are of integers or decimals: a sum of doubles depends on the order of its rows",
                    remedy="declare it as a decimal, and cast it in the function",
                )
        if not changes.sequence_by and (rest := [name for name in contract.names if name not in ways]):
            raise DeclarationError(
                f"{table_name}: nothing says how {', '.join(map(repr, rest))} is folded, and changes.sequence_by is "
                "empty",
                rule="a column that is not summed up, and no extreme, is that of the newest contribution",
                remedy="name it in sums, mins or maxes of Fold, or name columns in sequence_by",
            )

    def plan(self, load: LoadContext, at: ReadView, *, full: bool) -> MergePlan:
        """The rows of the keys of the windows, folded from all windows, against those that the table has."""
        table, keys = load.table, list(load.table.identity)
        changes = load.changes(at)
        here = changes.filter(F.col("_window").isin(*at.controls) & F.col("_kind").isin(UPSERT, REPLACED))
        concerned = here.groupBy(*map(col, keys)).agg(F.min("_window").alias("_window"))
        contributions = changes.filter(F.col("_kind") == UPSERT).join(concerned.select(*map(col, keys)), keys, "semi")
        seen = F.expr(content_hash_sql(table.columns)).alias("_seen")
        present = of_keys(load.rows(at), concerned, table, at).select(*map(col, keys), seen)
        absent, unwanted = F.col("_seen").isNull(), F.col("_row").isNull()
        wanted_hash = F.expr(content_hash_sql(table.columns, "_row"))
        actions = (
            concerned.join(self._folded(contributions, table), keys, "left")
            .join(present, keys, "left")
            .withColumn(
                "_action",
                F.when(absent & unwanted, "same")
                .when(unwanted, "delete")
                .when(absent, "insert")
                .when(wanted_hash != F.col("_seen"), "update")
                .otherwise("same"),
            )
        )
        valid = f"{content_hash_sql(table.columns, 't')} <=> s._seen"
        return MergePlan(actions, tuple(keys), valid, _ledger(actions, here, keys, wanted_hash))

    def _folded(self, contributions: DataFrame, table: Table) -> DataFrame:
        """The key columns, and the struct ``_row`` of the table's columns."""
        keys = table.identity
        values = [name for name in table.columns if name not in keys]
        order = log_order(table)

        def fold(name: str) -> Column:
            column = col(name, "log")
            if name in self.sums:
                return sum_of(table, name, "log")
            if name in self.mins:
                return F.min(column)
            return F.max(column) if name in self.maxes else F.max_by(column, order)

        # under names of their own: an aggregate may not be called like what it is made of
        folded = [fold(name).alias(f"_fold{place}") for place, name in enumerate(values)]
        rows = contributions.alias("log").groupBy(*map(col, keys)).agg(*folded)
        row = {name: col(name) for name in keys} | {name: F.col(f"_fold{i}") for i, name in enumerate(values)}
        return rows.select(*map(col, keys), F.struct(*(row[name].alias(name) for name in table.columns)).alias("_row"))

    def apply(self, load: LoadContext, at: ReadView, plan: MergePlan) -> Merged | None:
        """One fenced MERGE."""
        return merge(load, at, plan)


def _ledger(actions: DataFrame, here: DataFrame, keys: list[str], wanted_hash: Column) -> DataFrame:
    """Every contribution of a window is applied; it shows where the row is what all of them make together."""
    upserts = F.count(F.when(F.col("_kind") == UPSERT, 1))
    counted = here.groupBy("_window", *map(col, keys)).agg(upserts.alias("_rows"))
    rows = counted.join(actions.drop("_window"), keys)
    shows = (F.col("_rows") > 0) & (F.col("_action") == "same")
    return rows.select(
        *entry(
            keys=F.lit(1),
            pending=F.col("_action").isin(*PENDING),
            applied=F.col("_rows"),
            present=shows,
            log_hash=F.when(shows, wanted_hash),
            table_hash=F.when(shows, F.col("_seen")),
        )
    )
