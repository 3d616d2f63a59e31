"""A database table as the origin of a table: its catalog states types, NULLs and key; a query reads a sample."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyspark.sql.types as T
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from incload_assets.declaration.window import now
from incload_assets.inference.keys import counted, time_rank
from incload_assets.inference.measure import ROWS, UNREADABLE, Field
from incload_assets.inference.origin import WINDOW, Origin, Partitions
from incload_assets.inference.spelled import text
from incload_assets.platform.databases import Database
from incload_assets.platform.dialects.dialect import Stated
from incload_assets.platform.errors import SourceUnreadable
from incload_assets.sources.database.errors import looking
from incload_assets.sources.database.reading import jdbc_properties
from incload_assets.sources.database.relation import Relation, relation_of

_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_TYPES: Mapping[str, T.DataType] = {
    "boolean": T.BooleanType(), "bigint": T.LongType(), "double": T.DoubleType(), "date": T.DateType(),
    "timestamp": T.TimestampType(), "binary": T.BinaryType(), "string": T.StringType(),
}  # fmt: skip
_MOST_DIGITS = 38
_OLDEST = timedelta(days=3650)
"""Age beyond which rows get no windows of their own."""


def origin_of_table(spark: SparkSession, table: str, database_name: str, name: str) -> Origin:
    """The origin for a table or view of a database that the environment configures.

    Args:
        spark: The session that reads the sample.
        table: Name of the table that is declared, for messages.
        database_name: Name of the database in the environment.
        name: ``schema.table`` or ``table``.

    Raises:
        SourceUnreadable: There is no such table, or no column by which its changes can be read.
    """
    with looking(table, f"{database_name}.{name}"):
        database = Database.named(database_name)
        with database.connect() as connection:
            relation = relation_of(connection, table, database, name)
            stated = database.dialect.stated(connection, relation.catalog)
            by, is_time = _window_column(table, relation, stated)
            times = _times(connection, relation, by) if is_time else (None, None)
        frame = _rows(spark, database, relation, by)
        _ = frame.schema  # queries the database here, so that errors name it
    key = [column.name for column in stated if column.in_key]
    oldest, newest = (min(moment, now()) if moment else now() for moment in times)
    first = max(oldest, now() - _OLDEST)
    older = "; older rows belong to the first window" if first > oldest else ""
    why = f"the oldest {by} is of {oldest:%Y-%m-%d}{older}"
    today = f"rows up to now belong to today's window, by their {by}"
    partitions = Partitions("daily", _midnight(first), why if is_time else today)
    leading = next(column for column in stated if column.name == by)
    return Origin(
        place=f"the table {relation.place}",
        frame=frame.withColumn(WINDOW, F.lit("")),
        fields=[_field(column) for column in stated],
        source=f"{'QueryByTime' if is_time else 'QueryById'}({text(database_name)}, {text(name)}, "
        f"{'modified' if is_time else 'id'}={text(by)})",
        imports=["QueryByTime" if is_time else "QueryById"],
        partitions=partitions,
        newest=partitions.key_of(_midnight(newest if is_time else now())),
        keys=key,
        keys_why="the primary key in the database" if key else "",
        sequence=by if is_time else None,
        write=None if is_time else "Append()",
        notes=[f"windows by {by}, {'which leads an index' if leading.indexed else 'which has no index of its own'}"],
        questions=_questions(relation, by, leading, is_time=is_time),
    )


def _window_column(table: str, relation: Relation, stated: Sequence[Stated]) -> tuple[str, bool]:
    """The column whose ranges are windows, and whether it is a time: of the last change, else a number that counts."""
    kinds, dialect = {name: column.type for name, column in relation.columns.items()}, relation.dialect
    times = [(time_rank(c.name), place, c.name) for place, c in enumerate(stated) if kinds[c.name] in dialect.times]
    changed = [entry for entry in times if entry[0] == 0]
    whole = [column for column in stated if kinds[column.name] in dialect.integers]
    numbers = [column.name for column in whole if counted(column.name)]
    numbers += [c.name for c in whole if c.in_key and relation.columns[c.name].last is not None]  # from a sequence
    if changed or (times and not numbers):
        return min(changed or times)[2], True
    numbers += [column.name for column in whole if column.in_key]
    if numbers:
        return numbers[0], False
    raise SourceUnreadable(
        f"{table}: {relation.place} has no column by which changes can be read: {', '.join(relation.columns)}",
        rule="a table is read by a time of its last change (timestamp), or by a number that each new row counts up",
        remedy="add such a column, or read its changes with Debezium",
    )


def _times(connection: Any, relation: Relation, by: str) -> tuple[datetime | None, datetime | None]:
    """The oldest and the newest finite time of the column."""
    column = relation.dialect.quoted(by)
    query = f"SELECT min({column}), max({column}) FROM {relation.sql} WHERE {relation.dialect.finite(column)}"
    [found] = connection.rows(query)
    oldest, newest = (moment and (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) for moment in found)
    return oldest, newest


def _rows(spark: SparkSession, database: Database, relation: Relation, by: str) -> DataFrame:
    """The newest rows, with values as loads read them."""
    dialect, quoted = relation.dialect, relation.dialect.quoted
    selected = ", ".join(f"{dialect.readable(column)} AS c{n}" for n, column in enumerate(relation.columns.values()))
    newest = f"SELECT * FROM {relation.sql} ORDER BY {quoted(by)} IS NULL, {quoted(by)} DESC LIMIT {ROWS}"
    query = f"(SELECT {selected} FROM ({newest}) AS _newest) AS _rows"
    found = spark.read.jdbc(database.jdbc_url, query, properties=jdbc_properties(database))
    named = [F.col(f"c{number}").alias(name) for number, name in enumerate(relation.columns)]
    return found.select(*named, F.lit(None).cast("string").alias(UNREADABLE))


def _field(stated: Stated) -> Field:
    required = True if stated.required else None
    said = f"{stated.said} in the database"
    if stated.kind is None:
        return Field(stated.name, T.StringType(), stated="", required=required)
    if not (digits := _DECIMAL.fullmatch(stated.kind)):
        return Field(stated.name, _TYPES[stated.kind], stated=said, required=required)
    precision, scale = int(digits[1]), int(digits[2])
    fits = precision <= _MOST_DIGITS and scale <= precision
    kind = T.DecimalType(precision, scale) if fits else T.StringType()
    return Field(stated.name, kind, stated=said, required=required)


def _midnight(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)


def _questions(relation: Relation, by: str, leading: Stated, *, is_time: bool) -> list[str]:
    asked = []
    if is_time:
        asked.append(f"does every change of a row set {by}? Changes that do not are not seen, nor are deletes.")
        if time_rank(by):
            asked.append(f"{by} does not sound like the time of the last change. Is it?")
    else:
        asked.append(
            "do rows change after they were inserted? Their changes are not seen: a time of the last change "
            "(QueryByTime) or Debezium shows them."
        )
    if not leading.indexed:
        asked.append(f"may {by} have an index? Without one each look at the source reads the whole table.")
    return asked
