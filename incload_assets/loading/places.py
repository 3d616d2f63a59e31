"""Which values can be those of a partition.

Delta names a partition's folder after its value, and keeps the value as text in its log. Not every value is found again
there, or can be the name of a folder at all; a row with such a value would stop the load of its window.
"""

import pyspark.sql.types as T
from pyspark.sql import Column
from pyspark.sql import functions as F

from incload_assets.loading.columns import col
from incload_assets.loading.contract import reason
from incload_assets.loading.contract_model import Field

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


def landed(field: Field) -> Column:
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
