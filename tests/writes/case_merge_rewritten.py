"""Merge of events of one day, whose partition every load writes again, whatever that costs."""

from dataclasses import dataclass

from incload_assets.assets import Merge
from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.read_view import ReadView
from incload_assets.writes import merge
from incload_assets.writes.plan import Merged, MergePlan
from tests.support.tables import DatedItem, day
from tests.writes.case import Case, Content, crowds
from tests.writes.case_merge_partitioned import newest_by_day


@dataclass(frozen=True, kw_only=True)
class Rewritten(Merge):
    """Rewrites where a load touches one partition; where it touches none, there is nothing to write again."""

    def apply(self, load: LoadContext, at: ReadView, plan: MergePlan) -> Merged | None:
        """One fenced rewrite, whatever the plan is made of."""
        if at.partitions and len(at.partitions) == 1:
            return merge.rewrite(load, at, plan)
        return super().apply(load, at, plan)


def of_one_day(content: Content) -> Content:
    """All events are of one day."""
    return {window: [{**record, "day": day(1)} for record in records] for window, records in content.items()}


MERGE_REWRITTEN = Case(
    "merge_rewritten",
    Rewritten(partition_by="day"),
    newest_by_day,
    columns=("id", "value", "seq", "day"),
    contract=DatedItem,
    contents=crowds().map(of_one_day),
)
