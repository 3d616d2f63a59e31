"""The result of a table's function: the columns of its contract, and the record that is carried through it."""

from collections.abc import Callable
from typing import Any

import pyspark.sql.types as T
from pyspark.sql import DataFrame

from incload_assets.declaration.table import Table
from incload_assets.platform.errors import DeclarationError

RECORD = "_record"
"""The column that carries the raw record through the author's function."""


def returns_its_rows(function: Callable[[Any], Any]) -> bool:
    """True if a table's function returns its rows as they are, shown by a call with an object that can do nothing."""
    rows = object()
    try:
        return function(rows) is rows
    except Exception:  # any, as the function is its author's
        return False


def check_output(out: DataFrame, table: Table) -> None:
    """Refuses the output of a table's function if a column is missing, unknown or of another type."""
    if RECORD not in out.columns:
        raise DeclarationError(
            f"{table.name}: its function returns no column {RECORD!r}",
            rule="the raw record is carried through the function, so that the source of a rejected row is known",
            remedy="use withColumn, withColumns, withColumnRenamed or drop in the function; with select, add '*'",
        )
    returned = set(out.columns) - {RECORD, *table.control_fields}
    if missing := [name for name in table.columns if name not in returned]:
        raise DeclarationError(
            f"{table.name}: its function returns no column {', '.join(map(repr, missing))}",
            rule=f"the function returns the columns of {table.contract.model_name}",
            remedy="keep the column, or remove it from the contract",
        )
    if extra := sorted(returned - set(table.columns)):
        raise DeclarationError(
            f"{table.name}: its function returns {', '.join(map(repr, extra))}, unknown to {table.contract.model_name}",
            rule="the contract names every column of the table",
            remedy="add the column to the contract, or drop it in the function",
        )
    types = {field.name: field.dataType for field in out.schema.fields}
    for field in table.contract.fields:
        if types[field.name] != field.data_type and not _same_type(types[field.name], field.data_type):
            raise DeclarationError(
                f"{table.name}: its function returns {field.name!r} as {types[field.name].simpleString()}",
                rule=f"{table.contract.model_name} declares {field.data_type.simpleString()}",
                remedy=f"cast it in the function: F.col({field.name!r}).cast({field.data_type.simpleString()!r})",
            )


def _same_type(left: T.DataType, right: T.DataType) -> bool:
    """True if types are equal, ignoring the nullability of nested members, which expressions change freely."""
    return left.simpleString() == right.simpleString()
