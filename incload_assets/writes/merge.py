"""Upsert by key, the newest change wins (slowly changing dimension type 1)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import pyspark.sql.types as T
from pyspark.sql import DataFrame
from pyspark.sql import Window as Over
from pyspark.sql import functions as F

from incload_assets.change_log.change import DELETE, EMPTIES, UPSERTS, log_order, sets
from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.read_view import ReadView
from incload_assets.change_log.window_records import WindowRecord
from incload_assets.contract.contract import Contract
from incload_assets.declaration.changes import Changes
from incload_assets.declaration.field_types import Share
from incload_assets.declaration.source import Source
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import Window
from incload_assets.delta.sql import any_of, col
from incload_assets.ingest.facts import Facts
from incload_assets.ingest.full_extracts import guard_snapshots
from incload_assets.ingest.ingestion import Ingestion
from incload_assets.writes.column_fold import column_plan
from incload_assets.writes.merge_into import merge
from incload_assets.writes.plan import Merged, MergePlan
from incload_assets.writes.replace_where import pays, rewrite
from incload_assets.writes.row_fold import fold_plan
from incload_assets.writes.strategy import Strategy
from resources.errors import DeclarationError


@dataclass(frozen=True, kw_only=True)
class Merge(Strategy):
    """Upsert by key (slowly changing dimension type 1) with deletes.

    The table holds one row per key, as its newest change made it, in whatever order changes were loaded:

    - Newer is what has the greater sequence; NULL is older than any value. Of equal sequences a delete is newer than
      an upsert; between two upserts a hash of their content decides, repeatably but without meaning.
    - A change with a NULL in its key is quarantined, and so is a change without ``partition_by``'s value.
    - A delete removes the row, and stays remembered: an older change that comes later does not bring it back, a newer
      one does. A delete of a key that is not there changes nothing.
    - With ``soft_delete`` a deleted row stays, with the values of its newest upsert, the sequence of the delete, and
      true in that column. A key that was only ever deleted has no row: it has no values that the contract would
      accept. If its upsert comes late, the row appears, deleted. A newer upsert revives a row.
    - With ``partial`` (or ``Changes(unavailable=...)``) each column has the value of the newest change that sets it,
      and the row has the sequence of the newest change. A deletion ends what was known of the key: nothing of before
      shows through when it is inserted anew. As long as a column that the contract requires has not been set, there
      is no row yet; its changes count as waiting, and the row appears with the change that completes it, even a late
      one. A row that got a new key (``Changes(moved_when=...)``) waits likewise for what it had under the old one.
    - A truncate (``Changes(truncate_when=...)``) deletes the rows whose sequence is smaller than its own, as if each of
      their keys had been deleted just then; rows of an equal sequence stay. One without a sequence is quarantined.
    - A snapshot (``Changes(snapshot_when=...)``) is a truncate with rows, all at one sequence: changes before it and
      after it may come in any order. See :mod:`incload_assets.ingest.full_extracts`.

    Plain merges mostly read only what is new, and the deletes in the log. With ``soft_delete``, ``partial`` or
    ``unavailable`` a load reads all changes that the log holds of its keys; one that brings a truncate or a snapshot,
    those of all keys.

    Args:
        partition_by: Column that partitions the table and is fixed for a row's whole life, deletes included (an event
            table: orders by order date). None: a state table, where any load may touch any row; its loads are
            serialized.
        buckets: Into how many hash buckets of its keys a state table is divided; None: not at all. See
            :class:`~incload_assets.declaration.write.Write`.
        soft_delete: Name of a boolean column that the table gets beside the contract's: whether the row is deleted.
            None: deleted rows leave the table.
        partial: Whether a change sets only the columns that its record has (in JSON, null is a value; a CSV or Parquet
            file has the columns of its header). A column that the function computes is set where that is not NULL.
        max_shrink: Largest share of the table's rows, 0 to 1, that a snapshot may lack.
        rewrite: Whether a partition of which a large share changes may be replaced as a whole, in one commit, where
            that is faster than a MERGE and makes the same table; see :mod:`incload_assets.writes.rewriting`.

    Example:
        >>> Merge(soft_delete="is_deleted").soft_delete
        'is_deleted'
    """

    soft_delete: str | None = None
    partial: bool = False
    max_shrink: Share = 0.5
    rewrite: bool = field(default=True, repr=False)  # decides how a row comes to be there, not what it is

    bucketed: ClassVar[bool] = True
    truncates: ClassVar[bool] = True

    def validate(self, table_name: str, contract: Contract, changes: Changes, source: Source) -> None:
        """Check the soft delete's column."""
        name = self.soft_delete
        if name is None:
            return
        problem = f"{table_name}: write.soft_delete is {name!r}"
        if not name or name.startswith("_") or set(name) & set(" ,;{}()\n\t="):
            raise DeclarationError(
                problem,
                rule="it is the name of a column, and names that begin with an underscore are the loader's own",
                remedy='write Merge(soft_delete="is_deleted")',
            )
        if name.lower() in {column.lower() for column in contract.names}:
            raise DeclarationError(
                f"{problem}, which {contract.model_name} has, too",
                rule="the loader adds this column and fills it",
                remedy=f"take {name!r} out of {contract.model_name}, or name another column",
            )
        if changes.delete_when is None and not changes.empties:
            raise DeclarationError(
                f"{problem}, but nothing says which change deletes",
                rule="rows are marked whose newest change is a delete",
                remedy="add delete_when to changes, or drop soft_delete",
            )

    @property
    def sets_named_columns(self) -> bool:
        """Where changes are declared partial."""
        return self.partial

    def by_column(self, changes: Changes) -> bool:
        """Where changes are partial, or hold unavailable values."""
        return self.partial or changes.unavailable is not None

    def reads_windows(self, changes: Changes) -> bool:
        """Where the newest change of a key is its row."""
        return self.soft_delete is None and not self.by_column(changes)

    def schema(self, contract: Contract, changes: Changes) -> T.StructType:
        """The contract's columns, and that of the soft delete."""
        if self.soft_delete is None:
            return contract.schema
        comment = {"comment": "Whether the row is deleted at its source"}
        return T.StructType([*contract.schema.fields, T.StructField(self.soft_delete, T.BooleanType(), True, comment)])

    def plan(self, load: LoadContext, at: ReadView, *, full: bool) -> MergePlan:
        """The newest change of each key, or of each of its columns.

        See :mod:`incload_assets.writes.row_fold` and :mod:`incload_assets.writes.column_fold`.
        """
        changes = load.table.changes
        concerns_all = changes.empties and (full or at.empties or at.replaced)
        if self.reads_windows(changes) and not concerns_all:
            return fold_plan(load, at, full=full)
        return column_plan(load, at, soft_delete=self.soft_delete)

    @property
    def compacts(self) -> bool:
        """Of a key, only what is newest in one respect or another decides."""
        return True

    def decisive(self, table: Table, changes: DataFrame, controls: Mapping[Window, WindowRecord]) -> DataFrame:
        """The newest change of each key; truncates; and where older ones may show, as follows.

        A soft-deleted row has the values of its newest upsert. A row that is made column by column has those of the
        newest change that sets each column, since the newest deletion; of a soft-deleted one, since the newest deletion
        before any of its upserts, which may be yet to come. Where a row may get a new key, what it was under the old
        one may be asked for as of any time: of such a table only repetitions go.
        """
        key, order = Over.partitionBy(*map(col, table.identity)), F.col("_order")
        is_delete, is_upsert = F.col("_kind") == DELETE, F.col("_kind").isin(*UPSERTS)
        kinds = [is_upsert, is_delete] if self.soft_delete or table.by_column else [is_upsert | is_delete]
        kinds += [is_upsert & sets(name) for name in table.columns] if table.by_column else []
        newest = [order.eqNullSafe(F.max(F.when(kind, order)).over(key)) & kind for kind in kinds]
        if self.soft_delete and table.by_column:
            newest.append(is_delete)
        if table.changes.moved_when:
            newest.append(F.lit(True))
        same = [*map(col, table.identity), *map(F.col, ["_kind", "_order", *(["_unset"] if table.by_column else [])])]
        first = F.row_number().over(Over.partitionBy(*same).orderBy("_window", "_source")) == 1
        ordered = changes.alias("log").withColumn("_order", log_order(table))
        kept = ordered.withColumns({"_decides": any_of(newest), "_first": first})
        return kept.filter((F.col("_decides") & F.col("_first")) | F.col("_kind").isin(*EMPTIES)).select(
            *map(col, changes.columns)
        )

    def guard(self, load: LoadContext, ingestion: Ingestion, facts: Facts) -> None:
        """Stop a snapshot that is suddenly small."""
        guard_snapshots(load, ingestion.window, facts.extracts, self.max_shrink, self.soft_delete)

    def apply(self, load: LoadContext, at: ReadView, plan: MergePlan) -> Merged | None:
        """One fenced MERGE, or one fenced rewrite of a partition."""
        return rewrite(load, at, plan) if self.rewrite and pays(at) else merge(load, at, plan)
