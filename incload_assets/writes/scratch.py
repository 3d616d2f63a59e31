"""The merge of a load that only shows its effect: a frame of the rows that the table would have."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.read_view import ReadView
from incload_assets.change_log.scratch import Change
from incload_assets.declaration.layout import touched_sql
from incload_assets.writes.merge_into import fence_number
from incload_assets.writes.plan import PENDING, Merged, MergePlan
from incload_assets.writes.replace_where import joined, outcome

OWN = "_scratch_"
"""The prefix of the columns that a scratch adds to rows and actions."""
DOES = f"{OWN}does"
"""The effect of a merge on a row: insert, update or delete."""


def merge_into_scratch(load: LoadContext, at: ReadView, plan: MergePlan) -> Merged:
    """Executes a plan in the load's scratch, as :meth:`~incload_assets.writes.strategy.Strategy.apply` in the lake."""
    assert load.scratch is not None
    merged = load.scratch.merged
    by_key = plan.match != "false"
    if by_key:
        before = load.rows(at, near=True)
        both = joined(load, before, plan, OWN)
        changed = both.filter(F.col(DOES).isNotNull())
        others, near = _others(load, at), outcome(load, before.columns, both, OWN)
    else:  # the plan replaces a part by its content, so that no row is updated
        changed = plan.actions.filter(F.col("_action").isin(*PENDING)).withColumn(DOES, F.col("_action")).alias("s")
        others, near = None, plan.actions.filter(F.col("_action").isin("same", "insert")).select("_row.*")
    merged.others, merged.near, merged.fence = others, near, fence_number(at)
    merged.changes.append(Change(at, changed, by_key=by_key, has_id="_id" in plan.actions.columns))
    counts = {row[DOES]: row["count"] for row in changed.groupBy(DOES).count().head(len(PENDING))}
    return Merged(counts.get("insert", 0), counts.get("update", 0), counts.get("delete", 0))


def _others(load: LoadContext, at: ReadView) -> DataFrame | None:
    """The rows of the table in parts that the windows do not touch."""
    assert load.scratch is not None
    if load.scratch.merged.near is not None:
        return load.scratch.merged.others
    touched = touched_sql(load.table, at.partitions)
    return None if touched is None else load.rows(at).filter(~F.coalesce(F.expr(touched), F.lit(False)))
