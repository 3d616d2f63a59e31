"""Tokens and encryption by Spark expressions, of columns that hold the key: a literal would stand in Spark's plans.

Source: RFC 2104 for HMAC-SHA-256; for encryption see :func:`resources.protection_keys.sealed`.
"""

from collections.abc import Mapping
from hashlib import sha256

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from resources.protection_keys import ENCRYPTED, NONCE_BYTES, SEALING_KEY, SEALING_NONCE, TOKENIZED, key_id

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
    return F.concat(_prefix(name), _hmac(name, F.encode(text, "utf-8")))


def sealed_column(name: str, text: Column, secret: Column | None = None) -> Column:
    """A text encrypted so that equal texts stay equal; NULL for NULL.

    Args:
        name: The key's name; the rows have its column, see :func:`with_keys`.
        text: The text.
        secret: The secret of the person, 36 bytes; None: of nobody, so that equal texts are equal everywhere.
    """
    mark, of_person = (TOKENIZED, F.lit(b"")) if secret is None else (ENCRYPTED, secret)
    plain = F.encode(text, "utf-8")
    nonce = F.substring(F.unhex(_hmac(name, F.concat(F.lit(SEALING_NONCE), of_person, plain))), 1, NONCE_BYTES)
    box = F.aes_encrypt(plain, _sealing_key(name, of_person), F.lit("GCM"), F.lit("DEFAULT"), nonce)
    return F.concat(_prefix(name), F.lit(f"{mark}."), F.translate(F.base64(box), "+/=\r\n", "-_"))


def opened_column(name: str, kept: Column, secret: Column | None = None) -> Column:
    """The text that :func:`sealed_column` encrypted; NULL if it was encrypted under another key, or is not encrypted.

    Args:
        name: The key's name; the rows have its column, see :func:`with_keys`.
        kept: The encrypted text.
        secret: The secret of the person, if any.
    """
    mark, of_person = (TOKENIZED, F.lit(b"")) if secret is None else (ENCRYPTED, secret)
    mine = kept.startswith(F.concat(_prefix(name), F.lit(f"{mark}.")))
    box = F.unbase64(F.translate(F.substring_index(kept, ".", -1), "-_", "+/"))
    return F.when(mine, F.decode(F.try_aes_decrypt(box, _sealing_key(name, of_person), F.lit("GCM")), "utf-8"))


def _sealing_key(name: str, secret: Column) -> Column:
    return F.unhex(_hmac(name, F.concat(F.lit(SEALING_KEY), secret)))


def _prefix(name: str) -> Column:
    return F.concat(F.lit(f"{name}-"), F.col(f"{_KEY}{name}").getField("id"), F.lit(":"))


def _hmac(name: str, message: Column) -> Column:
    """The HMAC of a binary message, 64 hexadecimal digits."""
    inner, outer = (F.col(f"{_KEY}{name}").getField(part) for part in ("inner", "outer"))
    digest = F.unhex(F.sha2(F.concat(inner, message), 256))
    return F.sha2(F.concat(outer, digest), 256)
