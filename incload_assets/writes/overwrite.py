"""Overwrite: each window replaces its partition of the table."""

from dataclasses import dataclass
from typing import ClassVar

import dagster as dg
import pyspark.sql.types as T
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incload_assets.change_log.change import UPSERT
from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.read_view import ReadView
from incload_assets.contract.contract import Contract, reason
from incload_assets.declaration.changes import Changes
from incload_assets.declaration.source import Source
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import Window
from incload_assets.declaration.window_rules import check_whole_days, inside_sql
from incload_assets.platform.errors import DeclarationError
from incload_assets.platform.sql import col, literal, quoted
from incload_assets.writes.plan import Merged, MergePlan
from incload_assets.writes.replace_where import content_plan, replace_content
from incload_assets.writes.strategy import Strategy


@dataclass(frozen=True, kw_only=True)
class Overwrite(Strategy):
    """Atomically replaces the rows of a window by the source's present rows.

    The partition column determines the window of a row: a date or an instant is in the window, in the time zone of the
    partitions definition; a string is the partition key. A row of another window is quarantined, and so is a row
    without a value in this column. Nothing else matters: keys and sequence are not needed, and a row that occurs twice
    stays twice. A window that has become empty empties its partition. Windows load in parallel.

    Args:
        partition_by: Column that partitions the table; of type date, timestamp (few values per window: each is a
            partition of its own) or string.

    Example:
        >>> Overwrite(partition_by="day").serialized
        False
    """

    keyed: ClassVar[bool] = False
    ordered: ClassVar[bool] = False
    deletes: ClassVar[bool] = False
    adoptable: ClassVar[bool] = True
    reads_base: ClassVar[bool] = False

    def validate(self, table_name: str, contract: Contract, changes: Changes, source: Source) -> None:
        """Checks that there is a partition column, and that its type determines the window."""
        if self.partition_by is None:
            raise DeclarationError(
                f"{table_name}: write is Overwrite() without partition_by",
                rule="a window replaces its partition, so the table is partitioned by a column of the contract",
                remedy='write Overwrite(partition_by="day"), or FullReload() to replace the whole table',
            )
        kind = contract.type_of(self.partition_by)
        if not isinstance(kind, T.DateType | T.TimestampType | T.StringType):
            raise DeclarationError(
                f"{table_name}: write.partition_by names {self.partition_by!r} of type {kind.simpleString()}",
                rule="a row's window is determined by a date, a timestamp, or a string that is the partition key",
                remedy="fill a column of one of these types in the table's function, and name it",
            )

    def validate_windows(
        self, table_name: str, contract: Contract, partitions_def: dg.TimeWindowPartitionsDefinition
    ) -> None:
        """Checks that windows are whole days if the partition column is a date."""
        assert self.partition_by is not None
        if isinstance(contract.type_of(self.partition_by), T.DateType):
            check_whole_days(table_name, "write.partition_by", self.partition_by, partitions_def)

    def explained(self, changes: Changes) -> list[str]:
        """Sentences for people; see :meth:`Write.explained`."""
        return [
            f"Each window replaces the rows whose {self.partition_by} lies in it by the rows that the source "
            "has now: what "
            "the source no longer has is deleted, and an empty window empties its part of the table.",
            f"A row is quarantined if its {self.partition_by} lies in another window, or is NULL.",
            "Keys and sequence have no effect: a row that occurs twice stands twice.",
        ]

    def marked(self, contract: Contract, changes: Changes) -> tuple[str, ...]:
        """No columns, because all rows of the partition are compared."""
        return ()

    def reasons(
        self, contract: Contract, partitions_def: dg.TimeWindowPartitionsDefinition, window: Window
    ) -> list[Column]:
        """The reason for rows that belong to another window."""
        assert self.partition_by is not None
        [field] = [field for field in contract.fields if field.name == self.partition_by]
        value = col(self.partition_by).cast("string")
        inside = F.expr(_inside_sql(self.partition_by, contract, window))
        text = reason(field, value, f"does not lie in the window {window.key}")
        return [F.when(~inside, text)]

    def reads_windows(self, changes: Changes) -> bool:
        """Always, because a plan reads only its own windows."""
        return True

    def plan(self, load: LoadContext, at: ReadView, *, full: bool) -> MergePlan:
        """The merge plan: the accepted rows of the windows, compared with the rows of their partitions."""
        table = load.table
        present = load.rows(at).filter(_part(table, at))
        inside = [F.when(F.expr(_inside(table, window)), window.key) for window in _windows(table, at)]
        return content_plan(table, _wanted(load, at), present.withColumn("_window", F.coalesce(*inside)))

    def apply(self, load: LoadContext, at: ReadView, plan: MergePlan) -> Merged | None:
        """Executes the plan in one fenced ``replaceWhere``."""
        return replace_content(load, at, plan, _wanted(load, at), _part(load.table, at))


def _wanted(load: LoadContext, at: ReadView) -> DataFrame:
    return load.window_changes(at).filter(F.col("_window").isin(*at.records) & (F.col("_kind") == UPSERT))


def _windows(table: Table, at: ReadView) -> list[Window]:
    return table.known_windows(at.records)


def _part(table: Table, at: ReadView) -> str:
    """SQL condition for the table's rows that belong to the windows of a read view."""
    return " OR ".join(f"({_inside(table, window)})" for window in _windows(table, at))


def _inside(table: Table, window: Window) -> str:
    assert table.write.partition_by is not None
    return _inside_sql(table.write.partition_by, table.contract, window)


def _inside_sql(column: str, contract: Contract, window: Window) -> str:
    """SQL condition, with literals, for rows that belong to a window by their value of a column."""
    kind = contract.type_of(column)
    if isinstance(kind, T.StringType):
        return f"{quoted(column)} = {literal(window.key)}"
    return inside_sql(column, kind, window.start, window.end, str(window.zone))
