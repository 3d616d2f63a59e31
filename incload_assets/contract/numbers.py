"""Numbers: a value becomes the type as the number that it is, however it is written, or not at all.

``1e2``, ``100.0`` and ``100`` are one number, in a text as in a file with types. It becomes a whole number or a decimal
exactly. A double or float is the nearest that there is to a fraction, which is what such types are for; but a whole
number that it cannot hold, as above 2**53, a number too large for it and one that would be 0 become nothing. A truth
value is no number; 1 and 0 are truth values.
"""

import pyspark.sql.types as T
from pyspark.sql import Column
from pyspark.sql import functions as F

FLOATING = (T.FloatType, T.DoubleType)

_FLOAT = r"^\s*[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|(?i:nan|inf|infinity))\s*$"
_NOT_ZERO = r"^[^eE]*[1-9]"
# Spark would work out the digits of 1e-999999999
_SCIENTIFIC = r"[eE][+-]?0*\d{1,3}\s*$"
# at most as many digits after the point as the exponent takes before it
_WHOLE = r"^\s*[+-]?(?=\.?\d)\d*(?:\.0*|{})\s*$".format(
    "|".join(rf"(?:\.\d{{0,{exponent}}}0*)?[eE]\+?0*{exponent}" for exponent in range(20))
)
_INFINITE = float("inf")
_WHOLE_DOUBLES, _WHOLE_FLOATS = 2.0**53, 2.0**24
"""From here on not every whole number is one of the type."""


def number_of_text(text: Column, target: T.DataType) -> Column:
    """The number that a text stands for, NULL where it stands for none that the type holds.

    Args:
        text: In decimal or scientific notation; spaces around it are not looked at.
        target: A numeric type, or boolean, which 1 and 0 are as well as ``true``, ``yes`` and the like.
    """
    if isinstance(target, T.DecimalType):
        return _decimal(text, target)
    if isinstance(target, FLOATING):
        return _floating(text, target)
    # nearly all are written plainly, for which Spark's own cast is quick and exact
    whole = F.when(text.rlike(_WHOLE), text.try_cast("decimal(20,0)").try_cast(target))
    return F.coalesce(text.try_cast(target), whole)


def number_of_number(value: Column, source: T.DataType, target: T.DataType) -> Column:
    """A number of one type as one of another; NULL where that does not hold it.

    Args:
        value: A number.
        source: Its type.
        target: As for :func:`number_of_text`.
    """
    if isinstance(target, FLOATING) and not isinstance(source, FLOATING):
        return _floating(value.cast("string"), target)
    cast = value.try_cast(target)
    if isinstance(source, FLOATING) and isinstance(target, FLOATING):
        return cast if isinstance(target, T.DoubleType) else _unless(_not_single(cast, value), cast)
    same = cast.try_cast(source).eqNullSafe(value)
    if isinstance(source, FLOATING) and isinstance(target, T.LongType):
        same &= value < F.lit(2.0**63)  # which becomes one less, and that becomes 2**63 again
    return F.when(same, cast)


def _decimal(text: Column, target: T.DecimalType) -> Column:
    cast = text.try_cast(target)
    # more fraction digits than the scale holds would be rounded away; Spark knows the digits of all scripts
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
    """Why a double is not the float that it became."""
    size = F.abs(single)
    return [
        (size == _INFINITE) & (F.abs(double) != _INFINITE),
        (size == 0) & (double != 0),
        size.between(_WHOLE_FLOATS, _WHOLE_DOUBLES) & (single.cast("double") != double),
    ]


def _unless(wrong: list[Column], value: Column) -> Column:
    """The value, NULL where one of the conditions holds; as flat as can be, see ``MAX_LEVELS``."""
    first, *others = wrong
    cases = F.when(first, None)
    for condition in others:
        cases = cases.when(condition, None)
    return cases.otherwise(value)


def _digits(number: Column) -> Column:
    """The digits of a number from its first to its last that is not 0: fewer where it was rounded."""
    return F.regexp_replace(F.regexp_replace(number, r"[eE].*|[^0-9eE]", ""), "^0+|0+$", "")
