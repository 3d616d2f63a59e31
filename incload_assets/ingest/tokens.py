"""HMAC-SHA-256 by Spark expressions, of columns that hold the key: a literal would stand in Spark's plans.

Source: RFC 2104.
"""

from collections.abc import Mapping
from hashlib import sha256

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from resources.protection_keys import key_id

_KEY = "_key_"
_BLOCK = 64
"""Bytes of a block of SHA-256."""


def with_keys(rows: DataFrame, keys: Mapping[str, bytes]) -> DataFrame:
    """The rows, each with keys in columns of its own.

    Args:
        rows: Any rows.
        keys: The keys by name.
    """
    if not keys:
        return rows
    row = []
    for key in keys.values():
        padded = (sha256(key).digest() if len(key) > _BLOCK else key).ljust(_BLOCK, b"\0")
        row.append((bytes(byte ^ 0x36 for byte in padded), bytes(byte ^ 0x5C for byte in padded), key_id(key)))
    schema = ", ".join(f"{_KEY}{name} struct<inner: binary, outer: binary, id: string>" for name in keys)
    return rows.crossJoin(F.broadcast(rows.sparkSession.createDataFrame([tuple(row)], schema)))


def without_keys(rows: DataFrame) -> DataFrame:
    """The rows without the columns of keys."""
    return rows.drop(*(name for name in rows.columns if name.startswith(_KEY)))


def token_column(name: str, text: Column) -> Column:
    """The token of a text: the key's name, its identifier, and the HMAC; NULL for NULL.

    Args:
        name: The key's name; the rows have its column, see :func:`with_keys`.
        text: The text.
    """
    inner, outer, of_key = (F.col(f"{_KEY}{name}").getField(part) for part in ("inner", "outer", "id"))
    digest = F.unhex(F.sha2(F.concat(inner, F.encode(text, "utf-8")), 256))
    return F.concat(F.lit(f"{name}-"), of_key, F.lit(":"), F.sha2(F.concat(outer, digest), 256))
