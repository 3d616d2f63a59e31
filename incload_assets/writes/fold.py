"""Fold: one row per key, aggregated from all windows by sums, extremes and last states."""

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
from incload_assets.platform.errors import DeclarationError
from incload_assets.platform.sql import col, content_hash_sql
from incload_assets.writes.merge_into import merge
from incload_assets.writes.overflow import sum_of
from incload_assets.writes.plan import PENDING, Merged, MergePlan, entry
from incload_assets.writes.strategy import Strategy


@dataclass(frozen=True, kw_only=True)
class Fold(Strategy):
    """Folds the contributions of all windows to a key into one row, independent of the order of loads.

    - Every row of a window is a contribution to its key. A window that is ingested again contributes only its present
      rows; a key without contributions has no row.
    - Columns in ``sums``, ``mins`` and ``maxes`` are aggregated; NULLs are ignored, and NULLs alone give NULL. All
      other columns come from the contribution with the greatest sequence (NULL is older than any value; of equal
      ones a hash of the content decides).
    - The contract validates contributions, not the aggregated row. A sum that is out of its type's range fails the
      load.

    An event log thus becomes a materialized view in two steps: a table of events by their identifier, which stores an
    event that arrives twice only once, and a table derived from it with ``Fold``, whose function sums up the events of
    a window. A late, corrected or deleted event causes a load of its own window only.

    A load reads the contributions of all windows to its own keys, and no events of other windows. Any load may touch
    any row, so loads are serialized and share one fence.

    Args:
        sums: Columns that are summed; integers or decimals, because a sum of doubles depends on the order.
        mins: Columns that get the least value.
        maxes: Columns that get the greatest value.

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

    def explained(self, changes: Changes) -> list[str]:
        """Sentences for people; see :meth:`Write.explained`."""
        ways = (("the sum", self.sums), ("the least", self.mins), ("the greatest", self.maxes))
        folded = "; ".join(f"{way} of {', '.join(columns)}" for way, columns in ways if columns)
        return [
            f"The table has one row per {', '.join(changes.keys)}, folded from the rows of all windows.",
            f"A row has {folded or 'no aggregates'}; NULLs are ignored. All other columns come from the newest row.",
            self._newer(changes),
            "Nothing is deleted, but a key without rows in any window has no row, and a window that is loaded again "
            "contributes its present rows only.",
        ]

    def __post_init__(self) -> None:
        for name in ("sums", "mins", "maxes"):
            object.__setattr__(self, name, as_columns(getattr(self, name)))

    def validate(self, table_name: str, contract: Contract, changes: Changes, source: Source) -> None:
        """Checks that every column is either a key or folded in one way."""
        if self.partition_by is not None:
            raise DeclarationError(
                f"{table_name}: write.partition_by is {self.partition_by!r}, but a fold has none",
                rule="any window may contribute to any key",
                remedy="drop partition_by; if each window has rows of its own, write Overwrite(partition_by=...)",
            )
        folded = [(way, column) for way in ("sums", "mins", "maxes") for column in getattr(self, way)]
        ways: dict[str, str] = dict.fromkeys(changes.keys, "changes.keys")
        for way, column in folded:
            if column not in contract.names:
                raise DeclarationError(
                    f"{table_name}: write.{way} names {column!r}, which {contract.model_name} does not have",
                    rule=f"only columns of the contract are folded ({', '.join(contract.names)})",
                    remedy=f"add {column!r} to {contract.model_name}, or name one of its columns",
                )
            if column in ways:
                raise DeclarationError(
                    f"{table_name}: write.{way} names {column!r}, which is also in {ways[column]}",
                    rule="a column is either a key or folded in one way",
                    remedy="name it once",
                )
            ways[column] = f"write.{way}"
            kind = contract.type_of(column)
            if way != "sums" and "map<" in kind.simpleString():
                raise DeclarationError(
                    f"{table_name}: write.{way} names {column!r} of type {kind.simpleString()}",
                    rule="maps have no order, so no map is the least or the greatest",
                    remedy="drop it there, and name columns in sequence_by to get the value of the newest contribution",
                )
            if way == "sums" and not isinstance(kind, T.IntegralType | T.DecimalType):
                raise DeclarationError(
                    f"{table_name}: write.sums names {column!r} of type {kind.simpleString()}",
                    rule="only integers and decimals are summed: a sum of doubles depends on the order of its rows",
                    remedy="declare it as a decimal, and cast it in the function",
                )
        if not changes.sequence_by and (rest := [name for name in contract.names if name not in ways]):
            raise DeclarationError(
                f"{table_name}: nothing declares how {', '.join(map(repr, rest))} is folded, and changes.sequence_by "
                "is empty",
                rule="a column that is not in sums, mins or maxes has the value of the newest contribution",
                remedy="name it in sums, mins or maxes of Fold, or name columns in sequence_by",
            )

    def plan(self, load: LoadContext, at: ReadView, *, full: bool) -> MergePlan:
        """The merge plan: the rows of the windows' keys, folded from all windows, compared with the table's."""
        table, keys = load.table, list(load.table.identity)
        changes = load.changes(at)
        here = changes.filter(F.col("_window").isin(*at.records) & F.col("_kind").isin(UPSERT, REPLACED))
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

        # under separate names, because an aggregate must not have the name of a column that it uses
        folded = [fold(name).alias(f"_fold{place}") for place, name in enumerate(values)]
        rows = contributions.alias("log").groupBy(*map(col, keys)).agg(*folded)
        row = {name: col(name) for name in keys} | {name: F.col(f"_fold{i}") for i, name in enumerate(values)}
        return rows.select(*map(col, keys), F.struct(*(row[name].alias(name) for name in table.columns)).alias("_row"))

    def apply(self, load: LoadContext, at: ReadView, plan: MergePlan) -> Merged | None:
        """Executes the plan in one fenced MERGE."""
        return merge(load, at, plan)


def _ledger(actions: DataFrame, here: DataFrame, keys: list[str], wanted_hash: Column) -> DataFrame:
    """The ledger: every contribution of a window is applied; it is present if the row equals the fold."""
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
