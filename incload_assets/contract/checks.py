r"""pandera's built-in checks as Spark column expressions, with the meaning they have in Python.

Checks do not apply to NULL (``nullable`` is its own rule), and NaN satisfies no bound. Bounds must be exact values of
the column's type, so that a comparison never casts, rounds or throws.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyspark.sql.types as T
from pyspark.sql import Column
from pyspark.sql import functions as F

from incload_assets.contract.literals import INTEGERS, Uncompilable, exact, literal
from incload_assets.contract.numbers import FLOATING
from incload_assets.contract.patterns import java_pattern


@dataclass(frozen=True)
class Rule:
    """One check of one field; ``holds`` is NULL for NULL.

    Args:
        broken: Description of a value that fails the check, for example ``not in [new, paid]``.
        arguments: All arguments of the check as text, so that a changed check is noticed even if ``broken`` is cut.
        passes: The same check of a value in Python, other than NULL and NaN.
    """

    check: str
    broken: str
    arguments: str
    holds: Callable[[Column], Column] = field(compare=False, repr=False)
    passes: Callable[[Any], bool] = field(compare=False, repr=False)


def compile_check(name: str, statistics: Mapping[str, Any], data_type: T.DataType) -> Rule:
    """The rule of a built-in check, by pandera's name and arguments; Uncompilable if there is none for the type."""
    builder = _BUILDERS.get(name)
    if builder is None:
        raise Uncompilable(
            "it cannot be compiled to a column expression, which is needed to find the rows that fail",
            f"use the built-in checks ({', '.join(CHECKS)}), or compute a boolean column in the table's function "
            "and declare it with eq=True",
        )
    allowed = _COMPARABLE
    if name in _EQUALITY:
        allowed = (*_COMPARABLE, T.BooleanType, T.StringType, T.BinaryType)
    elif name in _MEMBERSHIP:
        allowed = (*_COMPARABLE, T.StringType, T.BinaryType)
    elif name.startswith("str_"):
        allowed = (T.StringType,)
    if not isinstance(data_type, allowed):
        raise Uncompilable(
            f"it does not apply to {data_type.simpleString()}",
            f"use it on {', '.join(sorted(kind.typeName() for kind in allowed))}, or leave it out",
        )
    arguments = {key: _settled(value) for key, value in sorted(statistics.items())}
    broken, holds, passes = builder(arguments, data_type)
    return Rule(name, broken, repr(arguments), holds, passes)


def _settled(value: Any) -> Any:
    """An argument with a stable and complete ``repr``; sets have no order, and ``repr`` cuts long patterns."""
    if isinstance(value, set | frozenset):
        return sorted(value, key=repr)
    return (value.pattern, int(value.flags)) if isinstance(value, re.Pattern) else value


_COMPARABLE: tuple[type[T.DataType], ...] = (*INTEGERS, *FLOATING, T.DecimalType, T.DateType, T.TimestampType)
_EQUALITY = ("equal_to", "not_equal_to")
_MEMBERSHIP = ("isin", "notin")
CHECKS = (
    "eq", "ne", "gt", "ge", "lt", "le", "in_range", "isin", "notin",
    "str_matches", "str_contains", "str_startswith", "str_endswith", "str_length",
)  # fmt: skip
"""The built-in checks, by their names as arguments of ``pa.Field``."""
_Built = tuple[str, Callable[[Column], Column], Callable[[Any], bool]]


def _comparison(argument: str, sign: str, compare: Callable[[Any, Any], Any]) -> Callable[..., _Built]:
    def build(statistics: Mapping[str, Any], data_type: T.DataType) -> _Built:
        value = exact(statistics[argument], data_type)

        def holds(column: Column) -> Column:
            compared: Column = compare(column, literal(value, data_type))
            # Spark sorts NaN above every number, but in Python NaN satisfies no bound
            return compared & ~F.isnan(column) if sign in (">", ">=") and isinstance(data_type, FLOATING) else compared

        return f"not {sign} {statistics[argument]}", holds, lambda given: bool(compare(given, value))

    return build


_at_least = _comparison("min_value", ">=", lambda column, bound: column >= bound)
_above = _comparison("min_value", ">", lambda column, bound: column > bound)
_at_most = _comparison("max_value", "<=", lambda column, bound: column <= bound)
_below = _comparison("max_value", "<", lambda column, bound: column < bound)


