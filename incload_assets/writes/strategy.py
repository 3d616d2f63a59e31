"""The interface of a write strategy: how the changes in the log become rows of the table."""

from abc import ABC, abstractmethod
from collections.abc import Mapping

from pyspark.sql import DataFrame

from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.read_view import ReadView
from incload_assets.change_log.window_records import WindowRecord
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import Window
from incload_assets.declaration.write import Write
from incload_assets.ingest.facts import Facts
from incload_assets.ingest.ingestion import Ingestion
from incload_assets.writes.plan import Merged, MergePlan


class Strategy(Write, ABC):
    """A write strategy that the engine executes.

    It computes which rows the table should have for the keys (or the scope) affected by some ingested windows. The plan
    depends only on the content of log and table, never on the order in which the content was written. So loads in any
    order produce the same table.
    """

    def decisive(self, table: Table, changes: DataFrame, records: Mapping[Window, WindowRecord]) -> DataFrame:
        """The changes of some windows that the table depends on; compaction may remove the others from the log.

        Changes of other windows may come and go, so a change must not be omitted because of them. ``changes`` are all
        changes of the windows; ``controls`` has the windows oldest first.
        """
        return changes

    def guard(self, load: LoadContext, ingestion: Ingestion, facts: Facts) -> None:
        """Checks an ingestion before it is committed to the log; a ContractViolation leaves the log's old rows."""

    @abstractmethod
    def plan(self, load: LoadContext, at: ReadView, *, full: bool) -> MergePlan:
        """The merge plan for the windows of a read view; if ``full``, by the log alone, whatever rows the table has."""

    @abstractmethod
    def apply(self, load: LoadContext, at: ReadView, plan: MergePlan) -> Merged | None:
        """Executes a plan, even an empty one, in one fenced commit; None if another load committed first."""


def strategy_of(table: Table) -> Strategy:
    """The write strategy of a table."""
    assert isinstance(table.write, Strategy), f"{table.name}: {type(table.write).__name__} cannot be executed"
    return table.write
