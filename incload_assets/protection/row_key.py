"""The key of a row as a person writes it: columns and values as text, converted to the types of the contract."""

import datetime as dt
import math
import re
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from typing import Any

import pyspark.sql.types as T

from incload_assets.contract.literals import Uncompilable, exact
from incload_assets.contract.protection import Tokens
from incload_assets.declaration.table import Table
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.protection.protect import token

PLAIN = (T.StringType, T.NumericType, T.DateType, T.TimestampType, T.BooleanType)
"""Types of columns by which a row can be named."""


def needed_columns(table: Table) -> tuple[str, ...]:
    """The columns without which a row cannot be named: those of its group, or the keys; empty: any columns will do."""
    return tuple(table.write.together() or table.changes.keys)


def key_columns(table: Table) -> tuple[str, ...]:
    """The columns by which a row can be named, those without which it cannot first."""
    needed = needed_columns(table)
    return tuple(dict.fromkeys((*needed, *table.identity, *table.changes.keys))) if needed else table.columns


def key_of(table: Table, words: Iterable[str]) -> dict[str, Any]:
    """The key that words such as ``order_id=17`` name.

    Args:
        table: The declaration.
        words: Each a column, an equals sign and a value; values are as in a CSV file.

    Returns:
        Values of the types of the contract, by column.

    Raises:
        IncrementalLoadError: A word has no equals sign, a column is missing, unknown, repeated or of a type that cannot
            be compared, or a value is not of the column's type.

    Example:
        >>> key_of(orders, ["order_id=17"])  # doctest: +SKIP
        {'order_id': 17}
    """
    given: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise _refused(table, f"{word!r} is no column with a value", "a row is named by COLUMN=VALUE")
        if name in given:
            raise _refused(table, f"{name!r} is given twice", "each column of the key is given once")
        given[name] = value
    needed, known = needed_columns(table), key_columns(table)
    for name in given:
        if name not in known:
            whose = "the key's columns are" if needed else "the contract's columns are"
            raise _refused(table, f"{name!r} is no column of the key", f"{whose} {', '.join(known)}")
    if missing := [name for name in needed if name not in given]:
        raise _refused(
            table, f"the key lacks {', '.join(map(repr, missing))}", f"a row is identified by {', '.join(needed)}"
        )
    return {name: _converted(table, name, text) for name, text in given.items()}


def _refused(table: Table, problem: str, rule: str) -> IncrementalLoadError:
    names = needed_columns(table) or table.columns[:1]
    example = " ".join(f"{name}=VALUE" for name in names)
    return IncrementalLoadError(
        f"{table.name}: {problem}", rule=rule, remedy=f"write incload trace {table.name} {example}"
    )


def _converted(table: Table, name: str, text: str) -> Any:
    kind = table.type_of(name)
    if not isinstance(kind, PLAIN):
        raise _refused(table, f"{name!r} is of type {kind.simpleString()}", "a row is named by columns of plain types")
    try:
        value = _parsed(_as_kept(table, name, text), kind)
        return value if isinstance(value, float) and math.isnan(value) else exact(value, kind)
    except (ValueError, InvalidOperation, Uncompilable):
        shown = "the value" if name in table.contract.personal else repr(text)
        raise IncrementalLoadError(
            f"{table.name}: {name}: {shown} is not {kind.simpleString()}",
            rule=f"{table.contract.model_name} declares {name!r} as {kind.simpleString()}",
            remedy=f"write {_EXAMPLES.get(kind.typeName(), 'a value that such a column can hold')}",
        ) from None


def _as_kept(table: Table, name: str, text: str) -> str:
    """The value as the table has it: the token of a hashed or tokenized one."""
    protection = table.contract.protections.get(name)
    if not isinstance(protection, Tokens) or re.fullmatch(protection.form, text):
        return text
    return token(protection, text)


_EXAMPLES = {
    "date": "for example 2026-01-05",
    "timestamp": "for example 2026-01-05T09:00:00Z; without an offset it is UTC",
    "boolean": "true or false",
}


def _parsed(text: str, kind: T.DataType) -> Any:
    match kind:
        case T.IntegralType():
            return int(text)
        case T.FloatType() | T.DoubleType():
            return float(text)
        case T.DecimalType():
            return Decimal(text)
        case T.BooleanType():
            return {"true": True, "false": False}.get(text.lower())
        case T.DateType():
            return dt.date.fromisoformat(text)
        case T.TimestampType():
            return dt.datetime.fromisoformat(text)
        case _:
            return text
