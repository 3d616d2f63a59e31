"""Check arguments converted to exactly the column's type, so that a comparison never casts, rounds or throws."""

import datetime as dt
import math
import struct
from decimal import Decimal
from typing import Any

import pyspark.sql.types as T
from pyspark.sql import Column
from pyspark.sql import functions as F

INTEGERS: dict[type[T.DataType], int] = {T.ByteType: 8, T.ShortType: 16, T.IntegerType: 32, T.LongType: 64}
"""Bit widths of the integral types."""


class Uncompilable(ValueError):
    """A check that has no faithful column expression; ``why`` ends "the check ... cannot be used: "."""

    def __init__(self, why: str, instead: str) -> None:
        super().__init__(why)
        self.why, self.instead = why, instead


def exact(value: Any, data_type: T.DataType) -> Any:
    """The Python value that represents an argument in a column of this type, or Uncompilable if there is none.

    A datetime without time zone is UTC. A number for a float column becomes the nearest float.
    """
    held = _held(value, data_type)
    if held is None:
        null = " (use nullable= for NULL)" if value is None else ""
        kind = data_type.simpleString()
        raise Uncompilable(
            f"its argument {value!r} is not a value of {kind}",
            f"give a value that a {kind} column can hold exactly{null}",
        )
    return held


def literal(value: Any, data_type: T.DataType) -> Column:
    """A result of :func:`exact` as a literal of exactly that type."""
    if isinstance(data_type, T.TimestampType):
        micros = (value - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)
        return F.timestamp_micros(F.lit(micros).cast("bigint"))
    if isinstance(data_type, T.DecimalType):
        return F.lit(format(value, "f")).cast(data_type)
    return F.lit(value).cast(data_type)


def _held(value: Any, data_type: T.DataType) -> Any:
    number = value if isinstance(value, int | float | Decimal) and not isinstance(value, bool) else None
    match data_type:
        case T.ByteType() | T.ShortType() | T.IntegerType() | T.LongType():
            bound = 2 ** (INTEGERS[type(data_type)] - 1)
            return number if isinstance(number, int) and -bound <= number < bound else None
        case T.FloatType() | T.DoubleType():
            return None if number is None or math.isnan(number) else _floating(number, data_type)
        case T.DecimalType():
            return None if number is None else _decimal(Decimal(str(number)), data_type)
        case T.TimestampType():
            zoned = isinstance(value, dt.datetime) and value.tzinfo is not None
            return value if zoned else value.replace(tzinfo=dt.UTC) if isinstance(value, dt.datetime) else None
        case T.DateType():
            return value if isinstance(value, dt.date) and not isinstance(value, dt.datetime) else None
        case T.BooleanType():
            return value if isinstance(value, bool) else None
        case T.BinaryType():
            return bytes(value) if isinstance(value, bytes | bytearray) else None
        case _:
            return value if isinstance(value, str) else None


def _floating(number: int | float | Decimal, data_type: T.DataType) -> float | None:
    try:
        wide = float(number)
        return struct.unpack("f", struct.pack("f", wide))[0] if isinstance(data_type, T.FloatType) else wide
    except OverflowError:
        return None


def _decimal(number: Decimal, data_type: T.DecimalType) -> Decimal | None:
    if not number.is_finite():
        return None
    _, digits, exponent = number.normalize().as_tuple()
    scale = max(0, -int(exponent))
    whole = max(0, len(digits) + int(exponent))
    return number if scale <= data_type.scale and whole <= data_type.precision - data_type.scale else None
