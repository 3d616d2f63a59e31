"""Beliefs: the versions of a history with the time during which they were known, ``[known_from, known_to)``.

The versions that the log makes now are compared with the rows that are still believed, whose ``known_to`` is NULL. What
no longer holds is closed at the merge's instant, and what is new is opened there; nothing else is changed. So what was
known at an earlier instant stays as it was. A belief that was opened at the same instant, by an earlier attempt of the
same landing, is corrected in place, as its period would be empty.

See :mod:`incload_assets.change_log.known_at` for the instants.
"""

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incload_assets.declaration.table import Table
from incload_assets.platform.sql import col, quoted


@dataclass(frozen=True)
class Beliefs:
    """The columns that make a version a belief: its period, and whether it is still believed."""

    known_from: str
    known_to: str
    is_known: str

    @property
    def names(self) -> tuple[str, ...]:
        """The three columns."""
        return (self.known_from, self.known_to, self.is_known)

    @property
    def open_sql(self) -> str:
        """SQL over ``t``, the table's row: whether it is still believed. Delta skips all other files by it."""
        return f"t.{quoted(self.is_known)} = true"

    def actions(self, compared: DataFrame, table: Table, is_current: str, instant: int) -> DataFrame:
        """The actions on beliefs, from those on versions: ``_before`` is the belief of each version that has one.

        Actions have ``known_from``, which tells the two actions on a version that is corrected apart.
        """
        at = F.timestamp_micros(F.lit(instant))
        nothing, began = F.lit(None).cast("timestamp"), F.col("_before").getField(self.known_from)
        is_at_once = F.coalesce(began >= at, F.lit(False))
        opened = self._row(table, "_row", {self.known_from: F.when(is_at_once, began).otherwise(at),
                                           self.known_to: nothing, self.is_known: F.lit(True)})  # fmt: skip
        closed = self._row(table, "_before", {self.known_from: began, self.known_to: at,
                                              self.is_known: F.lit(False), is_current: F.lit(False)})  # fmt: skip
        action = F.col("_action")

        def does(what: str, row: Column, known_from: Column) -> Column:
            return F.struct(
                F.lit(what).alias("_action"), row.alias("_row"), known_from.cast("timestamp").alias(self.known_from)
            )

        kept = F.struct(action.alias("_action"), opened.alias("_row"), began.alias(self.known_from))
        close, opens = does("update", closed, began), does("insert", opened, at)
        several = (
            F.when(action == "insert", F.array(opens))
            .when((action == "delete") & ~is_at_once, F.array(close))
            .when((action == "update") & ~is_at_once, F.array(close, opens))
            .otherwise(F.array(kept))
        )
        others = [name for name in compared.columns if name not in ("_action", "_row", "_before")]
        return compared.select(*map(col, others), F.inline(several))

    def _row(self, table: Table, of: str, own: dict[str, Column]) -> Column:
        values = ((f.name, own.get(f.name, F.col(of).getField(f.name)), f.dataType) for f in table.schema.fields)
        return F.struct(*(value.cast(kind).alias(name) for name, value, kind in values))
