"""Conditions that Spark cannot work out: it knows the names of functions and the types, and sees each row.

Nobody asks beforehand, which would cost every load a question; a load that failed asks whether a condition was why.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pyspark.sql.types as T
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incload_assets.loading.conditions import CONDITIONS
from incload_assets.loading.declaration import Table
from incload_assets.loading.errors import DeclarationError
from incload_assets.loading.judging import fields_of


@contextmanager
def conditions_told(extracted: DataFrame, table: Table, window: str) -> Iterator[None]:
    """What Spark says inside of a condition becomes an error that names the condition, and no value.

    Args:
        extracted: Of the source.
        table: The declaration.
        window: Partition key, for the message.

    Raises:
        DeclarationError: A condition cannot be worked out.
    """
    try:
        yield
    except PySparkException:
        for field in CONDITIONS:
            condition = getattr(table.changes, field)
            if condition is not None and (broken := _broken(fields_of(extracted, table), condition)):
                raise DeclarationError(
                    f"{table.name} {window}: changes.{field} is {condition!r}: {broken}",
                    rule="it is a SQL condition on the source's columns, true or false for every row they may hold",
                    remedy="correct it; a column that the contract does not have is a text, compare it with one; "
                    "try_cast gives NULL where a value does not fit",
                ) from None  # Spark's own words may quote a value
        raise


def _broken(fields: DataFrame, condition: str) -> str | None:
    """What is wrong with a condition, None if nothing is."""
    try:
        held = fields.select(F.expr(condition).alias("held"))
        kind = held.schema["held"].dataType
    except PySparkException as error:
        return f"Spark does not understand it ({_name_of(error)})"
    if not isinstance(kind, T.BooleanType):
        return f"it is {kind.simpleString()}, neither true nor false"
    try:
        held.filter("held").count()
    except PySparkException as error:
        return f"it cannot be worked out for a row ({_name_of(error)})"
    return None


def _name_of(error: PySparkException) -> str:
    return error.getCondition() or type(error).__name__
