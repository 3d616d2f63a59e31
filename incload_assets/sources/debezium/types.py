"""How Debezium writes values, and the same values as text that every contract's type reads exactly.

What a number or a text in an event stands for is not to be seen in it: 19723 may be a day, base64 may be a decimal. The
schema tells, in events that carry theirs; else a declared *encoding* per column, or a rule by the contract's type. A
value that is not of its encoding is quarantined, whatever the contract's type would make of it.
"""

import base64
import hashlib
import json
import uuid

import pyspark.sql.types as T
from pyspark.sql import Column
from pyspark.sql import functions as F

from incload_assets.contract.exact_json import is_marked, unmarked
from incload_assets.delta.sql import let
from incload_assets.sources.debezium.times import iso_text, time_text

UNAVAILABLE = "__debezium_unavailable_value"
"""Debezium's default of ``unavailable.value.placeholder``."""
ENCODING = r"plain|date|(timestamp|time)\[(ms|us|ns)\]|decimal\(\d+\)|hex|base64url"
"""What may be declared of a column."""
PLAIN, UNDECLARED, DECIMAL, FLOATING, ISO = "plain", "undeclared decimal", "decimal", "floating", "iso"

OF_SCHEMA = {
    "io.debezium.time.Date": "date",
    "org.apache.kafka.connect.data.Date": "date",
    "io.debezium.time.IsoDate": ISO,
    "io.debezium.time.Timestamp": "timestamp[ms]",
    "org.apache.kafka.connect.data.Timestamp": "timestamp[ms]",
    "io.debezium.time.MicroTimestamp": "timestamp[us]",
    "io.debezium.time.NanoTimestamp": "timestamp[ns]",
    "io.debezium.time.IsoTimestamp": ISO,
    "io.debezium.time.Time": "time[ms]",
    "org.apache.kafka.connect.data.Time": "time[ms]",
    "io.debezium.time.MicroTime": "time[us]",
    "io.debezium.time.NanoTime": "time[ns]",
    "io.debezium.time.IsoTime": ISO,
    "org.apache.kafka.connect.data.Decimal": DECIMAL,
    "io.debezium.data.VariableScaleDecimal": DECIMAL,
}
"""Encodings by the names in schemas; what has another name, or none, is plain."""
_TIMESTAMPS = {"connect": "timestamp[ms]", "nanoseconds": "timestamp[ns]", "isostring": ISO}
"""How each ``time.precision.mode`` writes a timestamp, where it is not in microseconds."""
_VARYING = "OBJECT<scale: BIGINT, value: STRING>"
"""A decimal with the digits after its point, as Spark describes it."""
_NUMBER = r"^(BIGINT|DECIMAL)"


def default_encoding(target: T.DataType, time_precision_mode: str, decimals: str | None) -> str:
    """How values of a contract's type are written where neither a schema nor the declaration of the column says it."""
    if isinstance(target, T.ArrayType):
        return default_encoding(target.elementType, time_precision_mode, decimals)
    if isinstance(target, T.DateType):
        return ISO if time_precision_mode == "isostring" else "date"
    if isinstance(target, T.TimestampType | T.TimestampNTZType):
        return _TIMESTAMPS.get(time_precision_mode, "timestamp[us]")
    if isinstance(target, T.DecimalType):
        return {None: UNDECLARED, "precise": DECIMAL, "double": FLOATING}.get(decimals, PLAIN)
    if isinstance(target, T.NumericType) and decimals in ("precise", "double"):  # it may be a decimal all the same
        return DECIMAL if decimals == "precise" and isinstance(target, T.IntegralType) else FLOATING
    return PLAIN


def declared_encoding(encoding: str, time_precision_mode: str) -> str:
    """The meaning of a declared encoding where the connector writes all times as text."""
    kind = encoding.partition("[")[0]
    return ISO if time_precision_mode == "isostring" and kind in ("date", "timestamp", "time") else encoding


def item(value: Column, target: T.DataType, declared: str | None, default: str, schema: Column, masked: bool) -> Column:
    """What :func:`value_of` needs of a value, ``struct<value, encoding, scale, is_array, masked>``.

    Args:
        value: Variant of the JSON value.
        target: The contract's type.
        declared: The encoding that the column is declared to have, if any.
        default: The encoding where nothing tells.
        schema: ``struct<encoding: string, scale: int>`` of the event's schema; NULL without one.
        masked: Whether no message may show the value.
    """
    element = target.elementType if isinstance(target, T.ArrayType) else target
    encoding = F.coalesce(schema.getField("encoding"), F.lit(default))
    own = getattr(element, "scale", 0 if isinstance(element, T.IntegralType) else None)
    scale = F.coalesce(schema.getField("scale"), F.lit(own).cast("int"))
    if declared:
        name, _, digits = declared.rstrip(")").partition("(")
        encoding, scale = F.lit(name), F.lit(int(digits)) if digits else scale
    if isinstance(element, T.NumericType):  # a contract may keep an instant as the number that it is
        encoding = F.when(encoding.contains(DECIMAL) | (encoding == FLOATING), encoding).otherwise(PLAIN)
    elif isinstance(element, T.BinaryType):
        encoding = F.lit(declared if declared in ("hex", "base64url") else PLAIN)
    elif not isinstance(element, T.DateType | T.TimestampType | T.TimestampNTZType | T.StringType):
        encoding = F.lit(PLAIN)
    told = {"value": value, "encoding": encoding, "scale": scale}
    told |= {"is_array": F.lit(element is not target), "masked": F.lit(masked)}
    return F.struct(*(column.alias(name) for name, column in told.items()))


