"""Tokenized and encrypted values, turned into what they stand for again."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incload_assets.contract.protection import Encrypted, Sealed, Tokenized
from incload_assets.declaration.table import Table
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.lake import Lake
from incload_assets.platform.protection_keys import protection_key
from incload_assets.platform.sql import col
from incload_assets.protection.person_keys import ID, PERSON, SECRET, stored_keys
from incload_assets.protection.tokens import opened_column, person_id_in, with_keys, without_keys

_ID = "_id_in_value"


def sealed_columns(table: Table) -> list[str]:
    """The columns of a table whose values can be turned back.

    Raises:
        IncrementalLoadError: There are none.
    """
    found = [name for name, each in table.contract.protections.items() if isinstance(each, Sealed)]
    if not found:
        raise IncrementalLoadError(
            f"{table.name} has no tokenized or encrypted column",
            rule="values that are hashed, masked or dropped cannot be turned back",
            remedy="ask the source of the table",
        )
    return found


def revealed(rows: DataFrame, table: Table, lake: Lake) -> DataFrame:
    """Rows of a table with tokenized and encrypted values in clear.

    Of a person whose key was deleted, encrypted values are NULL; so are values under a former key.

    Args:
        rows: Rows with all columns of the table.
        table: The declaration.
        lake: The lake with the keys of persons.

    Raises:
        SourceUnreadable: A key is missing.
        IncrementalLoadError: The table has no such column.

    Example:
        >>> revealed(spark.read.format("delta").load(path), customers, lake).select("email")  # doctest: +SKIP
    """
    protections = {name: table.contract.protections[name] for name in sealed_columns(table)}
    keys = {each.key: protection_key(each.key) for each in protections.values() if isinstance(each, Sealed)}
    made = with_keys(rows, keys)
    for name, each in protections.items():
        if isinstance(each, Tokenized):
            made = made.withColumn(name, opened_column(each.key, col(name)))
        elif isinstance(each, Encrypted):
            assert table.subject is not None
            stored = stored_keys(rows.sparkSession, lake, table.subject.kind).drop(PERSON)
            made = made.withColumn(_ID, person_id_in(col(name))).join(stored, F.col(_ID) == F.col(ID), "left")
            made = made.withColumn(name, opened_column(each.key, col(name), F.col(SECRET))).drop(_ID, ID, SECRET)
    return without_keys(made)
