"""Ranges of one column of a database table, and SQL conditions for them.

A range is ``[low, high)``, of numbers, or of times in microseconds since 1970. A range without a low end includes NULL.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg

from incload_assets.sources.postgres.relation import Column, Relation, quoted

MAX_STRETCHES = 100
"""Largest number of conditions joined by OR in one query."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Range:
    """A range ``[low, high)`` of values of a column; None for ``low``: everything below ``high``, and NULL."""

    low: int | None
    high: int

    @property
    def empty(self) -> bool:
        """True if the range contains no value."""
        return self.low is not None and self.low >= self.high


def micros(instant: datetime) -> int:
    """An instant as a value of a range."""
    return (instant - _EPOCH) // timedelta(microseconds=1)


def instant(value: int) -> datetime:
    """The inverse of :func:`micros`."""
    return _EPOCH + timedelta(microseconds=value)


def literal(column: Column, value: int) -> str:
    """SQL literal of the column's own type, so that an index on the column is used."""
    if not column.type.startswith("timestamp"):
        return f"{value}::bigint"
    text = instant(value).replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")
    return f"'{text}'::timestamp" if column.type == "timestamp" else f"'{text}+00'::timestamptz"


def buckets(column: Column, ranges: Iterable[Range]) -> tuple[str, dict[Range, int]]:
    """SQL for the bucket number of a row, and the bucket number of each range."""
    ranges = list(ranges)
    bounds = sorted({bound for part in ranges for bound in (part.low, part.high) if bound is not None})
    places = {bound: number for number, bound in enumerate(bounds, 1)}
    numbers = {part: 0 if part.low is None else places[part.low] for part in ranges}
    if not bounds:
        return "0", numbers
    # width_bucket requires value and bounds of the same type
    value = quoted(column.name) if column.type.startswith("timestamp") else f"{quoted(column.name)}::bigint"
    return f"coalesce(width_bucket({value}, ARRAY[{', '.join(literal(column, b) for b in bounds)}]), 0)", numbers


def any_of(column: Column, name: str, ranges: Iterable[Range]) -> str:
    """SQL condition that ``name`` is in one of the ranges; beyond ``MAX_STRETCHES`` it covers the gaps between them."""
    stretches: list[Range] = []
    for part in sorted(ranges, key=lambda part: (part.low is not None, part.high)):
        last = stretches[-1] if stretches else None
        if last and (part.low == last.high or len(stretches) >= MAX_STRETCHES):
            stretches[-1] = Range(last.low, part.high)
        else:
            stretches.append(part)
    return " OR ".join(f"({within(column, name, part)})" for part in stretches)


def within(column: Column, name: str, part: Range) -> str:
    """SQL condition that ``name`` is in a range."""
    if part.low is None:
        return f"{name} < {literal(column, part.high)} OR {name} IS NULL"
    return f"{name} >= {literal(column, part.low)} AND {name} < {literal(column, part.high)}"


def value_sql(column: Column) -> str:
    """SQL for a row's value in the units of ranges; NULL if it is infinite."""
    name = quoted(column.name)
    if not column.type.startswith("timestamp"):
        return f"{name}::bigint"
    return f"CASE WHEN isfinite({name}) THEN (extract(epoch FROM {name}) * 1000000)::bigint END"


_ROW, _TEXT = '"_incload_row"', '"_incload_text"'


@dataclass(frozen=True)
class Found:
    """Statistics of the rows in a range; ``least`` and ``most`` are finite, or None; ``nulls``: rows without a value.

    The hash is a sum: independent of the order, and repetitions count. ``size`` is in bytes of text.
    """

    rows: int = 0
    hash: str = "0"
    size: int = 0
    nulls: int = 0
    least: int | None = None
    most: int | None = None


def found_in(
    connection: psycopg.Connection[Any], relation: Relation, column: Column, ranges: Mapping[str, Range]
) -> dict[str, Found]:
    """Statistics of ranges that do not overlap, by key, from one query."""
    found, asked = dict.fromkeys(ranges, Found()), {key: part for key, part in ranges.items() if not part.empty}
    if not asked:
        return found
    bucket, numbers = buckets(column, asked.values())
    value = value_sql(column)
    name = quoted(column.name)
    # OFFSET 0 keeps PostgreSQL from computing the text of a row for each use
    rows = connection.execute(
        f"SELECT {bucket}, count(*), sum(hashtextextended({_TEXT}, 0)::numeric)::text, sum(octet_length({_TEXT})), "
        f"count(*) FILTER (WHERE {name} IS NULL), min({value}), max({value}) "
        f"FROM (SELECT {name}, {_ROW}::text AS {_TEXT} FROM {relation.sql} AS {_ROW} "
        f"WHERE {any_of(column, name, asked.values())} OFFSET 0) AS {_ROW} GROUP BY 1".encode()
    )
    by_number = {row[0]: Found(*row[1:]) for row in rows}
    return found | {key: by_number.get(numbers[part], Found()) for key, part in asked.items()}
