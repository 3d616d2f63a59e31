"""Sums that the type of their column cannot hold."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException
from pyspark.sql import Column
from pyspark.sql import functions as F

from incload_assets.declaration.table import Table
from incload_assets.delta.sql import col
from resources.errors import ContractViolation

_TOLD = "a sum is beyond the type of column {}"


def sum_of(table: Table, name: str, alias: str) -> Column:
    """The sum of a column, as its type; an error that :func:`overflow_named` understands where that cannot hold it.

    Args:
        table: The declaration.
        name: Of the column.
        alias: Of the frame.
    """
    column, kind = col(name, alias), table.type_of(name)
    beyond = F.raise_error(F.lit(_TOLD.format(table.columns.index(name)))).cast(kind)
    return F.when(F.count(column) > 0, F.coalesce(F.try_sum(column).try_cast(kind), beyond))


@contextmanager
def overflow_named(table: Table, where: str) -> Iterator[None]:
    """What goes wrong inside because of such a sum says so.

    Args:
        table: The declaration.
        where: Table and partition, for the message.

    Raises:
        ContractViolation: A sum is too large.
    """
    try:
        yield
    except PySparkException as error:
        found = re.search(_TOLD.format(r"(\d+)"), str(error))
        if found is None:
            raise
        name = table.columns[int(found[1])]
        raise ContractViolation(
            f"{where}: the sum of {name!r} of a key is more than {table.type_of(name).simpleString()} holds",
            rule="a sum is kept as the type that the contract declares, and none is cut; nothing was applied",
            remedy=f"declare {name} in a wider type, for example T.DecimalType(38, 0), which an existing table takes "
            "under another name of the column or of the table",
        ) from None  # Spark's own words are of no use
