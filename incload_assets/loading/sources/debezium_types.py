"""How Debezium writes values, and the same values as text that every contract's type reads exactly.

What a number or a text in an event stands for is not to be seen in it: 19723 may be a day, base64 may be a decimal. The
schema tells, in events that carry theirs; else a declared *encoding* per column, or a rule by the contract's type.
"""

import base64
import hashlib
import uuid

import pyspark.sql.types as T
from pyspark.sql import Column
from pyspark.sql import functions as F

from incload_assets.loading.columns import let
from incload_assets.loading.sources.debezium_decimals import decimal_text

UNAVAILABLE = "__debezium_unavailable_value"
"""Debezium's default of ``unavailable.value.placeholder``."""
ENCODING = r"plain|date|(timestamp|time)\[(ms|us|ns)\]|decimal\(\d+\)"
"""What may be declared of a column."""
PLAIN, UNDECLARED = "plain", "undeclared decimal"

OF_SCHEMA = {
    "io.debezium.time.Date": "date",
    "org.apache.kafka.connect.data.Date": "date",
    "io.debezium.time.IsoDate": "iso date",
    "io.debezium.time.Timestamp": "timestamp[ms]",
    "org.apache.kafka.connect.data.Timestamp": "timestamp[ms]",
    "io.debezium.time.MicroTimestamp": "timestamp[us]",
    "io.debezium.time.NanoTimestamp": "timestamp[ns]",
    "io.debezium.time.Time": "time[ms]",
    "org.apache.kafka.connect.data.Time": "time[ms]",
    "io.debezium.time.MicroTime": "time[us]",
    "io.debezium.time.NanoTime": "time[ns]",
    "org.apache.kafka.connect.data.Decimal": "decimal",
    "io.debezium.data.VariableScaleDecimal": "decimal",
}
"""Encodings by the names in schemas; what has another name, or none, is plain."""
_TIMESTAMPS = {"connect": "timestamp[ms]", "nanoseconds": "timestamp[ns]", "isostring": PLAIN}
"""How each ``time.precision.mode`` writes a timestamp, where it is not in microseconds."""

_DAY = 86_400_000_000
_MIN, _MAX = -719_162 * _DAY, 2_932_897 * _DAY - 1
"""The microseconds of the years 1 to 9999."""
_INFINITE = (9_223_372_036_825_200_000, -9_223_372_036_832_400_000)
"""What the JDBC driver takes for infinite, as microseconds."""
_INFINITE_DAYS = (-2_147_472_692, -2_147_472_691)
"""Likewise as days, which overflow: -5877611-06-21 and the day after."""


def default_encoding(target: T.DataType, time_precision_mode: str, decimals: str | None) -> str:
    """How values of a contract's type are written where neither a schema nor the declaration of the column says it."""
    if isinstance(target, T.ArrayType):
        return default_encoding(target.elementType, time_precision_mode, decimals)
    if isinstance(target, T.DateType):
        return "iso date" if time_precision_mode == "isostring" else "date"
    if isinstance(target, T.TimestampType | T.TimestampNTZType):
        return _TIMESTAMPS.get(time_precision_mode, "timestamp[us]")
    if isinstance(target, T.DecimalType):
        return {None: UNDECLARED, "precise": "decimal"}.get(decimals, PLAIN)
    return PLAIN


def item(value: Column, target: T.DataType, declared: str | None, default: str, schema: Column) -> Column:
    """What :func:`text_of` needs of a value, ``struct<value, encoding, scale, is_array>``.

    Args:
        value: Text of the JSON value, for JSON strings their content.
        target: The contract's type.
        declared: The encoding that the column is declared to have, if any.
        default: The encoding where nothing tells.
        schema: ``struct<encoding: string, scale: int>`` of the event's schema; NULL without one.
    """
    element = target.elementType if isinstance(target, T.ArrayType) else target
    encoding = F.coalesce(schema.getField("encoding"), F.lit(default))
    scale = F.coalesce(schema.getField("scale"), F.lit(getattr(element, "scale", None)).cast("int"))
    if declared:
        name, _, digits = declared.rstrip(")").partition("(")
        encoding, scale = F.lit(name), F.lit(int(digits)) if digits else scale
    if isinstance(element, T.NumericType):  # a contract may keep an instant as the number that it is
        encoding = F.when(encoding.contains("decimal"), encoding).otherwise(PLAIN)
    elif not isinstance(element, T.DateType | T.TimestampType | T.TimestampNTZType | T.StringType):
        encoding = F.lit(PLAIN)
    is_array = F.lit(element is not target)
    return F.struct(value.alias("value"), encoding.alias("encoding"), scale.alias("scale"), is_array.alias("is_array"))


