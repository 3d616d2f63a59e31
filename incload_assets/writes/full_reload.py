"""FullReload: the table has the rows of the newest window, for small tables that are loaded in full each time."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incload_assets.change_log.change import UPSERT
from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.read_view import ReadView
from incload_assets.change_log.window_records import WindowRecord
from incload_assets.contract.contract import Contract
from incload_assets.declaration.changes import Changes
from incload_assets.declaration.field_types import Share
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import Window
from incload_assets.ingest.facts import Facts
from incload_assets.ingest.ingestion import Ingestion
from incload_assets.platform.sql import col
from incload_assets.platform.wording import share
from incload_assets.writes.plan import Merged, MergePlan, entry
from incload_assets.writes.replace_where import content_plan, replace_content
from incload_assets.writes.shrinkage import guard_shrinkage, ingested_windows
from incload_assets.writes.strategy import Strategy


@dataclass(frozen=True, kw_only=True)
class FullReload(Strategy):
    """Replaces the whole table by the newest window, which contains all rows: for small tables.

    The table has exactly the accepted rows of the newest window that was ingested, in the order of windows, not of
    loads: an older window that is loaded later changes nothing, and its rows count as stale. Keys and sequence are not
    needed and have no effect; a row that occurs twice stays twice. NULLs are ordinary values, and quarantined rows are
    not in the table. The replacement is one commit; if no row differs, nothing is written.

    A full extract that is empty or suddenly small is stopped before it replaces anything. An empty one is accepted as
    long as there are no rows to lose.

    Args:
        max_shrink: Largest share of its rows, 0 to 1, that a full extract may lack of the one before it.

    Example:
        >>> FullReload(max_shrink=0.1).deletes
        False
    """

    max_shrink: Share = 0.5

    keyed: ClassVar[bool] = False
    ordered: ClassVar[bool] = False
    deletes: ClassVar[bool] = False
    ranges: ClassVar[bool] = False
    supersedes: ClassVar[bool] = True
    whole: ClassVar[bool] = True

    def explained(self, changes: Changes) -> list[str]:
        """Sentences for people; see :meth:`Write.explained`."""
        return [
            "The table has exactly the accepted rows of the newest window that is loaded, and all others are gone; an "
            "older window that is loaded later changes nothing.",
            "Keys and sequence have no effect: a row that occurs twice stands twice.",
            "A window that is empty, or lacks more than "
            f"{share(self.max_shrink)} of the rows of the one before it, stops before it replaces anything.",
        ]

    def marked(self, contract: Contract, changes: Changes) -> tuple[str, ...]:
        """No columns, because all rows are compared."""
        return ()

    def guard(self, load: LoadContext, ingestion: Ingestion, facts: Facts) -> None:
        """Stops a full extract that is suddenly small."""
        guard_shrinkage(load, ingestion, facts, self.max_shrink)

    def reads_windows(self, changes: Changes) -> bool:
        """Always, because a plan reads only whole windows."""
        return True

    def plan(self, load: LoadContext, at: ReadView, *, full: bool) -> MergePlan:
        """The merge plan: all rows of the newest window, compared with all rows of the table."""
        table, (mine,) = load.table, at.records
        newest = ingested_windows(load, at.log_version)[-1].key
        rows = self._rows(load, at, newest).withColumn("_window", F.lit(mine))
        present = load.rows(at).withColumn("_window", F.lit(mine))
        plan = content_plan(table, rows, present, in_effect=newest == mine)
        if newest == mine:
            return plan
        stale = self._rows(load, at, mine).select(*entry(F.lit(mine), stale=F.lit(1)))
        ledger = plan.ledger.unionByName(stale)
        return MergePlan(plan.actions, plan.identity, plan.valid, ledger, plan.match)

    @property
    def compacts(self) -> bool:
        """Always, because the table depends only on the newest full extract."""
        return True

    def decisive(self, table: Table, changes: DataFrame, records: Mapping[Window, WindowRecord]) -> DataFrame:
        """The rows of the newest full extract."""
        return changes.filter(F.col("_window") == max(records).key)

    def apply(self, load: LoadContext, at: ReadView, plan: MergePlan) -> Merged | None:
        """Executes the plan in one fenced overwrite."""
        newest = ingested_windows(load, at.log_version)[-1].key
        return replace_content(load, at, plan, self._rows(load, at, newest))

    def _rows(self, load: LoadContext, at: ReadView, window: str) -> DataFrame:
        rows = load.log.read(load.spark, at.log_version, [window]).filter(F.col("_kind") == UPSERT)
        return rows.select(*(col(name) for name in load.table.columns))
