"""Values of test cases in Python, as a load would convert them; what Python cannot decide exactly is left to Spark."""

import re
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyspark.sql.types as T

from incload_assets.contract.contract import MASK, SHOWN, shown_type
from incload_assets.contract.instants import DATED, RULES
from incload_assets.contract.literals import INTEGERS
from incload_assets.contract.model import Field

_NUMBER = re.compile(r"[+-]?\d{1,38}(\.\d{1,38})?", re.ASCII)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_INSTANT = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|[+-]\d{2}:\d{2})?", re.ASCII)
_BOOLEANS = {"true": True, "yes": True, "false": False, "no": False}
_FLOATING_DIGITS = 15
"""Most digits of a number that a double holds exactly enough to be the same in Python and in Java."""


class NeedsSpark(Exception):
    """A test case that only a real load evaluates exactly; the message says why."""


def value_of(text: str, kind: T.DataType) -> Any:
    """The value of a text as a load converts it, or None if it cannot become one.

    Raises:
        NeedsSpark: Only Spark decides that exactly.
    """
    match kind:
        case T.StringType():
            return text
        case T.ByteType() | T.ShortType() | T.IntegerType() | T.LongType():
            return _integer(text, INTEGERS[type(kind)])
        case T.DecimalType():
            return _decimal(text, kind)
        case T.DoubleType() if _NUMBER.fullmatch(text) and sum(map(str.isdigit, text)) <= _FLOATING_DIGITS:
            return float(text)
        case T.BooleanType() if text.lower() in _BOOLEANS:
            return _BOOLEANS[text.lower()]
        case T.DateType() if _DATE.fullmatch(text):
            return _calendar(date.fromisoformat, text)
        case T.TimestampType() if _INSTANT.fullmatch(text):
            return _instant(text)
        case T.DateType() | T.TimestampType() if not re.search(r"\d", text) and text.strip():
            return None
    raise NeedsSpark(f"only Spark decides whether {text!r} is {kind.simpleString()}")


def shown(value: Any, kind: T.DataType) -> str:
    """A value as the text that Spark casts it to; NeedsSpark for types whose text only Spark makes."""
    match kind:
        case T.StringType():
            return str(value)
        case T.BooleanType():
            return str(value).lower()
        case T.DecimalType():
            return format(value, f".{kind.scale}f")
        case T.TimestampType():
            text = value.astimezone(UTC).replace(tzinfo=None).isoformat(" ", "microseconds")
            return str(text).rstrip("0").rstrip(".")
        case T.DoubleType():
            raise NeedsSpark("only Spark writes a double as text")
    return str(value)


def reason_of(field: Field, text: str, broken: str) -> str:
    """The text of a reason, as :func:`incload_assets.contract.contract.reason` makes it in Spark."""
    short = text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."
    value = MASK if field.personal else f"'{short}'"
    return f"{field.name}: {value} {broken}"


def type_reason(field: Field, text: str) -> str:
    """The reason why a text cannot become a field's type."""
    rule = RULES.get(type(field.data_type))
    told = reason_of(field, text, f"is not {shown_type(field.data_type)}")
    return f"{told} ({rule})" if rule is not None and re.match(DATED, text) else told


def _integer(text: str, bits: int) -> int | None:
    if re.fullmatch(r"[+-]?\d{1,38}", text, re.ASCII):
        value = int(text)
        return value if -(2 ** (bits - 1)) <= value < 2 ** (bits - 1) else None
    _expect_word(text, f"an integer of {bits} bits")
    return None


def _decimal(text: str, kind: T.DecimalType) -> Decimal | None:
    if not _NUMBER.fullmatch(text):
        _expect_word(text, kind.simpleString())
        return None
    value = Decimal(text)
    whole, _, fraction = text.lstrip("+-").partition(".")
    if len(fraction.rstrip("0")) > kind.scale or len(whole.lstrip("0")) > kind.precision - kind.scale:
        return None
    return value or Decimal(0)  # Spark's has no negative zero


def _expect_word(text: str, kind: str) -> None:
    """Refuses all but a word, which is no number in any notation."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z _-]*", text) or text.strip().lower() in ("nan", "inf", "infinity"):
        raise NeedsSpark(f"only Spark decides whether {text!r} is {kind}")


def _calendar(read: Any, text: str) -> Any:
    try:
        return read(text)
    except ValueError:
        return None


def _instant(text: str) -> datetime:
    try:
        value = datetime.fromisoformat(text)
        value = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise NeedsSpark(f"only Spark decides whether {text!r} is an instant") from error
    return value
