"""Tokens and encryption by Spark expressions, of columns that hold the key: a literal would stand in Spark's plans.

Source: RFC 2104 for HMAC-SHA-256; for encryption see :func:`incload_assets.platform.protection_keys.sealed`.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incload_assets.platform.protection_keys import (
    ENCRYPTED,
    NONCE_BYTES,
    SEALING_KEY,
    SEALING_NONCE,
    TOKENIZED,
    key_id,
    sealing,
)

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


class Person(NamedTuple):
    """Columns of the person whose values are encrypted.

    Args:
        id: 24 hexadecimal digits.
        secret: 36 bytes.
    """

    id: Column
    secret: Column


def sealed_column(name: str, text: Column, person: Person | None = None) -> Column:
    """A text encrypted so that equal texts stay equal; NULL for NULL.

    Args:
        name: The key's name; the rows have its column, see :func:`with_keys`.
        text: The text.
        person: The person under whose key the text is encrypted; None: nobody's, so that equal texts are equal
            everywhere.
    """
    secret = person.secret if person else F.lit(b"")
    begin = F.concat(F.lit(f"{ENCRYPTED}."), person.id, F.lit(".")) if person else F.lit(f"{TOKENIZED}.")
    plain = F.encode(text, "utf-8")
    nonce = F.unhex(_hmac(name, F.concat(F.lit(sealing(SEALING_NONCE, name)), secret, plain)))
    nonce = F.substring(nonce, 1, NONCE_BYTES)
    box = F.aes_encrypt(plain, _sealing_key(name, secret), F.lit("GCM"), F.lit("DEFAULT"), nonce)
    return F.concat(_prefix(name), begin, F.translate(F.base64(box), "+/=\r\n", "-_"))


def opened_column(name: str, kept: Column, secret: Column | None = None) -> Column:
    """The text that :func:`sealed_column` encrypted; NULL if it was encrypted under another key, or is not encrypted.

    Args:
        name: The key's name; the rows have its column, see :func:`with_keys`.
        kept: The encrypted text.
        secret: The secret of the person whose id it has, if any.
    """
    mine = kept.startswith(F.concat(_prefix(name), F.lit(f"{TOKENIZED if secret is None else ENCRYPTED}.")))
    box = F.unbase64(F.translate(F.substring_index(kept, ".", -1), "-_", "+/"))
    key = _sealing_key(name, F.lit(b"") if secret is None else secret)
    return F.when(mine, F.decode(F.try_aes_decrypt(box, key, F.lit("GCM")), "utf-8"))


def person_id_in(kept: Column) -> Column:
    """The id of the person in a text that was encrypted under a person's key."""
    return F.split_part(kept, F.lit("."), F.lit(2))


def _sealing_key(name: str, secret: Column) -> Column:
    return F.unhex(_hmac(name, F.concat(F.lit(sealing(SEALING_KEY, name)), secret)))


def _prefix(name: str) -> Column:
    return F.concat(F.lit(f"{name}-"), F.col(f"{_KEY}{name}").getField("id"), F.lit(":"))


def _hmac(name: str, message: Column) -> Column:
    """The HMAC of a binary message, 64 hexadecimal digits."""
    inner, outer = (F.col(f"{_KEY}{name}").getField(part) for part in ("inner", "outer"))
    digest = F.unhex(F.sha2(F.concat(inner, message), 256))
    return F.sha2(F.concat(outer, digest), 256)
