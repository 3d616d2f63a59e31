"""The columns that a change sets, for tables whose changes may leave columns unset.

The typed row does not show this, because a NULL of the source and an absent field are both NULL there. So the fields
are taken from the record before it is typed, and carried through the author's function.
"""

from collections.abc import Callable, Mapping

import pyspark.sql.types as T
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incload_assets.contract.contract import not_null
from incload_assets.declaration.source import PRESENT
from incload_assets.declaration.table import Table
from incload_assets.platform.sql import col

Raw = Callable[[str], Column]
"""A function from the name of a source field to its column."""


def known(raw: Raw, raw_types: Mapping[str, T.DataType], table: Table) -> Raw:
    """The same fields, with NULL instead of the text that represents an unavailable value."""
    if table.changes.unavailable is None:
        return raw
    marked = {name: _is_marked(name, raw, raw_types, table) for name in raw_types}
    return lambda name: F.when(~marked[name], raw(name))


def set_by_record(extracted: DataFrame, raw: Raw, raw_types: Mapping[str, T.DataType], table: Table) -> list[Column]:
    """Columns for the function to carry: ``_named``, the record's fields; ``_unavailable``, fields without a value."""
    unavailable = [
        F.when(_is_marked(name, raw, raw_types, table), F.lit(name)) for name in table.columns if name in raw_types
    ]
    named = F.col(PRESENT) if PRESENT in extracted.columns else F.lit(None).cast("array<string>")
    return [named.alias("_named"), not_null(*unavailable).alias("_unavailable")]


def unset(record: Column, table: Table) -> Column:
    """``array<string>``: the columns without a value that are absent from the record, or unavailable in it.

    A column that the function computes is set if the function gives it a value. If changes are whole rows except for
    unavailable values, an absent field is NULL as in any whole row, unless it may be computed from an unavailable one.
    """
    unavailable = record.getField("_unavailable")
    named = record.getField("_named")
    partial = F.lit(True) if table.write.sets_named_columns else F.size(unavailable) > 0

    def is_unset(name: str) -> Column:
        unnamed = ~F.coalesce(F.array_contains(named, name), F.lit(True))
        return col(name).isNull() & (F.array_contains(unavailable, name) | (unnamed & partial))

    return not_null(*(F.when(is_unset(name), F.lit(name)) for name in table.columns))


def _is_marked(name: str, raw: Raw, raw_types: Mapping[str, T.DataType], table: Table) -> Column:
    marker = table.changes.unavailable
    if marker is None or not isinstance(raw_types[name], T.StringType):
        return F.lit(False)
    return raw(name).eqNullSafe(F.lit(marker))
