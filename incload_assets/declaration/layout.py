"""Where a row of a table is stored: its partition or hash bucket, and which values a partition can have.

Delta names a partition's folder after its value, and keeps the value as text in its log. Not every value is found again
there, or can be the name of a folder at all; a row with such a value would stop the load of its window.
"""

from collections.abc import Collection

import pyspark.sql.types as T
from pyspark.sql import Column
from pyspark.sql import functions as F

from incload_assets.contract.contract import reason
from incload_assets.contract.model import Field
from incload_assets.declaration.table import Table
from incload_assets.declaration.write import BUCKET
from incload_assets.delta.sql import col, literal, quoted

LONGEST_NAME = 255
"""Bytes of a folder's name, as most file systems have it. An object store allows more, but a table may be moved."""
_ESCAPED = "".join(map(chr, range(1, 32))) + "\"#%'*/:=?\\\x7f{[]^"
"""Each is three bytes in the name of a folder: see ``escapePathName`` in Spark's ``ExternalCatalogUtils``."""

_DATED = (T.DateType, T.TimestampType, T.TimestampNTZType)


def misplaced(field: Field) -> list[Column]:
    """Reasons (string, NULL if fine) why a row cannot be put into a partition; of a NULL nothing is said.

    Args:
        field: The column that the table is partitioned by.
    """
    value = col(field.name)
    if isinstance(field.data_type, T.StringType):
        nul = value.contains("\0")
        printable = F.replace(value, F.lit("\0"), F.lit("\\0"))
        return [
            F.when(condition, reason(field, printable, f"cannot be the value of a partition{why}"))
            for condition, why in (
                (
                    value.isin("", "__HIVE_DEFAULT_PARTITION__"),
                    ": Delta cannot tell it from NULL there; write another text for it in the table's function",
                ),
                (nul, ": no folder has the character NUL in its name"),
                (~nul & _is_too_long(field.name, value), f": its folder's name would exceed {LONGEST_NAME} bytes"),
            )
        ]
    if isinstance(field.data_type, _DATED):
        # Spark, Delta's log and its other readers spell other years each in their own way
        text = "cannot be the value of a partition: its year is not in 1..9999"
        return [F.when(~_has_common_year(value), reason(field, value.cast("string"), text))]
    return []


def ingested(field: Field) -> Column:
    """The value as the log keeps it, of a rejected row, too: from the range of a file other readers tell its years."""
    value = col(field.name)
    return F.when(_has_common_year(value), value).alias(field.name) if isinstance(field.data_type, _DATED) else value


def _has_common_year(value: Column) -> Column:
    return F.year(value).between(1, 9999)


def _is_too_long(name: str, value: Column) -> Column:
    room = LONGEST_NAME - len(f"{name}=".encode()) - 2 * sum(sign in _ESCAPED for sign in name)
    plain = F.octet_length(F.translate(value, _ESCAPED, ""))
    size = F.octet_length(value)
    return (size > room // 3) & (3 * size - 2 * plain > room)  # most values are too short for a closer look


_SAME_IN_DELTA = (T.DateType, T.StringType, T.IntegralType)


def bucket_sql(table: Table, alias: str = "") -> str | None:
    """SQL of the bucket of a row (int; NULL where its key has a NULL); None for a table without buckets."""
    if table.write.buckets is None:
        return None
    keys = [f"{alias}.{quoted(c)}" if alias else quoted(c) for c in table.changes.keys]
    bucket = f"CAST(pmod(xxhash64({', '.join(keys)}), {table.write.buckets}) AS INT)"
    return f"IF({' AND '.join(f'{key} IS NOT NULL' for key in keys)}, {bucket}, NULL)"


def place_sql(table: Table) -> str | None:
    """SQL of what an ingestion writes down of a change; None: it may concern any row of the table."""
    by = table.write.partition_by
    return quoted(by) if by is not None else bucket_sql(table)


def laid_out_by(table: Table) -> str | None:
    """The column whose values, as an ingestion writes them down, are the same as in Delta's own log of files."""
    if table.write.buckets is not None:
        return BUCKET
    by = table.write.partition_by
    return by if by is not None and isinstance(table.type_of(by), _SAME_IN_DELTA) else None


def touched_sql(table: Table, values: Collection[str] | None, alias: str = "") -> str | None:
    """SQL condition on rows of the table that selects some partitions or buckets; None where it would select all.

    The condition compares with literals, because Delta skips files by nothing else. The log is not laid out by buckets,
    so that a condition on buckets is for the table alone.

    Args:
        table: The declaration.
        values: Values of the partition column, or numbers of buckets, as strings; None: all.
        alias: Of the frame.
    """
    column = BUCKET if table.write.buckets is not None else table.write.partition_by
    if column is None or values is None:
        return None
    kind = "int" if column == BUCKET else table.type_of(column).simpleString()
    name = f"{alias}.{quoted(column)}" if alias else quoted(column)
    return f"{name} IN ({', '.join(f'CAST({literal(value)} AS {kind})' for value in values)})" if values else "false"