def value_of(item: Column, placeholder: str, *, arrays: bool) -> Column:
    """A :data:`VALUE`: text that the contract's type reads without loss, or NULL and what is wrong with the value.

    Args:
        item: Of :func:`item`.
        placeholder: The text that an unavailable value becomes, whatever form it has.
        arrays: Whether the item may be one.
    """
    encoding = item["encoding"]

    def of(value: Column) -> Column:
        text = (
            F.when(value.isin(placeholder, *_forms(placeholder)), F.lit(placeholder))
            .when(encoding == PLAIN, value)
            .when(encoding == UNDECLARED, F.concat(value, F.lit(_UNDECLARED)))
        )
        if arrays:
            text = text.when(item["is_array"], _members(item))
        return let(text.otherwise(_decoded(item["value"], item, value)), lambda text: told(text, value))

    def told(text: Column, value: Column) -> Column:
        shown = F.when(item["masked"], "***").otherwise(F.concat(F.lit("'"), F.substring(value, 1, _SHOWN), F.lit("'")))
        wrong = F.concat(shown, F.lit(" is not written as "), encoding, F.lit(_WRONG))
        broken = F.when(text.isNull() & value.isNotNull(), wrong)
        return F.struct(text.alias("text"), broken.alias("broken"))

    return let(unmarked(F.try_variant_get(item["value"], "$", "string")), of)


VALUE = "struct<text: string, broken: string>"
_UNDECLARED = ", a decimal without schema: declare decimals='precise', 'string' or 'double'"
_WRONG = ": declare decimals, time_precision_mode and encodings as the connector has them"
_SHOWN = 80
_BROKEN = "\ufdd2"
"""Stands for a member that is not of its encoding; no text holds it."""


def _members(item: Column) -> Column:
    """The JSON text of an array, its members as text; NULL where it is none, or a member is not of the encoding."""

    def member(variant: Column) -> Column:
        value = unmarked(F.try_variant_get(variant, "$", "string"))
        return F.coalesce(_decoded(variant, item, value), F.when(value.isNotNull(), F.lit(_BROKEN)))

    made = F.to_json(F.transform(F.try_variant_get(item["value"], "$", "array<variant>"), member))
    return let(made, lambda text: F.when(~text.contains(_BROKEN), text))


def _decoded(variant: Column, item: Column, value: Column) -> Column:
    """The text of a value that is not plain, NULL where it is not of its encoding.

    Args:
        variant: The value.
        item: Whose encoding it has.
        value: The variant as text.
    """
    encoding = item["encoding"]

    def of_kind(kind: Column) -> Column:
        is_text, number = kind == "STRING", value.try_cast("bigint")
        places = F.try_variant_get(variant, "$.scale", "int")
        return (
            F.when((encoding == DECIMAL) & is_text, decimal_text(value, item["scale"]))
            .when(
                (encoding == DECIMAL) & (kind == _VARYING),
                decimal_text(F.try_variant_get(variant, "$.value", "string"), places),
            )
            .when(encoding == DECIMAL, F.when(kind.rlike(_NUMBER), value))  # it is itself, by decimal.format=NUMERIC
            .when(encoding == FLOATING, F.when(~is_text | value.isin("NaN", "Infinity", "-Infinity"), value))
            .when(
                encoding == "hex",
                F.when(value.rlike("^([0-9a-f]{2})*$"), F.regexp_replace(F.base64(F.unhex(value)), r"\s", "")),
            )
            .when(encoding == "base64url", F.translate(value, "-_", "+/"))
            .when(encoding == ISO, F.when(is_text, iso_text(value)))
            .when(number.isNotNull(), time_text(number, encoding))
            .when(is_text, value)
        )

    exact = is_marked(F.try_variant_get(variant, "$", "string"))
    kind = F.when(exact, "DECIMAL").otherwise(F.schema_of_variant(variant))
    return F.when(value.isNotNull(), let(kind, of_kind))


def _forms(placeholder: str) -> list[str]:
    """The forms of an unavailable value: there are several forms, by type."""
    raw = placeholder.encode()
    # Java's UUID.nameUUIDFromBytes
    digest = uuid.UUID(bytes=hashlib.md5(raw, usedforsecurity=False).digest(), version=3)
    texts = [base64.b64encode(raw).decode(), base64.urlsafe_b64encode(raw).decode(), raw.hex()]
    numbers = [byte - 256 if byte > 127 else byte for byte in raw]  # Java's bytes have a sign
    objects = [[placeholder], *([text] for text in (*texts, str(digest))), numbers, {placeholder: placeholder}]
    return [*texts, *(json.dumps(value, ensure_ascii=False, separators=(",", ":")) for value in objects)]


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
