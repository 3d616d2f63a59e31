"""Sums that overflow the type of their column."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pyspark.sql.types as T
from pyspark.errors import PySparkException
from pyspark.sql import Column
from pyspark.sql import functions as F

from incload_assets.declaration.table import Table
from incload_assets.platform.errors import ContractViolation
from incload_assets.platform.sql import col

_OVERFLOW = "a sum is beyond the type of column {}"


def sum_of(table: Table, name: str, alias: str) -> Column:
    """The sum of a column in the column's type. On overflow Spark raises an error that :func:`overflow_named` parses.

    Args:
        table: The declaration.
        name: Name of the column.
        alias: Alias of the frame.
    """
    column, kind = col(name, alias), table.type_of(name)
    beyond = F.raise_error(F.lit(_OVERFLOW.format(table.columns.index(name)))).cast(kind)
    return F.when(F.count(column) > 0, F.coalesce(F.try_sum(column).try_cast(kind), beyond))


@contextmanager
def overflow_named(table: Table, where: str) -> Iterator[None]:
    """Turns Spark's error for an overflowing sum in a block into one that names the column.

    Args:
        table: The declaration.
        where: Table and partition, for the message.

    Raises:
        ContractViolation: A sum overflows the type of its column.
    """
    try:
        yield
    except PySparkException as error:
        found = re.search(_OVERFLOW.format(r"(\d+)"), str(error))
        if found is None:
            raise
        name = table.columns[int(found[1])]
        kind = table.type_of(name)
        scale = kind.scale if isinstance(kind, T.DecimalType) else 0
        raise ContractViolation(
            f"{where}: the sum of {name!r} of a key is more than {kind.simpleString()} holds",
            rule="a sum is stored in the type that the contract declares, and never truncated; nothing was applied",
            remedy=f"declare {name} in a wider type, for example T.DecimalType(38, {scale}), and for an existing table "
            "evolution=Evolution(widen='apply')",
        ) from None  # Spark's message does not help
