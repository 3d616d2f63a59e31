"""Reads ranges of a database table with Spark over JDBC, in pieces, with the conditions in the query."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from incload_assets.platform.databases import Database
from incload_assets.platform.dialects.dialect import Column, Dialect
from incload_assets.sources.database.ranges import MAX_STRETCHES, Range, any_of, buckets, within
from incload_assets.sources.database.relation import Relation
from incload_assets.sources.files.records import in_json

ROWS_PER_READ = 250_000
FETCH_ROWS = 10_000
_MAX_READS = 64
# without quotes, so that they are the same in each dialect
_AT, _BUCKET, _BY = "incload_at", "incload_bucket", "incload_by"


@dataclass(frozen=True)
class Part:
    """A range to read, with the number of its rows and the bounds of its values."""

    range: Range
    rows: int = 0
    least: int | None = None
    most: int | None = None


def read_parts(
    spark: SparkSession,
    database: Database,
    relation: Relation,
    column: Column,
    parts: Mapping[str, Part],
    fields: Sequence[str],
) -> DataFrame:
    """The rows of ranges, with the columns of :meth:`Source.extract`, and ``_window``, the key of each row's range."""
    asked = {key: part for key, part in parts.items() if not part.range.empty}
    dialect, quoted = relation.dialect, relation.dialect.quoted
    bucket, numbers = buckets(dialect, column, (part.range for part in asked.values()))
    keys = {numbers[part.range]: key for key, part in asked.items()}
    names = [keys.get(number, "") for number in range(max(keys, default=0) + 1)]
    selected = [f"{dialect.readable(known)} AS c{number}" for number, known in enumerate(relation.columns.values())]
    selected += [f"{dialect.value(column)} AS {_AT}", f"{bucket} AS {_BUCKET}"]
    selected += [f"{quoted(column.name)} AS {_BY}"]
    frame = spark.read.jdbc(
        database.jdbc_url,
        f"(SELECT {', '.join(selected)} FROM {relation.sql}) AS _rows",
        predicates=_pieces(dialect, column, asked.values()) or ["1 = 0"],
        properties=jdbc_properties(database),
    )
    values = {name: F.col(f"c{number}") for number, name in enumerate(relation.columns)}
    nothing = F.lit(None).cast("string")
    place = (
        F.lit(relation.place).alias("file"),
        F.lit(0).cast("bigint").alias("block"),
        F.col(_AT).cast("bigint").alias("row"),
    )
    return frame.select(
        F.struct(*(values.get(name, nothing).alias(name) for name in fields)).alias("_raw"),
        *in_json(values, fields),
        nothing.alias("_malformed"),
        F.struct(*place).alias("_source"),
        F.get(F.array(*map(F.lit, names)), F.col(_BUCKET).cast("int")).alias("_window"),
    )


def jdbc_properties(database: Database) -> dict[str, str]:
    """The account and the limits with which Spark reads from a database."""
    return {
        "user": database.user,
        "password": database.password,
        "driver": database.dialect.driver,
        "fetchsize": str(FETCH_ROWS),
        **database.dialect.jdbc_options(database),
    }


def _pieces(dialect: Dialect, column: Column, parts: Iterable[Part]) -> list[str]:
    """One condition per task: a slice of a big range, or several small ranges together."""
    pieces: list[str] = []
    small: list[Part] = []

    def flush() -> None:
        if small:
            pieces.append(any_of(dialect, column, _BY, (part.range for part in small)))
            small.clear()

    for part in sorted(parts, key=lambda part: (part.range.low is not None, part.range.high)):
        if part.rows > ROWS_PER_READ:
            pieces += _slices(dialect, column, part)
            continue
        if sum(other.rows for other in small) + part.rows > ROWS_PER_READ or len(small) == MAX_STRETCHES:
            flush()
        small.append(part)
    flush()
    return pieces


def _slices(dialect: Dialect, column: Column, part: Part) -> list[str]:
    low, high = part.range.low, part.range.high
    count, splits = min(_MAX_READS, math.ceil(part.rows / ROWS_PER_READ)), []
    if part.least is not None and part.most is not None:
        splits = [part.least + (part.most - part.least) * number // count for number in range(1, count)]
    inside = sorted({split for split in splits if (low is None or low < split) and split < high})
    ends = zip([low, *inside], [*inside, high], strict=True)
    return [within(dialect, column, _BY, Range(*piece)) for piece in ends]
