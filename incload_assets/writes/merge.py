"""Merge: upsert by key, the newest change wins (slowly changing dimension type 1)."""

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
from incload_assets.ingest.facts import Facts
from incload_assets.ingest.full_extracts import guard_snapshots
from incload_assets.ingest.ingestion import Ingestion
from incload_assets.platform.errors import DeclarationError
from incload_assets.platform.sql import any_of, col
from incload_assets.platform.wording import share
from incload_assets.writes.column_fold import column_plan
from incload_assets.writes.merge_into import merge
from incload_assets.writes.plan import Merged, MergePlan
from incload_assets.writes.replace_where import pays, rewrite
from incload_assets.writes.row_fold import fold_plan
from incload_assets.writes.strategy import Strategy


@dataclass(frozen=True, kw_only=True)
class Merge(Strategy):
    """Upserts and deletes rows by key (slowly changing dimension type 1).

    The table has one row per key, with the values of its newest change, no matter in which order changes are loaded:

    - The change with the greater sequence is newer; NULL is older than any value. Of equal sequences a delete is newer
      than an upsert; between two upserts a hash of their content decides, repeatably but without meaning.
    - A change with a NULL in its key is quarantined, and so is a change without ``partition_by``'s value.
    - A delete removes the row, and is remembered: an older change that arrives later does not restore the row, a newer
      one does. A delete of a key without a row changes nothing.
    - With ``soft_delete`` a deleted row stays, with the values of its newest upsert, the sequence of the delete, and
      true in that column. A key that was only ever deleted has no row, because it has no values that the contract would
      accept. If its upsert arrives late, the row appears as deleted. A newer upsert revives a row.
    - With ``partial`` (or ``Changes(unavailable=...)``) each column has the value of the newest change that sets it,
      and the row has the sequence of the newest change. A deletion discards the key's values: none of them reappears
      when the key is inserted again. As long as a column that the contract requires has not been set, the table has no
      row; its changes count as waiting, and the row appears with the change that completes it, even a late one. A row
      that got a new key (``Changes(moved_when=...)``) waits in the same way for its values under the old key.
    - A truncate (``Changes(truncate_when=...)``) deletes the rows whose sequence is smaller than its own, as if each of
      their keys were deleted at that moment; rows of an equal sequence stay. A truncate without a sequence is
      quarantined.
    - A full extract (``Changes(snapshot_when=...)``) is a truncate with rows, all at one sequence: changes before and
      after it may arrive in any order. See :mod:`incload_assets.ingest.full_extracts`.

    Plain merges usually read only new changes, and the deletes in the log. With ``soft_delete``, ``partial`` or
    ``unavailable`` a load reads all changes of its keys in the log. A load with a truncate or a full extract reads the
    changes of all keys.

    Args:
        partition_by: Column that partitions the table and never changes for a row, not even in its delete (an event
            table: orders by order date). None: a state table, where any load may touch any row; its loads are
            serialized.
        buckets: Number of hash buckets of its keys that a state table is divided into; None: not divided. See
            :class:`~incload_assets.declaration.write.Write`.
        soft_delete: Name of a boolean column that is added to the contract's columns: whether the row is deleted. None:
            deleted rows are removed from the table.
        partial: Whether a change sets only the columns that its record has (in JSON, null is a value; a CSV or Parquet
            file has the columns of its header). A column that the function computes is set if it is not NULL.
        max_shrink: Largest share of the table's rows, 0 to 1, that a full extract may lack.
        rewrite: Whether a partition may be replaced as a whole in one commit if a large share of its rows changes and
            this is faster than a MERGE; the table is the same. See :mod:`incload_assets.writes.replace_where`.

    Example:
        >>> Merge(soft_delete="is_deleted").soft_delete
        'is_deleted'
    """

    soft_delete: str | None = None
    partial: bool = False
    max_shrink: Share = 0.5
    rewrite: bool = field(default=True, repr=False)  # affects how a row is written, not its content

    bucketed: ClassVar[bool] = True
    moves: ClassVar[bool] = True
    truncates: ClassVar[bool] = True
    adoptable: ClassVar[bool] = True

    def validate(self, table_name: str, contract: Contract, changes: Changes, source: Source) -> None:
        """Checks the column of ``soft_delete``."""
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
                f"{problem}, which {contract.model_name} also has",
                rule="the loader adds this column and fills it",
                remedy=f"remove {name!r} from {contract.model_name}, or name another column",
            )
        if changes.delete_when is None and not changes.empties:
            raise DeclarationError(
                f"{problem}, but nothing declares which changes are deletes",
                rule="a row is marked if its newest change is a delete",
                remedy="add delete_when to changes, or drop soft_delete",
            )

    def explained(self, changes: Changes) -> list[str]:
        """Sentences for people; see :meth:`Write.explained`."""
        keys = ", ".join(changes.keys)
        said = [f"The table has one row per {keys}: its newest change, in whatever order changes are loaded."]
        if self.by_column(changes):
            said = [
                f"The table has one row per {keys}: each column has the value of the newest change that sets it, in "
                "whatever order changes are loaded.",
                "A row waits until a change has set each column that the contract requires.",
            ]
        said.append(self._newer(changes))
        if changes.delete_when and self.soft_delete:
            said.append(f"A change with {changes.delete_when} deletes: the row stays, with true in {self.soft_delete}.")
        elif changes.delete_when:
            said.append(f"A change with {changes.delete_when} deletes the row.")
        else:
            said.append("No change deletes the row of its key: there is no delete_when.")
        if changes.delete_when:
            said.append("An older change that arrives later does not restore a deleted row; a newer one does.")
        if changes.truncate_when:
            said.append(
                f"A change with {changes.truncate_when} deletes all rows of a smaller {changes.sequence_by[0]}."
            )
        if changes.snapshot_when:
            said.append(
                f"Rows with {changes.snapshot_when} are a full extract: it deletes the older rows that it "
                "lacks, and stops "
                f"if that is more than {share(self.max_shrink)} of the table."
            )
        return said

    @property
    def sets_named_columns(self) -> bool:
        """True if changes are declared partial."""
        return self.partial

    def by_column(self, changes: Changes) -> bool:
        """True if changes are partial, or can have unavailable values."""
        return self.partial or changes.unavailable is not None

    def reads_windows(self, changes: Changes) -> bool:
        """True if the newest change of a key is the whole row."""
        return self.soft_delete is None and not self.by_column(changes)

    def schema(self, contract: Contract, changes: Changes) -> T.StructType:
        """The contract's columns, and the ``soft_delete`` column."""
        if self.soft_delete is None:
            return contract.schema
        comment = {"comment": "Whether the row is deleted at its source"}
        return T.StructType([*contract.schema.fields, T.StructField(self.soft_delete, T.BooleanType(), True, comment)])

    def plan(self, load: LoadContext, at: ReadView, *, full: bool) -> MergePlan:
        """The merge plan by the newest change of each key, or of each of its columns."""
        changes = load.table.changes
        concerns_all = changes.empties and (full or at.empties or at.replaced)
        if self.reads_windows(changes) and not concerns_all:
            return fold_plan(load, at, full=full)
        return column_plan(load, at, soft_delete=self.soft_delete)

    @property
    def compacts(self) -> bool:
        """Always, because superseded changes of a key are not needed."""
        return True

    def decisive(self, table: Table, changes: DataFrame, records: Mapping[Window, WindowRecord]) -> DataFrame:
        """The newest change of each key, truncates, and older changes that the table may depend on.

        A soft-deleted row has the values of its newest upsert. A row folded by column has the values of the newest
        change that sets each column since the newest deletion. For a soft-deleted row this is the newest deletion
        before any of its upserts, which may still arrive, so all deletes are kept. If rows may get new keys, the values
        under an old key may be needed as of any time, so only repetitions are left out.
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
        """Stops a full extract that is suddenly small."""
        guard_snapshots(load, ingestion.window, facts.extracts, self.max_shrink, self.soft_delete)

    def apply(self, load: LoadContext, at: ReadView, plan: MergePlan) -> Merged | None:
        """Executes the plan in one fenced MERGE, or one fenced rewrite of a partition."""
        return rewrite(load, at, plan) if self.rewrite and pays(at) else merge(load, at, plan)
