"""Conditions of ``Changes`` evaluated in Python, with SQL's three values; others than the plain ones need Spark."""

from collections.abc import Callable, Mapping
from decimal import Decimal
from operator import eq, ge, gt, le, lt, ne
from typing import Any

import pyspark.sql.types as T
import sqlglot
from sqlglot import exp

from incload_assets.trial.values import NeedsSpark

_COMPARISONS: dict[type[exp.Expr], Callable[[Any, Any], bool]] = {
    exp.EQ: eq, exp.NEQ: ne, exp.GT: gt, exp.GTE: ge, exp.LT: lt, exp.LTE: le,
}  # fmt: skip
_NUMBERS = (T.IntegralType, T.DecimalType)


def holds(condition: str | None, row: Mapping[str, Any], types: Mapping[str, T.DataType]) -> bool:
    """True if a row meets a condition; columns without a type are strings.

    Raises:
        NeedsSpark: The condition has something other than comparisons of columns with constants.

    Example:
        >>> holds("op = 'd' OR gone", {"op": "u", "gone": True}, {"gone": T.BooleanType()})
        True
    """
    if condition is None:
        return False

    def kind(side: exp.Expr) -> str:
        if isinstance(side, exp.Column):
            declared = types.get(side.name, T.StringType())
            if isinstance(declared, T.StringType):
                return "text"
            return "number" if isinstance(declared, _NUMBERS) else declared.simpleString()
        if isinstance(side, exp.Literal):
            return "text" if side.is_string else "number"
        return "boolean" if isinstance(side, exp.Boolean) else "other"

    def value(side: exp.Expr) -> Any:
        if isinstance(side, exp.Column) and side.name in row and not side.table:
            return row[side.name]
        if isinstance(side, exp.Literal):
            return side.name if side.is_string else Decimal(side.name)
        if isinstance(side, exp.Boolean):
            return bool(side.this)
        raise NeedsSpark(f"only Spark evaluates {condition!r}")

    def compared(one: exp.Expr, other: exp.Expr, compare: Callable[[Any, Any], bool]) -> bool | None:
        one, other = one.unnest(), other.unnest()
        if kind(one) != kind(other) or kind(one) not in ("text", "number", "boolean"):
            raise NeedsSpark(f"only Spark evaluates {condition!r}")
        left, right = value(one), value(other)
        return None if left is None or right is None else compare(left, right)

    def true(found: exp.Expr) -> bool | None:
        match found:
            case exp.Paren():
                return true(found.this)
            case exp.Not():
                said = true(found.this)
                return None if said is None else not said
            case exp.And() | exp.Or():
                both, decides = {true(found.left), true(found.right)}, isinstance(found, exp.Or)
                return decides if decides in both else None if None in both else not decides
            case exp.In() if found.expressions and not found.args.get("query"):
                each = {compared(found.this, one, eq) for one in found.expressions}
                return True if True in each else None if None in each else False
            case exp.Is() if isinstance(found.expression, exp.Null):
                return value(found.this) is None
            case exp.Column() | exp.Boolean() if kind(found) == "boolean":
                said = value(found)
                return None if said is None else bool(said)
            case _ if type(found) in _COMPARISONS:
                return compared(found.this, found.expression, _COMPARISONS[type(found)])
        raise NeedsSpark(f"only Spark evaluates {condition!r}")

    return true(sqlglot.parse_one(condition, dialect="spark")) is True
