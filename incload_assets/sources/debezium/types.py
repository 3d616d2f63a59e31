"""Decoding of Debezium's values to text that every contract's type reads exactly.

A number or a string in an event does not show its meaning: 19723 may be a day, base64 may be a decimal. Its *encoding*
is determined by the event's schema if there is one, otherwise by the column's declaration, or by the contract's type. A
value that does not match its encoding is quarantined, even if the contract's type could read it.
"""

import base64
import hashlib
import json
import uuid

import pyspark.sql.types as T
from pyspark.sql import Column
from pyspark.sql import functions as F

from incload_assets.contract.exact_json import is_marked, unmarked
from incload_assets.platform.sql import let
from incload_assets.sources.debezium.times import iso_text, time_text

UNAVAILABLE = "__debezium_unavailable_value"
"""Debezium's default of ``unavailable.value.placeholder``."""
ENCODING = r"plain|date|(timestamp|time)\[(ms|us|ns)\]|decimal\(\d+\)|unsigned|hex|base64url"
"""Pattern of the encodings that may be declared for a column."""
PLAIN, UNDECLARED, DECIMAL, FLOATING, ISO = "plain", "undeclared decimal", "decimal", "floating", "iso"
UNSIGNED = "unsigned"
"""Encoding of numbers of 64 bits without a sign, which are negative in the events from 2**63 on."""

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
"""Encodings by type names in schemas; values with another name, or none, are plain."""
_TIMESTAMPS = {
    "connect": "timestamp[ms]",
    "microseconds": "timestamp[us]",
    "nanoseconds": "timestamp[ns]",
    "isostring": ISO,
}
"""Encoding of timestamps by ``time.precision.mode``, if it does not depend on their precision."""
_VARYING = "OBJECT<scale: BIGINT, value: STRING>"
"""Spark's description of a decimal with its own scale."""
_NUMBER = r"^(BIGINT|DECIMAL)"


def default_encoding(target: T.DataType, time_precision_mode: str, decimals: str | None, timestamp: str) -> str:
    """The encoding of values of a contract's type if neither a schema nor the column's declaration determines it.

    ``timestamp`` is the encoding of timestamps of the database's default precision.
    """
    if isinstance(target, T.ArrayType):
        return default_encoding(target.elementType, time_precision_mode, decimals, timestamp)
    if isinstance(target, T.DateType):
        return ISO if time_precision_mode == "isostring" else "date"
    if isinstance(target, T.TimestampType | T.TimestampNTZType):
        return _TIMESTAMPS.get(time_precision_mode, timestamp)
    if isinstance(target, T.DecimalType):
        return {None: UNDECLARED, "precise": DECIMAL, "double": FLOATING}.get(decimals, PLAIN)
    if isinstance(target, T.NumericType) and decimals in ("precise", "double"):  # may be a decimal in the database
        return DECIMAL if decimals == "precise" and isinstance(target, T.IntegralType) else FLOATING
    return PLAIN


def declared_encoding(encoding: str, time_precision_mode: str) -> str:
    """A declared encoding, adapted to connectors that write all times as ISO 8601 text."""
    kind = encoding.partition("[")[0]
    return ISO if time_precision_mode == "isostring" and kind in ("date", "timestamp", "time") else encoding


def item(value: Column, target: T.DataType, declared: str | None, default: str, schema: Column, masked: bool) -> Column:
    """The input of :func:`value_of` for a variant, ``struct<value, encoding, scale, is_array, masked>``.

    Its encoding is ``declared`` for the column, or in ``schema`` (``struct<encoding: string, scale: int>`` of the
    event; NULL without one), or ``default``. No message may show a ``masked`` value.
    """
    element = target.elementType if isinstance(target, T.ArrayType) else target
    encoding = F.coalesce(schema.getField("encoding"), F.lit(default))
    own = getattr(element, "scale", 0 if isinstance(element, T.IntegralType) else None)
    scale = F.coalesce(schema.getField("scale"), F.lit(own).cast("int"))
    if declared:
        name, _, digits = declared.rstrip(")").partition("(")
        encoding, scale = F.lit(name), F.lit(int(digits)) if digits else scale
    if isinstance(element, T.NumericType):  # a contract may keep an encoded instant as a number
        encoding = F.when(encoding.contains(DECIMAL) | encoding.isin(FLOATING, UNSIGNED), encoding).otherwise(PLAIN)
    elif isinstance(element, T.BinaryType):
        encoding = F.lit(declared if declared in ("hex", "base64url") else PLAIN)
    elif not isinstance(element, T.DateType | T.TimestampType | T.TimestampNTZType | T.StringType):
        encoding = F.lit(PLAIN)
    members = {"value": value, "encoding": encoding, "scale": scale}
    members |= {"is_array": F.lit(element is not target), "masked": F.lit(masked)}
    return F.struct(*(column.alias(name) for name, column in members.items()))