def _in_range(statistics: Mapping[str, Any], data_type: T.DataType) -> _Built:
    low, high = statistics["min_value"], statistics["max_value"]
    with_low, with_high = statistics.get("include_min", True), statistics.get("include_max", True)
    _, lower, is_high_enough = (_at_least if with_low else _above)(statistics, data_type)
    _, upper, is_low_enough = (_at_most if with_high else _below)(statistics, data_type)
    brackets = "[" if with_low else "(", "]" if with_high else ")"
    if exact(low, data_type) > exact(high, data_type):
        raise Uncompilable(f"its range from {low!r} to {high!r} is empty", "give the smaller value first")
    return (
        f"not in range {brackets[0]}{low}, {high}{brackets[1]}",
        lambda column: lower(column) & upper(column),
        lambda given: is_high_enough(given) and is_low_enough(given),
    )


def _membership(argument: str, text: str, negate: bool) -> Callable[..., _Built]:
    def build(statistics: Mapping[str, Any], data_type: T.DataType) -> _Built:
        values = statistics[argument]
        # pandera turns a tuple of one string into the string, which would count as a set of letters
        if isinstance(values, str | bytes) or not isinstance(values, Iterable) or not (values := list(values)):
            raise Uncompilable(f"its values are {values!r}", "give a list of at least one value")
        members = [exact(value, data_type) for value in values]

        def holds(column: Column) -> Column:
            inside = column.isin([literal(member, data_type) for member in members])
            return ~inside if negate else inside

        shown = ", ".join(map(str, values[:10])) + (f", ... {len(values)} values" if len(values) > 10 else "")
        return f"{text} [{shown}]", holds, lambda given: (given in members) is not negate

    return build


def _matches(statistics: Mapping[str, Any], _: T.DataType) -> _Built:
    # like re.match, anchored at the start of the string only
    source, flags, pattern = _pattern(statistics["pattern"], anchored=True)
    found = re.compile(source, flags).match
    return f"does not match {source}", lambda column: column.rlike(pattern), lambda given: found(given) is not None


def _contains(statistics: Mapping[str, Any], _: T.DataType) -> _Built:
    source, flags, pattern = _pattern(statistics["pattern"], anchored=False)
    found = re.compile(source, flags).search
    return f"does not contain {source}", lambda column: column.rlike(pattern), lambda given: found(given) is not None


def _pattern(pattern: Any, *, anchored: bool) -> tuple[str, int, str]:
    source, flags = pattern if isinstance(pattern, tuple) else (pattern, 0)
    return source, flags, java_pattern(source, flags, anchored=anchored)


def _starts(statistics: Mapping[str, Any], _: T.DataType) -> _Built:
    start = exact(statistics["string"], T.StringType())
    return (
        f"does not start with {start!r}",
        lambda column: column.startswith(F.lit(start)),
        lambda given: given.startswith(start),
    )


def _ends(statistics: Mapping[str, Any], _: T.DataType) -> _Built:
    end = exact(statistics["string"], T.StringType())
    return f"does not end with {end!r}", lambda column: column.endswith(F.lit(end)), lambda given: given.endswith(end)


def _length(statistics: Mapping[str, Any], _: T.DataType) -> _Built:
    only = statistics.get("exact_value")
    low, high = (statistics.get("min_value"), statistics.get("max_value")) if only is None else (only, only)
    if low is None and high is None:
        raise Uncompilable("it has no length", "give min_value, max_value or both")
    least = 0 if low is None else exact(low, T.IntegerType())
    most = 2**31 - 1 if high is None else exact(high, T.IntegerType())
    if least > most:
        raise Uncompilable(f"its range of lengths from {least} to {most} is empty", "give the smaller length first")
    wanted = str(least) if least == most else f"{least}..{'' if high is None else most}"
    return (
        f"has a length not in {wanted} characters",
        lambda column: F.length(column).between(least, most),
        lambda given: least <= len(given) <= most,
    )


def _unequal(statistics: Mapping[str, Any], data_type: T.DataType) -> _Built:
    value = exact(statistics["value"], data_type)
    return (
        f"is the excluded {statistics['value']}",
        lambda column: column != literal(value, data_type),
        lambda given: bool(given != value),
    )


_BUILDERS: dict[str, Callable[..., _Built]] = {
    "equal_to": _comparison("value", "=", lambda column, value: column == value),
    "not_equal_to": _unequal,
    "greater_than": _above,
    "greater_than_or_equal_to": _at_least,
    "less_than": _below,
    "less_than_or_equal_to": _at_most,
    "in_range": _in_range,
    "isin": _membership("allowed_values", "not in", False),
    "notin": _membership("forbidden_values", "in the excluded", True),
    "str_matches": _matches,
    "str_contains": _contains,
    "str_startswith": _starts,
    "str_endswith": _ends,
    "str_length": _length,
}
