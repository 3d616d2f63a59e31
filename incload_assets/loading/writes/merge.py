"""Upsert by key, the newest change wins (slowly changing dimension type 1)."""

from dataclasses import dataclass

from incload_assets.loading.context import Context, Merged, Plan, Snapshot
from incload_assets.loading.folding import fold_plan
from incload_assets.loading.writes.base import Write
from incload_assets.loading.writes.merging import merge


@dataclass(frozen=True, kw_only=True)
class Merge(Write):
    """Upsert by key (slowly changing dimension type 1) with deletes.

    Args:
        partition_by: Column that partitions the table and is fixed for a row's whole life, deletes included (an event
            table: orders by order date). None: a state table, where any load may touch any row; its loads are
            serialized.
    """

    def plan(self, context: Context, at: Snapshot, *, full: bool) -> Plan:
        """The newest change of each key; see :mod:`incload_assets.loading.folding`."""
        return fold_plan(context, at, full=full)

    def apply(self, context: Context, at: Snapshot, plan: Plan) -> Merged | None:
        """One fenced MERGE."""
        return merge(context, at, plan)