def value_of(item: Column, placeholder: str, *, arrays: bool, durations: bool) -> Column:
    """A :data:`VALUE`: text that the contract's type reads without loss, or NULL and the fault of the value.

    Unavailable values, in whatever form, become ``placeholder``. The item may be an array only with ``arrays``,
    and a time may be negative or longer than a day with ``durations``.
    """
    encoding = item["encoding"]

    def of(value: Column) -> Column:
        text = (
            F.when(value.isin(placeholder, *_forms(placeholder)), F.lit(placeholder))
            .when(encoding == PLAIN, value)
            .when(encoding == UNDECLARED, F.concat(value, F.lit(_UNDECLARED)))
        )
        if arrays:
            text = text.when(item["is_array"], _members(item, durations))
        return let(
            text.otherwise(_decoded(item["value"], item, value, durations)), lambda text: with_fault(text, value)
        )

    def with_fault(text: Column, value: Column) -> Column:
        shown = F.when(item["masked"], "***").otherwise(F.concat(F.lit("'"), F.substring(value, 1, _SHOWN), F.lit("'")))
        wrong = F.concat(shown, F.lit(" is not encoded as "), encoding, F.lit(_WRONG))
        broken = F.when(text.isNull() & value.isNotNull(), wrong)
        return F.struct(text.alias("text"), broken.alias("broken"))

    return let(unmarked(F.try_variant_get(item["value"], "$", "string")), of)


VALUE = "struct<text: string, broken: string>"
_UNDECLARED = ", a decimal without schema: declare decimals='precise', 'string' or 'double'"
_WRONG = ": declare decimals, time_precision_mode and encodings as configured in the connector"
_SHOWN = 80
_BROKEN = "\ufdd2"
"""Placeholder for a member that does not match its encoding; no text contains it."""


def _members(item: Column, durations: bool) -> Column:
    """The JSON text of an array with its members as text; NULL if it is no array, or a member has another encoding."""

    def member(variant: Column) -> Column:
        value = unmarked(F.try_variant_get(variant, "$", "string"))
        return F.coalesce(_decoded(variant, item, value, durations), F.when(value.isNotNull(), F.lit(_BROKEN)))

    made = F.to_json(F.transform(F.try_variant_get(item["value"], "$", "array<variant>"), member))
    return let(made, lambda text: F.when(~text.contains(_BROKEN), text))


def _decoded(variant: Column, item: Column, value: Column, durations: bool) -> Column:
    """The decoded text of a variant (also given as text) that is not plain; NULL if it does not match its encoding."""
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
            .when(encoding == DECIMAL, F.when(kind.rlike(_NUMBER), value))  # a plain number, by decimal.format=NUMERIC
            .when(encoding == FLOATING, F.when(~is_text | value.isin("NaN", "Infinity", "-Infinity"), value))
            .when(
                encoding == "hex",
                F.when(value.rlike("^([0-9a-f]{2})*$"), F.regexp_replace(F.base64(F.unhex(value)), r"\s", "")),
            )
            .when(encoding == "base64url", F.translate(value, "-_", "+/"))
            .when(encoding == ISO, F.when(is_text, iso_text(value)))
            .when(encoding == UNSIGNED, _unsigned(number))
            .when(number.isNotNull(), time_text(number, encoding, durations=durations))
            .when(is_text, value)
        )

    exact = is_marked(F.try_variant_get(variant, "$", "string"))
    kind = F.when(exact, "DECIMAL").otherwise(F.schema_of_variant(variant))
    return F.when(value.isNotNull(), let(kind, of_kind))


def _unsigned(number: Column) -> Column:
    """The digits of a bigint whose bits have no sign."""
    whole = number.cast("decimal(20,0)")
    return F.when(number < 0, whole + F.lit(str(2**64)).cast("decimal(20,0)")).otherwise(whole).cast("string")


def _forms(placeholder: str) -> list[str]:
    """All forms of an unavailable value, which depend on the column's type."""
    raw = placeholder.encode()
    # Java's UUID.nameUUIDFromBytes
    digest = uuid.UUID(bytes=hashlib.md5(raw, usedforsecurity=False).digest(), version=3)
    texts = [base64.b64encode(raw).decode(), base64.urlsafe_b64encode(raw).decode(), raw.hex()]
    numbers = [byte - 256 if byte > 127 else byte for byte in raw]  # Java's bytes are signed
    objects = [[placeholder], *([text] for text in (*texts, str(digest))), numbers, {placeholder: placeholder}]
    return [*texts, *(json.dumps(value, ensure_ascii=False, separators=(",", ":")) for value in objects)]


_WORD = 2**32


_DIGITS = 32
"""Hexadecimal digits of 128 bits, enough for every decimal in Spark."""


_PLACES = 16383
"""Largest number of digits after the point in PostgreSQL."""


def decimal_text(encoded: Column, places: Column) -> Column:
    """The decimal as digits, ``places`` of them after the point; NULL if invalid or of more than 38 digits.

    Spark's decoder also accepts invalid base64, such as ``NaN``, so the bytes must encode to the same text again.
    ``Infinity`` is valid base64, but the connector writes it for a double, so it is refused.
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
    """Hexadecimal digits of a two's complement number as ``decimal(38,0)``; by words, since Spark converts 64 bits."""
    negative = F.substring(digits, 1, 1) >= "8"
    padded = F.lpad(digits, F.lit(_DIGITS), F.when(negative, "F").otherwise("0"))
    words = [F.conv(F.substring(padded, 1 + 8 * i, 8), 16, 10).try_cast("decimal(10,0)") for i in range(4)]
    number = (words[0] - F.when(negative, _WORD).otherwise(0)).try_cast("decimal(38,0)")
    for word in words[1:]:
        number = F.try_add(F.try_multiply(number, F.lit(_WORD).cast("decimal(10,0)")), word).try_cast("decimal(38,0)")
    return number
