"""Conversion of numbers to numeric and boolean types: exact, whatever their notation, or NULL.

``1e2``, ``100.0`` and ``100`` are the same number, in text formats and in typed files. It becomes an integer or a
decimal only exactly. For a fraction, a double or float is the nearest one, which is what such types are for; but a
whole number that the type cannot hold, as above 2**53, a number that is too large and one that would become 0 are NULL.
A boolean does not become a number; 1 and 0 become booleans.
"""

import pyspark.sql.types as T
from pyspark.sql import Column
from pyspark.sql import functions as F

FLOATING = (T.FloatType, T.DoubleType)

_FLOAT = r"^\s*[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|(?i:nan|inf|infinity))\s*$"
_NOT_ZERO = r"^[^eE]*[1-9]"
# Spark would write out all digits of 1e-999999999
_SCIENTIFIC = r"[eE][+-]?0*\d{1,3}\s*$"
# at most as many digits after the point as the exponent moves before it
_WHOLE = r"^\s*[+-]?(?=\.?\d)\d*(?:\.0*|{})\s*$".format(
    "|".join(rf"(?:\.\d{{0,{exponent}}}0*)?[eE]\+?0*{exponent}" for exponent in range(20))
)
_INFINITE = float("inf")
_WHOLE_DOUBLES, _WHOLE_FLOATS = 2.0**53, 2.0**24
"""From these values on, doubles and floats do not represent every whole number."""


def number_of_text(text: Column, target: T.DataType) -> Column:
    """The number of a decimal or scientific notation; NULL if there is none, or if the type does not hold it.

    A boolean accepts 1 and 0 as well as ``true``, ``yes`` and the like.
    """
    if isinstance(target, T.DecimalType):
        return _decimal(text, target)
    if isinstance(target, FLOATING):
        return _floating(text, target)
    # Spark's own cast is fast and exact for plain notation, which nearly all numbers have
    whole = F.when(text.rlike(_WHOLE), text.try_cast("decimal(20,0)").try_cast(target))
    return F.coalesce(text.try_cast(target), whole)


def number_of_number(value: Column, source: T.DataType, target: T.DataType) -> Column:
    """A number of one type converted to another type; NULL if that type does not hold it."""
    if isinstance(target, FLOATING) and not isinstance(source, FLOATING):
        return _floating(value.cast("string"), target)
    cast = value.try_cast(target)
    if isinstance(source, FLOATING) and isinstance(target, FLOATING):
        return cast if isinstance(target, T.DoubleType) else _unless(_not_single(cast, value), cast)
    same = cast.try_cast(source).eqNullSafe(value)
    if isinstance(source, FLOATING) and isinstance(target, T.LongType):
        same &= value < F.lit(2.0**63)  # 2**63 would become 2**63 - 1, which as a double is 2**63 again
    return F.when(same, cast)


def _decimal(text: Column, target: T.DecimalType) -> Column:
    cast = text.try_cast(target)
    # Spark would round digits beyond the scale, and accepts the digits of all scripts
    rounded = text.rlike(rf"\.\d{{{target.scale}}}\d*[1-9]|[^\x00-\x7f]")
    scientific = text.rlike(_SCIENTIFIC) & (_digits(text) == _digits(cast.cast("string")))
    return F.when(F.when(text.rlike("[eE]"), scientific).otherwise(~rounded), cast)


def _floating(text: Column, target: T.DataType) -> Column:
    double = text.try_cast("double")
    is_single = isinstance(target, T.FloatType)
    made = double.try_cast(target) if is_single else double
    size, whole = F.abs(made), text.try_cast("decimal(38,0)").try_cast("bigint")
    wrong = [
        ~text.rlike(_FLOAT),
        (size == _INFINITE) & ~text.rlike("(?i)inf"),
        (size == 0) & text.rlike(_NOT_ZERO),
        (size >= _WHOLE_DOUBLES) & ~text.rlike("[eE]") & (whole != double.try_cast("bigint")),
    ]
    return _unless([*wrong, *(_not_single(made, double) if is_single else ())], made)


def _not_single(single: Column, double: Column) -> list[Column]:
    """Conditions under which a float differs from the double that it was made from by more than rounding a fraction."""
    size = F.abs(single)
    return [
        (size == _INFINITE) & (F.abs(double) != _INFINITE),
        (size == 0) & (double != 0),
        size.between(_WHOLE_FLOATS, _WHOLE_DOUBLES) & (single.cast("double") != double),
    ]


def _unless(wrong: list[Column], value: Column) -> Column:
    """The value; NULL if one of the conditions holds. One flat expression, see ``MAX_LEVELS``."""
    first, *others = wrong
    cases = F.when(first, None)
    for condition in others:
        cases = cases.when(condition, None)
    return cases.otherwise(value)


def _digits(number: Column) -> Column:
    """The significant digits of a number; a rounded number has fewer."""
    return F.regexp_replace(F.regexp_replace(number, r"[eE].*|[^0-9eE]", ""), "^0+|0+$", "")
