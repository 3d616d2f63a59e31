"""Physical layout of a table: partition or hash bucket of a row, and the values that a partition can have.

Delta names a partition's folder after its value, and stores the value as text in its log. Some values do not survive
that round trip, and some cannot be the name of a folder. A row with such a value would stop the load of its window.
"""

from collections.abc import Collection
from datetime import date
from math import ceil, gcd, log2
from typing import Any

import pyspark.sql.types as T
from pyspark.sql import Column
from pyspark.sql import functions as F

from incload_assets.contract.contract import reason
from incload_assets.contract.model import Field
from incload_assets.declaration.table import Table
from incload_assets.declaration.write import BUCKET
from incload_assets.platform.sql import col, literal, quoted

LONGEST_NAME = 255
"""Longest folder name in bytes on most file systems. Object stores allow more, but a table may be moved."""
_ESCAPED = "".join(map(chr, range(1, 32))) + "\"#%'*/:=?\\\x7f{[]^"
"""Characters that take three bytes in a folder's name: see ``escapePathName`` in Spark's ``ExternalCatalogUtils``."""

_DATED = (T.DateType, T.TimestampType, T.TimestampNTZType)


def misplaced(field: Field) -> list[Column]:
    """Reasons (string, NULL if fine) why a row cannot be stored in a partition by this column; NULL values are fine."""
    value = col(field.name)
    if isinstance(field.data_type, T.StringType):
        nul = value.contains("\0")
        printable = F.replace(value, F.lit("\0"), F.lit("\\0"))
        return [
            F.when(condition, reason(field, printable, f"cannot be the value of a partition{why}"))
            for condition, why in (
                (
                    value.isin("", "__HIVE_DEFAULT_PARTITION__"),
                    ": Delta cannot distinguish it from NULL there; replace it in the table's function",
                ),
                (nul, ": a folder's name cannot contain the character NUL"),
                (~nul & _is_too_long(field.name, value), f": its folder's name would exceed {LONGEST_NAME} bytes"),
            )
        ]
    if isinstance(field.data_type, _DATED):
        # Spark, Delta's log and other readers of Delta each spell years outside this range differently
        text = "cannot be the value of a partition: its year is not in 1..9999"
        return [F.when(~_has_common_year(value), reason(field, value.cast("string"), text))]
    return []


def ingested(field: Field) -> Column:
    """The value as the change log stores it, in rejected rows too: dates outside the years 1..9999 become NULL."""
    value = col(field.name)
    return F.when(_has_common_year(value), value).alias(field.name) if isinstance(field.data_type, _DATED) else value


def _has_common_year(value: Column) -> Column:
    return F.year(value).between(1, 9999)


def _is_too_long(name: str, value: Column) -> Column:
    room = LONGEST_NAME - len(f"{name}=".encode()) - 2 * sum(sign in _ESCAPED for sign in name)
    plain = F.octet_length(F.translate(value, _ESCAPED, ""))
    size = F.octet_length(value)
    return (size > room // 3) & (3 * size - 2 * plain > room)  # the cheap first test settles most values


BUCKET_BYTES, MOST_BUCKETS = 128 * 2**20, 256
"""The size of a bucket that is aimed at, and the most buckets that are advised."""


def buckets_for(size: int) -> int | None:
    """The number of buckets for so many bytes, a power of two; None if the table is better not divided."""
    if size <= 2 * BUCKET_BYTES:
        return None
    return int(min(2 ** ceil(log2(size / BUCKET_BYTES)), MOST_BUCKETS))


_SAME_IN_DELTA = (T.DateType, T.StringType, T.IntegralType)


def bucket_sql(table: Table, alias: str = "") -> str | None:
    """SQL of the bucket of a row (int; NULL where its key has a NULL); None for a table without buckets."""
    if table.write.divided_into is None:
        return None
    keys = [f"{alias}.{quoted(c)}" if alias else quoted(c) for c in table.changes.keys]
    bucket = f"CAST(pmod(xxhash64({', '.join(keys)}), {table.write.divided_into}) AS INT)"
    return f"IF({' AND '.join(f'{key} IS NOT NULL' for key in keys)}, {bucket}, NULL)"


def in_buckets(places: Collection[str], of: int | None, now: int | None) -> list[str] | None:
    """The buckets, of ``now``, that rows of some buckets, of ``of``, can be in (None: not divided); None: any.

    The numbers are remainders of the same hash, so that their remainders by a common divisor are equal.
    """
    if of == now:
        return [*places]
    common = gcd(of or 1, now or 1)
    if common == 1 or now is None:
        return None
    rests = {int(place) % common for place in places}
    return [str(number) for number in range(now) if number % common in rests]


def place_sql(table: Table) -> str | None:
    """SQL of a change's place (partition value or bucket), as an ingestion records it; None: any row of the table."""
    by = table.write.partition_by
    return quoted(by) if by is not None else bucket_sql(table)


def laid_out_by(table: Table) -> str | None:
    """The column whose values an ingestion records in the same spelling as Delta's log; None if there is none."""
    if table.write.divided_into is not None:
        return BUCKET
    by = table.write.partition_by
    return by if by is not None and isinstance(table.type_of(by), _SAME_IN_DELTA) else None


def values_of(table: Table, column: str, values: Collection[str]) -> list[Any]:
    """The values of a column of :func:`laid_out_by` that an ingestion has recorded as these texts."""
    kind = table.type_of(column)
    read = date.fromisoformat if isinstance(kind, T.DateType) else int if isinstance(kind, T.IntegralType) else str
    return [read(value) for value in values]


def touched_sql(table: Table, values: Collection[str] | None, alias: str = "") -> str | None:
    """SQL condition for the partitions or buckets with these values (strings; None: all); None if it would select all.

    It compares with literals, because Delta skips files by nothing else. The change log is not laid out by buckets, so
    a condition on buckets fits the table only.
    """
    column = BUCKET if table.write.divided_into is not None else table.write.partition_by
    if column is None or values is None:
        return None
    kind = "int" if column == BUCKET else table.type_of(column).simpleString()
    name = f"{alias}.{quoted(column)}" if alias else quoted(column)
    return f"{name} IN ({', '.join(f'CAST({literal(value)} AS {kind})' for value in values)})" if values else "false"
