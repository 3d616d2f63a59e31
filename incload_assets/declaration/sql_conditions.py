"""Conditions of a declaration, parsed; and why one cannot be, in words that name the place and what to write."""

import re
from collections.abc import Iterator
from typing import Any

import pyspark.sql.types as T
import sqlglot
from sqlglot import exp

from incload_assets.contract.contract import Contract
from resources.errors import DeclarationError

_OF_MANY_ROWS: dict[type[Any], str] = {
    exp.Query: "a query",
    exp.Window: "a window",
    exp.AggFunc: "an aggregate",
    exp.UDTF: "a table function",
}
_OF_THE_MOMENT = {
    "now", "current_date", "current_timestamp", "current_time", "localtimestamp", "current_timezone", "current_user",
    "session_user", "user", "current_catalog", "current_database", "current_schema", "rand", "randn", "randstr",
    "uniform", "uuid", "shuffle", "reflect", "try_reflect", "java_method", "monotonically_increasing_id",
    "spark_partition_id", "input_file_name", "input_file_block_start", "input_file_block_length",
}  # fmt: skip
"""Functions of Spark that a later load of the same change may have another value of, as sqlglot names them."""
_MOMENTS = ("now", "today", "tomorrow", "yesterday")
"""Texts that Spark casts to the time of the query."""
_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`")
_ODD_NAME = re.compile(r"(?=\w*[$#@])[\w$#@]+")


def condition_of_a_row(table_name: str, place: str, condition: str, rule: str, remedy: str) -> exp.Expr:
    """Parse a condition that is asked of each row by itself, and has the same answer whenever it is asked.

    Args:
        table_name: For messages.
        place: Where it is declared, for messages.
        condition: In Spark's SQL.
        rule: What it is, for messages.
        remedy: What to write, for messages.

    Raises:
        DeclarationError: It is no SQL, looks at many rows, or depends on when it is asked, or on chance.
    """
    if odd := next(_odd_names(condition), None):
        raise DeclarationError(
            f"{table_name}: {place} is {condition!r}, with the name {odd} in it",
            rule="a name with other signs than letters, digits and _ stands in backticks",
            remedy=f"write {place.rpartition('.')[2]}={_with_backticks(condition)!r}",
        )
    try:
        parsed = sqlglot.parse_one(condition, dialect="spark")
    except sqlglot.errors.SqlglotError as error:
        raise DeclarationError(
            f"{table_name}: {place} is {condition!r}, {_broken_at(error, condition)}",
            rule=rule,
            remedy=f"{remedy}; names that are words of SQL, or hold signs such as blanks, stand in backticks: "
            "`change type` = 'd'",
        ) from None
    if isinstance(parsed, exp.Alias) or ";" in _QUOTED.sub("", condition):
        wrong = "a semicolon" if ";" in _QUOTED.sub("", condition) else f"the alias {parsed.alias!r}"
        raise DeclarationError(f"{table_name}: {place} is {condition!r}, with {wrong} in it", rule=rule, remedy=remedy)
    for kind, what in _OF_MANY_ROWS.items():
        if parsed.find(kind):
            raise DeclarationError(
                f"{table_name}: {place} is {condition!r}, with {what} in it",
                rule="it is asked of each row by itself",
                remedy=remedy,
            )
    if moment := next(filter(None, map(_moment_in, parsed.walk())), None):
        raise DeclarationError(
            f"{table_name}: {place} is {condition!r}, with {moment} in it",
            rule="it says the same of a row whenever it is loaded, as loads are repeated and looked over",
            remedy=f"compare columns with each other and with constants; {remedy}",
        )
    return parsed


def columns_in(
    table_name: str, contract: Contract, place: str, condition: str, parsed: exp.Expr, remedy: str
) -> list[exp.Column]:
    """The columns that a parsed condition names, each as often as it does.

    Args:
        table_name: For messages.
        contract: Of the table.
        place: As for :func:`condition_of_a_row`.
        condition: As declared.
        parsed: The same.
        remedy: What to write, for messages.

    Raises:
        DeclarationError: It asks for a member of what is no struct, or is nothing but a column that is not boolean.
    """
    columns = list(parsed.find_all(exp.Column))
    for column in columns:
        name, *members = (part.name for part in column.parts)
        if members and not (name in contract.names and isinstance(contract.type_of(name), T.StructType)):
            raise DeclarationError(
                f"{table_name}: {place} is {condition!r}, with a member of {name!r}",
                rule=f"only a column that {contract.model_name} declares as a struct has members",
                remedy=f"declare {name!r} with its members, or quote the whole name: `{'.'.join([name, *members])}`",
            )
    if isinstance(parsed.unnest(), exp.Column) and not _is_boolean(contract, columns[0]):
        raise DeclarationError(
            f"{table_name}: {place} is {condition!r}, a column that is neither true nor false",
            rule="it is a SQL condition; a column that the contract does not have is a text",
            remedy=remedy,
        )
    return columns


def _is_boolean(contract: Contract, column: exp.Column) -> bool:
    """Whether it may be; of members only Spark knows."""
    name, *members = (part.name for part in column.parts)
    return bool(members) or (name in contract.names and isinstance(contract.type_of(name), T.BooleanType))


def _moment_in(part: exp.Expr) -> str | None:
    """The function that depends on the moment or on chance in a part of a condition, without the parts in it."""
    if isinstance(part, exp.Cast) and part.to.is_type(*exp.DataType.TEMPORAL_TYPES):
        text = part.this.name if isinstance(part.this, exp.Literal) else ""
        return repr(text) if text.strip().lower() in _MOMENTS else None
    if not isinstance(part, exp.Func):
        return None
    name = part.name if isinstance(part, exp.Anonymous) else part.sql_name()
    return name.lower() if name.lower() in _OF_THE_MOMENT else None


def _odd_names(condition: str) -> Iterator[str]:
    """Names with signs that SQL has no use for in a name without quotes."""
    return (found[0] for found in _ODD_NAME.finditer(_QUOTED.sub(" ", condition)))


def _with_backticks(condition: str) -> str:
    """The condition with its odd names quoted."""
    either = re.compile(f"{_QUOTED.pattern}|(?P<odd>{_ODD_NAME.pattern})")
    return either.sub(lambda found: f"`{found['odd']}`" if found["odd"] else found[0], condition)


def _broken_at(error: sqlglot.errors.SqlglotError, condition: str) -> str:
    """The place from which a condition cannot be read."""
    if not condition.strip():
        return "which is empty"
    places = getattr(error, "errors", None)
    if not places:
        return "in which a quote is not closed"
    rest = places[0]["highlight"] + places[0]["end_context"]
    return f"which cannot be read from {rest!r} on"
