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

    A strategy computes which rows the table should have for the keys (or the scope) that some ingested windows concern,
    as a :class:`~incload_assets.writes.plan.MergePlan` against the rows that the table has. The plan depends only on
    the content of log and table, never on the order in which the content was written: so whatever the order of loads,
    the table is the same.
    """

    def decisive(self, table: Table, changes: DataFrame, controls: Mapping[Window, WindowRecord]) -> DataFrame:
        """Those changes of some windows without which the table could become another one.

        Changes of other windows may come, and go again; so nothing may be left out because of them.

        Args:
            table: The declaration.
            changes: Rows of the log: all changes of the windows.
            controls: The windows, oldest first, with their control rows.
        """
        return changes

    def guard(self, load: LoadContext, ingestion: Ingestion, facts: Facts) -> None:
        """Look at what is about to be ingested.

        Raises:
            ContractViolation: It must not be; the log keeps its old rows.
        """

    @abstractmethod
    def plan(self, load: LoadContext, at: ReadView, *, full: bool) -> MergePlan:
        """What the table needs for the windows of a snapshot.

        Args:
            load: Of the load.
            at: The versions to read, and the windows (``at.controls``).
            full: Take nothing from the table's present rows on trust.
        """

    @abstractmethod
    def apply(self, load: LoadContext, at: ReadView, plan: MergePlan) -> Merged | None:
        """Carry a plan out in one commit that carries the fence of the snapshot, also when there is nothing to do.

        Returns:
            The rows changed, or None if another load committed first and the plan has to be made anew.
        """


def strategy_of(table: Table) -> Strategy:
    """The write strategy of a table."""
    assert isinstance(table.write, Strategy), f"{table.name}: {type(table.write).__name__} cannot be executed"
    return table.write
