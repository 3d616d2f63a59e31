"""Types of columns, inferred from what their values look like."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pyspark.sql.types as T

from incload_assets.inference.evidence import Column
from incload_assets.inference.personal import words
from incload_assets.inference.spelled import why_left_out
from incload_assets.platform.wording import several

MONEY = {
    "price", "amount", "total", "subtotal", "cost", "fee", "tax", "fare", "balance", "revenue", "payment", "discount",
    "salary", "tip", "toll", "surcharge", "charge", "charges", "paid",
}  # fmt: skip
"""Words in the names of columns with amounts of money."""
FIXED_SCALE = 4
"""Most digits after the point that still look like a fixed scale; measurements have more."""
_MONEY_SCALE = 10
_FEWEST_DIGITS = 2
"""Fewest digits after the point of a decimal that has any: 7.5 may be 7.25 tomorrow."""
_ROOM = 4
"""Digits before the point that a decimal has beyond those seen."""
_MOST_DIGITS = 38
_NEARLY = 0.9
"""Share of values that fit a type from which the others are worth a question."""


@dataclass(frozen=True)
class Guess:
    """A type, why it was chosen, and what the sample could not decide (empty: nothing)."""

    kind: T.DataType
    why: str
    question: str = ""


def type_of(column: Column) -> Guess:
    """The type of a column: what the source states, else what all its values are."""
    native = column.native
    if not isinstance(native, T.StringType | T.FloatType | T.DoubleType):
        return _native(column)
    if not column.filled:
        question = "every value in the sample is NULL. Which type is it?"
        return Guess(native, column.stated or "no value seen", question)
    if isinstance(native, T.StringType):
        return _of_text(column)
    return _number(column)


def _native(column: Column) -> Guess:
    native = column.native
    if isinstance(native, T.TimestampNTZType):
        return Guess(T.TimestampType(), f"{column.stated or 'instants'} without a time zone, read as UTC")
    if unfit := [name for name in members(native) if why_left_out(name)]:
        return Guess(
            T.StringType(), f"kept as JSON, as the member {unfit[0]!r} cannot be one: {why_left_out(unfit[0])}"
        )
    return Guess(kept(native), column.stated or f"{native.simpleString()} in the source", _epoch(column))


def _epoch(column: Column) -> str:
    """A question about a number that looks like an instant."""
    newest = column.newest or ""
    unit = {13: "milliseconds", 16: "microseconds"}.get(len(newest)) if newest.isdigit() and newest[0] == "1" else None
    return f"its numbers look like {unit} since 1970. Is it an instant?" if unit else ""


def _of_text(column: Column) -> Guess:
    everything, said = column.filled, f"all {column.filled:,} values"
    if column.stated:
        return Guess(T.StringType(), column.stated)
    if column.zeros:
        return Guess(T.StringType(), f"{column.zeros:,} of {everything:,} values begin with 0, as codes do: text")
    fits = column.fits
    if fits.get("boolean") == everything:
        return Guess(T.BooleanType(), f"{said} are true or false")
    if fits.get("date") == everything:
        return Guess(T.DateType(), f"{said} are dates")
    if fits.get("timestamp") == everything:
        if column.zoned == everything:
            return Guess(T.TimestampType(), f"{said} are instants with an offset")
        question = f"{everything - column.zoned:,} values have no offset and are read as UTC. Is that their zone?"
        return Guess(T.TimestampType(), f"{said} are instants", question)
    if fits.get("bigint") == everything and not column.quoted:
        return Guess(T.LongType(), f"{said} are integers", _epoch(column))
    if fits.get("double") == everything and (not column.quoted or 0 < column.scale <= FIXED_SCALE):
        return _number(column)
    for name, plural in (("bigint", "integers"), ("date", "dates"), ("timestamp", "instants"), ("double", "numbers")):
        if (found := fits.get(name, 0)) >= _NEARLY * everything and found < everything:
            question = (
                f"{found:,} of {everything:,} values are {plural}. Are the others mistakes? Then declare the type"
            )
            return Guess(T.StringType(), "text", f"{question}, and they go to quarantine.")
    return Guess(T.StringType(), "text")


def _number(column: Column) -> Guess:
    money, scale, said = words(column.name) & MONEY, column.scale, f"all {column.filled:,} values"
    if isinstance(column.native, T.StringType) or scale:
        most = _MONEY_SCALE if money else FIXED_SCALE
        if not column.inexact and scale <= most and column.digits + scale <= _MOST_DIGITS:
            least = max(scale, _FEWEST_DIGITS) if scale else 0
            precision = min(_MOST_DIGITS, max(12, column.digits + least + _ROOM))
            why = f"{said} have at most {several(scale, 'digit')} after the point and {column.digits} before it"
            return Guess(T.DecimalType(precision, least), why)
    if not scale and not column.inexact:
        return Guess(T.DoubleType(), f"{column.native.simpleString()} in the source, whole numbers in the sample")
    question = "a sum of doubles depends on their order. Is it an amount? Then declare a decimal." if money else ""
    many = "exponents" if column.inexact else f"up to {several(scale, 'digit')} after the point"
    return Guess(T.DoubleType(), f"numbers with {many}: no fixed scale", question)


def kept(kind: T.DataType) -> T.DataType:
    """The type in which a table keeps values of a type: instants for times without a zone, text for intervals."""
    match kind:
        case T.StructType():
            return T.StructType([T.StructField(f.name, kept(f.dataType), f.nullable) for f in kind.fields])
        case T.ArrayType():
            return T.ArrayType(kept(kind.elementType), kind.containsNull)
        case T.MapType():
            return T.MapType(kept(kind.keyType), kept(kind.valueType), kind.valueContainsNull)
        case T.TimestampNTZType():
            return T.TimestampType()
        case T.AtomicType() if not isinstance(kind, T.AnsiIntervalType | T.VarcharType | T.CharType):
            return kind
    return T.StringType()


def of_variant(text: str) -> str:
    """A type as Spark's ``schema_of_variant_agg`` describes it, in the notation of its schemas.

    Example:
        >>> of_variant("OBJECT<a: BIGINT, b: VOID, c: DECIMAL(3,2)>")
        'STRUCT<a: BIGINT, b: STRING, c: DECIMAL(12,2)>'
    """
    parts = re.split(r"(`(?:[^`]|``)*`)", text)
    return "".join(part if number % 2 else _spelled(part) for number, part in enumerate(parts))


def _spelled(text: str) -> str:
    text = re.sub(r"\b(?<!`)(?:VOID|VARIANT)\b(?!:)", "STRING", text)
    text = re.sub(r"\bOBJECT<", "STRUCT<", text)
    return re.sub(r"\bDECIMAL\((\d+),(\d+)\)", _wider, text)


def _wider(found: re.Match[str]) -> str:
    precision, scale = int(found[1]), int(found[2])
    if scale > FIXED_SCALE:
        return "DOUBLE"
    return f"DECIMAL({min(_MOST_DIGITS, max(12, precision + _ROOM))},{max(scale, _FEWEST_DIGITS)})"


def members(kind: T.DataType) -> Iterator[str]:
    """The names of all members of structs in a type."""
    match kind:
        case T.StructType():
            for field in kind.fields:
                yield field.name
                yield from members(field.dataType)
        case T.ArrayType():
            yield from members(kind.elementType)
        case T.MapType():
            yield from members(kind.valueType)
