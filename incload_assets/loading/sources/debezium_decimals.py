"""Decimals as Kafka Connect writes them: base64 of the unscaled value, in two's complement, highest byte first."""

from pyspark.sql import Column
from pyspark.sql import functions as F

from incload_assets.loading.columns import let

_WORD = 2**32
_DIGITS = 32
"""Hexadecimal digits of 128 bits, which hold every decimal that Spark can hold."""


def decimal_text(value: Column, scale: Column) -> Column:
    """The decimal as plain digits, NULL where it is none or has more than 38 digits.

    Args:
        value: The base64 text, or the JSON object ``{"scale": ..., "value": ...}`` of a decimal whose scale varies.
        scale: Digits after the point, unless the value tells.

    Example:
        >>> decimal_text(F.lit("AeJA"), F.lit(2))  # doctest: +SKIP
    """
    varies = value.startswith("{")
    encoded = F.when(varies, F.get_json_object(value, "$.value")).otherwise(value)
    places = F.when(varies, F.get_json_object(value, "$.scale").try_cast("int")).otherwise(scale)
    digits = F.hex(F.try_to_binary(encoded, F.lit("base64")))
    unscaled = F.when(F.length(digits).between(2, _DIGITS), let(digits, _unscaled)).cast("string")
    return let(unscaled, lambda text: _with_point(text, places))


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
