"""Parsing of declared SQL conditions; errors name the place and what to write instead."""

import re
from collections.abc import Iterator
from typing import Any

import pyspark.sql.types as T
import sqlglot
from sqlglot import exp

from incload_assets.contract.contract import Contract
from incload_assets.platform.errors import DeclarationError

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
"""Spark functions, as sqlglot names them, whose value may differ in a later load of the same change."""
_MOMENTS = ("now", "today", "tomorrow", "yesterday")
"""Strings that Spark casts to the time of the query."""
_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`")
_ODD_NAME = re.compile(r"(?=\w*[$#@])[\w$#@]+")


def condition_of_a_row(table_name: str, place: str, condition: str, rule: str, remedy: str) -> exp.Expr:
    """Parses a condition; refuses one that is not SQL, reads several rows, or depends on the time or on chance."""
    if odd := next(_odd_names(condition), None):
        raise DeclarationError(
            f"{table_name}: {place} is {condition!r}, with the name {odd} in it",
            rule="a name with characters other than letters, digits and _ must be quoted with backticks",
            remedy=f"write {place.rpartition('.')[2]}={_with_backticks(condition)!r}",
        )
    try:
        parsed = sqlglot.parse_one(condition, dialect="spark")
    except sqlglot.errors.SqlglotError as error:
        raise DeclarationError(
            f"{table_name}: {place} is {condition!r}, {_broken_at(error, condition)}",
            rule=rule,
            remedy=f"{remedy}; quote names that are SQL keywords or contain special characters with backticks: "
            "`change type` = 'd'",
        ) from None
    if isinstance(parsed, exp.Alias) or ";" in _QUOTED.sub("", condition):
        wrong = "a semicolon" if ";" in _QUOTED.sub("", condition) else f"the alias {parsed.alias!r}"
        raise DeclarationError(f"{table_name}: {place} is {condition!r}, with {wrong} in it", rule=rule, remedy=remedy)
    for kind, what in _OF_MANY_ROWS.items():
        if parsed.find(kind):
            raise DeclarationError(
                f"{table_name}: {place} is {condition!r}, with {what} in it",
                rule="it is evaluated for each row by itself",
                remedy=remedy,
            )
    if moment := next(filter(None, map(_moment_in, parsed.walk())), None):
        raise DeclarationError(
            f"{table_name}: {place} is {condition!r}, with {moment} in it",
            rule="it gives the same result whenever a row is loaded, because loads are repeated and checked",
            remedy=f"compare columns with each other and with constants; {remedy}",
        )
    return parsed


def columns_in(
    table_name: str, contract: Contract, place: str, condition: str, parsed: exp.Expr, remedy: str
) -> list[exp.Column]:
    """The columns (repeated) in a parsed condition; refuses members of no struct, and a mere column, not boolean."""
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
        if (name := columns[0].name) not in contract.names:
            remedy = f"write {place.rpartition('.')[2]}=\"{name} = 'true'\", or declare {name} as a boolean"
        raise DeclarationError(
            f"{table_name}: {place} is {condition!r}, a column that is not boolean",
            rule="it is a SQL condition; a column that the contract does not have is a string",
            remedy=remedy,
        )
    return columns


def _is_boolean(contract: Contract, column: exp.Column) -> bool:
    """True if a column may be boolean; the types of struct members are only known to Spark."""
    name, *members = (part.name for part in column.parts)
    return bool(members) or (name in contract.names and isinstance(contract.type_of(name), T.BooleanType))


def _moment_in(part: exp.Expr) -> str | None:
    """The function or string at the root of an expression that depends on the time or on chance, or None."""
    if isinstance(part, exp.Cast) and part.to.is_type(*exp.DataType.TEMPORAL_TYPES):
        text = part.this.name if isinstance(part.this, exp.Literal) else ""
        return repr(text) if text.strip().lower() in _MOMENTS else None
    if not isinstance(part, exp.Func):
        return None
    name = part.name if isinstance(part, exp.Anonymous) else part.sql_name()
    return name.lower() if name.lower() in _OF_THE_MOMENT else None


def _odd_names(condition: str) -> Iterator[str]:
    """Unquoted names with characters that SQL does not allow in them."""
    return (found[0] for found in _ODD_NAME.finditer(_QUOTED.sub(" ", condition)))


def _with_backticks(condition: str) -> str:
    either = re.compile(f"{_QUOTED.pattern}|(?P<odd>{_ODD_NAME.pattern})")
    return either.sub(lambda found: f"`{found['odd']}`" if found["odd"] else found[0], condition)


def _broken_at(error: sqlglot.errors.SqlglotError, condition: str) -> str:
    if not condition.strip():
        return "which is empty"
    places = getattr(error, "errors", None)
    if not places:
        return "in which a quote is not closed"
    rest = places[0]["highlight"] + places[0]["end_context"]
    return f"which cannot be parsed from {rest!r} on"
