"""Decimals as Kafka Connect writes them: base64 of the unscaled value, in two's complement, highest byte first."""

from pyspark.sql import Column
from pyspark.sql import functions as F

from incload_assets.delta.sql import let

_WORD = 2**32
_DIGITS = 32
"""Hexadecimal digits of 128 bits, which hold every decimal that Spark can hold."""
_PLACES = 16383
"""What PostgreSQL allows after the point."""


def decimal_text(encoded: Column, places: Column) -> Column:
    """The decimal as plain digits, NULL where it is none or has more than 38 digits.

    Spark's decoder also takes what is no base64, such as ``NaN``. So the bytes have to be the text again; ``Infinity``
    would be, but that is what the connector writes for a double.

    Args:
        encoded: The base64 text.
        places: Digits after the point.

    Example:
        >>> decimal_text(F.lit("AeJA"), F.lit(2))  # doctest: +SKIP
    """
    raw = F.try_to_binary(F.when(encoded != "Infinity", encoded), F.lit("base64"))
    digits = F.hex(F.when(F.base64(raw) == encoded, raw))
    unscaled = F.when(F.length(digits).between(2, _DIGITS), let(digits, _unscaled)).cast("string")
    return F.when(places.between(-_PLACES, _PLACES), let(unscaled, lambda text: _with_point(text, places)))


def _with_point(number: Column, places: Column) -> Column:
    digits = F.regexp_replace(number, "^-", "")
    sign = F.when(number.startswith("-"), "-").otherwise("")
    padded = F.lpad(digits, F.greatest(F.length(digits), places + 1), F.lit("0"))
    whole = F.greatest(F.length(digits), places + 1) - places
    return F.concat(
        sign,
        F.when(places == 0, digits)
        .when(places < 0, F.concat(digits, F.repeat(F.lit("0"), -places)))
        .otherwise(F.concat(F.substring(padded, F.lit(1), whole), F.lit("."), F.substring(padded, whole + 1, places))),
    )


def _unscaled(digits: Column) -> Column:
    """Hexadecimal digits of a two's complement number as ``decimal(38,0)``; in words, since Spark converts 64 bits."""
    negative = F.substring(digits, 1, 1) >= "8"
    padded = F.lpad(digits, F.lit(_DIGITS), F.when(negative, "F").otherwise("0"))
    words = [F.conv(F.substring(padded, 1 + 8 * i, 8), 16, 10).try_cast("decimal(10,0)") for i in range(4)]
    number = (words[0] - F.when(negative, _WORD).otherwise(0)).try_cast("decimal(38,0)")
    for word in words[1:]:
        number = F.try_add(F.try_multiply(number, F.lit(_WORD).cast("decimal(10,0)")), word).try_cast("decimal(38,0)")
    return number
