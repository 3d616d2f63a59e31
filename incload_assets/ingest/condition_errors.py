"""Errors that name a condition which Spark cannot evaluate, found after a failure.

Conditions are not tried in advance, which would cost each load a query.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pyspark.sql.types as T
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incload_assets.declaration.conditions import CONDITIONS
from incload_assets.declaration.table import Table
from incload_assets.ingest.validate import fields_of
from incload_assets.platform.errors import DeclarationError

_OF_SQL = ("22", "42")
"""Classes of SQLSTATE: data exceptions, and syntax errors or unknown names."""


@contextmanager
def broken_condition_named(extracted: DataFrame, table: Table, window: str) -> Iterator[None]:
    """Turns Spark's errors in a condition into a DeclarationError that names the condition, and no value."""
    try:
        yield
    except PySparkException as error:
        told = {f"changes.{field}": getattr(table.changes, field) for field in CONDITIONS}
        told |= {f"write.{field}": condition for field, condition in table.write.conditions.items()}
        for place, condition in told.items() if _is_of_sql(error) else ():  # other errors come from the source
            if condition is not None and (broken := _broken(fields_of(extracted, table), condition)):
                raise DeclarationError(
                    f"{table.name} {window}: {place} is {condition!r}: {broken}",
                    rule="it is a SQL condition on the source's columns, true or false for every row they may hold",
                    remedy="correct it; a column that the contract does not have is a text, compare it with one; "
                    "try_cast gives NULL where a value does not fit",
                ) from None  # Spark's own text may quote a value
        raise


def _broken(fields: DataFrame, condition: str) -> str | None:
    """The fault of a condition; None if there is none, or if the source does not answer."""
    try:
        held = fields.select(F.expr(condition).alias("held"))
        kind = held.schema["held"].dataType
    except PySparkException as error:
        return f"Spark does not understand it ({error.getCondition()})" if _is_of_sql(error) else None
    if not isinstance(kind, T.BooleanType):
        return f"it is {kind.simpleString()}, neither true nor false"
    try:
        held.filter("held").count()
    except PySparkException as error:
        return f"it cannot be worked out for a row ({error.getCondition()})" if _is_of_sql(error) else None
    return None


def _is_of_sql(error: PySparkException) -> bool:
    """True if an error is about an expression, by the class of its SQLSTATE; sources report lost data as 22000."""
    state = error.getSqlState() or ""
    return state.startswith(_OF_SQL) and state != "22000"
