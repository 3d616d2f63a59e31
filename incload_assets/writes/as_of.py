"""The rows of a history as they were in effect at one time, and as they were known at another."""

from datetime import UTC, datetime

import pyspark.sql.types as T
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from incload_assets.declaration.table import Table
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.lake import Lake
from incload_assets.platform.sql import col
from incload_assets.writes.history import History

Point = datetime | int | None
"""A time (aware), a value of a sequence that is a whole number, or no restriction."""


def rows_as_of(
    spark: SparkSession, table: Table, lake: Lake, *, valid: Point = None, known: datetime | None = None
) -> DataFrame:
    """The versions of a history in effect at ``valid`` (None: all), as they were believed at ``known`` (None: now).

    The columns are the contract's and the version's; ``is_current`` and ``valid_to`` are as they were known then.
    The newest version of the table is read, whatever is committed later.

    Raises:
        IncrementalLoadError: The table does not keep what is asked for, it is not loaded yet, or a time has no zone.
    """
    write, name = table.write, table.name
    if not isinstance(write, History):
        raise IncrementalLoadError(
            f"{name}: {type(write).__name__}() keeps no versions",
            rule="only a history knows what was in effect at a time",
            remedy="read the table itself, or declare write=History(known=True) in a new table",
        )
    if known is not None and write.beliefs is None:
        raise IncrementalLoadError(
            f"{name}: it does not keep what was known at {known}",
            rule="a history keeps the time at which rows became known only if it is declared so",
            remedy="leave known out, or declare write=History(known=True) in a new table",
        )
    if (delta := lake.delta(uri := lake.table_uri(table.key.path))) is None:
        raise IncrementalLoadError(
            f"{name}: {uri} holds no table", remedy=f"load it: incload load {name} --all-missing"
        )
    rows = spark.read.format("delta").option("versionAsOf", delta.version()).load(lake.spark_uri(uri))
    if write.beliefs is not None:
        first, last, held = map(col, write.beliefs.names)
        at = None if known is None else _instant(f"{name}: known", known)
        rows = rows.filter(held if at is None else _in_effect(first, last, at))
    if valid is not None:
        rows = rows.filter(_in_effect(col(write.valid_from), col(write.valid_to), _valid_at(table, write, valid)))
    own = (write.valid_from, write.valid_to)
    return rows.select(*map(col, (*table.columns, *own)), col(write.valid_to).isNull().alias(write.is_current))


def _in_effect(first: Column, last: Column, at: Column) -> Column:
    """The condition of the half-open period; it is never NULL."""
    return (first.isNull() | (first <= at)) & (last.isNull() | (last > at))


def _valid_at(table: Table, write: History, valid: datetime | int) -> Column:
    """The time as a value of the first sequence column, which is the time of versions."""
    first = table.changes.sequence_by[0]
    kind, what = table.type_of(first), f"{table.name}: valid"
    if isinstance(kind, T.TimestampType | T.TimestampNTZType | T.DateType) and isinstance(valid, datetime):
        return _instant(what, valid).cast(kind)
    if isinstance(kind, T.IntegralType) and isinstance(valid, int) and not isinstance(valid, bool):
        return F.lit(valid).cast("bigint")
    raise IncrementalLoadError(
        f"{what}={valid!r} is no {kind.simpleString()}",
        rule=f"{write.valid_from} and {write.valid_to} are values of {first}",
        remedy="give a whole number" if isinstance(kind, T.IntegralType) else "give a time with its zone",
    )


def _instant(what: str, at: datetime) -> Column:
    if at.tzinfo is None:
        raise IncrementalLoadError(
            f"{what}={at!r} has no time zone",
            rule="times are instants",
            remedy="give it a zone, for example datetime(2026, 1, 3, tzinfo=UTC)",
        )
    return F.lit(at.astimezone(UTC).isoformat()).cast("timestamp")