def text_of(item: Column, placeholder: str) -> Column:
    """The value as text that the contract's type reads without loss; as it is where it cannot be understood."""
    value, encoding = item["value"], item["encoding"]
    unknown = F.concat(value, F.lit(", a decimal without schema: declare decimals='precise', 'string' or 'double'"))
    temporal = F.when(encoding == "date", _date(value.try_cast("bigint"))).otherwise(
        F.when(
            encoding.startswith("time"),
            let(_micros(value.try_cast("bigint"), encoding), lambda micros: _time(micros, encoding)),
        )
    )
    return (
        F.when(value.isin(placeholder, *_forms(placeholder)), F.lit(placeholder))
        .when(encoding == PLAIN, value)
        .when(encoding == "decimal", F.coalesce(decimal_text(value, item["scale"]), value))
        .when(encoding == UNDECLARED, unknown)
        .when(encoding == "iso date", F.regexp_replace(value, "Z$", ""))
        .otherwise(F.coalesce(temporal, value))
    )


def texts_of(item: Column, placeholder: str) -> Column:
    """Likewise of an array, member by member."""

    def member(value: Column) -> Column:
        alike = F.struct(value.alias("value"), item["encoding"].alias("encoding"), item["scale"].alias("scale"))
        return text_of(alike, placeholder)

    value = item["value"]
    members = F.to_json(F.transform(F.from_json(value, "array<string>"), member))
    return (
        F.when(value.isin(placeholder, *_forms(placeholder)), F.lit(placeholder))
        .when(item["encoding"] == PLAIN, value)
        .otherwise(F.coalesce(members, value))
    )


def _forms(placeholder: str) -> list[str]:
    """Whatever an unavailable value looks like: there are several forms, by type."""
    raw = placeholder.encode()
    # Java's UUID.nameUUIDFromBytes
    digest = uuid.UUID(bytes=hashlib.md5(raw, usedforsecurity=False).digest(), version=3)
    encoded = base64.b64encode(raw).decode()
    arrays = [f'["{text}"]' for text in (placeholder, encoded, digest)]
    return [encoded, *arrays, f"[{','.join(map(str, raw))}]", f'{{"{placeholder}":"{placeholder}"}}']


def _date(days: Column) -> Column:
    text = F.date_from_unix_date(days.try_cast("int")).cast("string")
    return F.when(days.between(_MIN // _DAY, _MAX // _DAY), text).otherwise(_infinite(days, *_INFINITE_DAYS))


def _micros(number: Column, encoding: Column) -> Column:
    finer = F.call_function("div", number - F.pmod(number, F.lit(1000)), F.lit(1000))
    coarser = F.try_multiply(number, F.lit(1000))
    return F.when(encoding.endswith("[ns]"), finer).when(encoding.endswith("[ms]"), coarser).otherwise(number)


def _time(micros: Column, encoding: Column) -> Column:
    at = F.timestamp_micros(micros)
    return F.when(
        encoding.startswith("timestamp"),
        F.when(micros.between(_MIN, _MAX), F.date_format(at, "yyyy-MM-dd'T'HH:mm:ss.SSSSSS")).otherwise(
            _infinite(micros, *_INFINITE)
        ),
    ).when(micros.between(0, _DAY - 1), F.date_format(at, "HH:mm:ss.SSSSSS"))


def _infinite(number: Column, positive: int, negative: int) -> Column:
    return F.when(number == positive, "infinity").when(number == negative, "-infinity")
