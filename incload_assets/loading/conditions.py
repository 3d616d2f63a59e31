"""The conditions that tell what kind a change is, and the fields of the source that they need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyspark.sql.types as T
import sqlglot
from sqlglot import exp

from incload_assets.loading.contract import Contract
from incload_assets.loading.errors import DeclarationError

if TYPE_CHECKING:
    from incload_assets.loading.declaration import Changes
    from incload_assets.loading.sources.base import Source
    from incload_assets.loading.writes.base import Write

CONDITIONS = ("delete_when", "truncate_when", "snapshot_when", "moved_when")
"""The conditions of ``Changes``."""
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


def check_conditions(table: str, contract: Contract, changes: Changes, write: Write, source: Source) -> tuple[str, ...]:
    """Check what a declaration says of deletes, truncates and unavailable values.

    Returns:
        Names in the conditions that are read from the source although the contract does not keep them.

    Raises:
        DeclarationError: The way of writing, or the source, does not know them; or a condition is no SQL.
    """
    way = type(write).__name__
    by_column = write.by_column(changes)
    knows = {"unavailable": by_column, "moved_when": by_column, "delete_when": write.deletes}
    knows |= {"truncate_when": write.truncates, "snapshot_when": write.truncates}
    unknown = [name for name, known in knows.items() if not known and getattr(changes, name) is not None]
    drop, whole = f"drop {', '.join(unknown)}", source.whole_changes if write.deletes else ""
    if changes.unavailable is not None and not (changes.unavailable and by_column):
        raise DeclarationError(
            f"{table}: changes.unavailable is {changes.unavailable!r}"
            + (f", but {way} writes whole rows" if changes.unavailable else ""),
            rule="it is the text where a source does not know a value, for ways of writing that can keep the old one",
            remedy=f"write Merge(); or {whole or f'{drop}, if the source writes whole rows'}"
            if changes.unavailable
            else "drop unavailable, or name the text",
        )
    for field, what in (("truncate_when", "truncate"), ("snapshot_when", "snapshot")):
        if (condition := getattr(changes, field)) is None:
            continue
        fitting = whole if field == "truncate_when" else ""
        if not write.truncates:
            raise DeclarationError(
                f"{table}: changes.{field} is {condition!r}, but {way} knows no {what}s among changes",
                rule=f"a {what} deletes older rows of a table that is kept by key",
                remedy=f"{fitting or drop}, or write Merge()",
            )
        if write.partition_by is not None:
            raise DeclarationError(
                f"{table}: changes.{field} is {condition!r} and write.partition_by is {write.partition_by!r}",
                rule=f"a {what} concerns all partitions, a load of a partitioned table only those of its changes",
                remedy=f"{fitting or f'drop {field}'}; or drop partition_by: the table is a state table then",
            )
        if changes.sequence_by[0] in changes.keys:
            raise DeclarationError(
                f"{table}: changes.{field} is {condition!r}, and {changes.sequence_by[0]!r} is in changes.keys, too",
                rule=f"a {what} deletes what is older than its sequence, whatever the key",
                remedy=f"drop {field}, or order by a column that is not part of the key",
            )
    if changes.delete_when is not None and not write.deletes:
        raise DeclarationError(
            f"{table}: changes.delete_when is {changes.delete_when!r}, but {way} knows no deletes",
            rule="a change deletes a row only where rows are kept by key",
            remedy="drop delete_when, or write Merge() or History()",
        )
    if changes.moved_when is not None and (changes.unavailable is None or changes.delete_when is None):
        raise DeclarationError(
            f"{table}: changes.moved_when is {changes.moved_when!r}, without unavailable or without delete_when",
            rule="it tells where unavailable values stand: under the key that is deleted at the same sequence",
            remedy="declare both, or drop moved_when",
        )
    names: dict[str, None] = {}
    for field in CONDITIONS:
        if (condition := getattr(changes, field)) is None:
            continue
        if field in ("delete_when", "truncate_when") and not source.sees.deletes:
            raise DeclarationError(
                f"{table}: changes.{field} is {condition!r}, but {type(source).__name__} sees no deletes",
                rule="a table asks only for what its source can show",
                remedy=f"drop {field}, or use a source that carries deletes",
            )
        names |= dict.fromkeys(_names_in(table, contract, f"changes.{field}", condition))
    return tuple(name for name in names if name not in contract.names)


def condition_of_a_row(table: str, place: str, condition: str, rule: str, remedy: str) -> exp.Expr:
    """Parse a condition that is asked of each row by itself, and has the same answer whenever it is asked.

    Args:
        table: For messages.
        place: Where it is declared, for messages.
        condition: In Spark's SQL.
        rule: What it is, for messages.
        remedy: What to write, for messages.

    Raises:
        DeclarationError: It is no SQL, looks at many rows, or depends on when it is asked, or on chance.
    """
    try:
        parsed = sqlglot.parse_one(condition, dialect="spark")
    except sqlglot.errors.SqlglotError as error:
        reason = str(error).splitlines()[0]
        raise DeclarationError(f"{table}: {place} is {condition!r}: {reason}", rule=rule, remedy=remedy) from None
    for kind, what in _OF_MANY_ROWS.items():
        if parsed.find(kind):
            raise DeclarationError(
                f"{table}: {place} is {condition!r}, with {what} in it",
                rule="it is asked of each row by itself",
                remedy=remedy,
            )
    if moment := next(filter(None, map(_moment_in, parsed.walk())), None):
        raise DeclarationError(
            f"{table}: {place} is {condition!r}, with {moment} in it",
            rule="it says the same of a row whenever it is loaded, as loads are repeated and looked over",
            remedy=f"compare columns with each other and with constants; {remedy}",
        )
    return parsed


def _names_in(table: str, contract: Contract, place: str, condition: str) -> list[str]:
    example = f"write for example {place.split('.')[1]}=\"op = 'd'\""
    parsed = condition_of_a_row(table, place, condition, "it is a SQL condition on the source's columns", example)
    columns = list(parsed.find_all(exp.Column))
    for column in columns:
        _check_member(table, contract, place, condition, column)
    names = list(dict.fromkeys(column.parts[0].name for column in columns))
    if not names:
        raise DeclarationError(
            f"{table}: {place} is {condition!r}, which names no column",
            rule="it tells for each change what kind it is",
            remedy=example,
        )
    if isinstance(parsed.unnest(), exp.Column) and not _is_boolean(contract, columns[0]):
        raise DeclarationError(
            f"{table}: {place} is {condition!r}, a column that is neither true nor false",
            rule="it is a SQL condition; a column that the contract does not have is a text",
            remedy=example,
        )
    spelled = {name.lower(): name for name in contract.names}
    for name in names:
        if spelled.get(name.lower(), name) != name:
            raise DeclarationError(
                f"{table}: {place} names {name!r}, {contract.model_name} has {spelled[name.lower()]!r}",
                rule="Spark does not tell names apart that differ only by case",
                remedy="spell both alike, or rename the column of the contract",
            )
    return names


def _moment_in(part: exp.Expr) -> str | None:
    """What depends on the moment or on chance in a part of a condition, without the parts in it."""
    if isinstance(part, exp.Cast) and part.to.is_type(*exp.DataType.TEMPORAL_TYPES):
        text = part.this.name if isinstance(part.this, exp.Literal) else ""
        return repr(text) if text.strip().lower() in _MOMENTS else None
    if not isinstance(part, exp.Func):
        return None
    name = part.name if isinstance(part, exp.Anonymous) else part.sql_name()
    return name.lower() if name.lower() in _OF_THE_MOMENT else None


def _check_member(table: str, contract: Contract, place: str, condition: str, column: exp.Column) -> None:
    name, *members = (part.name for part in column.parts)
    if members and not (name in contract.names and isinstance(contract.type_of(name), T.StructType)):
        raise DeclarationError(
            f"{table}: {place} is {condition!r}, with a member of {name!r}",
            rule=f"only a column that {contract.model_name} declares as a struct has members",
            remedy=f"declare {name!r} with its members, or quote the whole name: `{'.'.join([name, *members])}`",
        )


def _is_boolean(contract: Contract, column: exp.Column) -> bool:
    """Whether it may be; of members only Spark knows."""
    name, *members = (part.name for part in column.parts)
    return bool(members) or (name in contract.names and isinstance(contract.type_of(name), T.BooleanType))
