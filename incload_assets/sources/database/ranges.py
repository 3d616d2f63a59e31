"""Ranges of one column of a database table, and SQL conditions for them.

A range is ``[low, high)``, of numbers, or of times in microseconds since 1970. A range without a low end includes NULL.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from incload_assets.platform.dialects.dialect import Column, Dialect
from incload_assets.sources.database.relation import Relation

MAX_STRETCHES = 100
"""Largest number of conditions joined by OR in one query."""


@dataclass(frozen=True)
class Range:
    """A range ``[low, high)`` of values of a column; None for ``low``: everything below ``high``, and NULL."""

    low: int | None
    high: int

    @property
    def empty(self) -> bool:
        """True if the range contains no value."""
        return self.low is not None and self.low >= self.high


def buckets(dialect: Dialect, column: Column, ranges: Iterable[Range]) -> tuple[str, dict[Range, int]]:
    """SQL for the bucket number of a row, and the bucket number of each range."""
    ranges = list(ranges)
    bounds = sorted({bound for part in ranges for bound in (part.low, part.high) if bound is not None})
    places = {bound: number for number, bound in enumerate(bounds, 1)}
    numbers = {part: 0 if part.low is None else places[part.low] for part in ranges}
    return dialect.bucket(column, bounds) if bounds else "0", numbers


def any_of(dialect: Dialect, column: Column, name: str, ranges: Iterable[Range]) -> str:
    """SQL condition that ``name`` is in one of the ranges; beyond ``MAX_STRETCHES`` it covers the gaps between them."""
    stretches: list[Range] = []
    for part in sorted(ranges, key=lambda part: (part.low is not None, part.high)):
        last = stretches[-1] if stretches else None
        if last and (part.low == last.high or len(stretches) >= MAX_STRETCHES):
            stretches[-1] = Range(last.low, part.high)
        else:
            stretches.append(part)
    return " OR ".join(f"({within(dialect, column, name, part)})" for part in stretches)


def within(dialect: Dialect, column: Column, name: str, part: Range) -> str:
    """SQL condition that ``name`` is in a range."""
    high = dialect.literal(column, part.high)
    if part.low is None:
        return f"{name} < {high} OR {name} IS NULL"
    return f"{name} >= {dialect.literal(column, part.low)} AND {name} < {high}"


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


def found_in(connection: Any, relation: Relation, column: Column, ranges: Mapping[str, Range]) -> dict[str, Found]:
    """Statistics of ranges that do not overlap, by key, from one query."""
    found, asked = dict.fromkeys(ranges, Found()), {key: part for key, part in ranges.items() if not part.empty}
    if not asked:
        return found
    dialect = relation.dialect
    bucket, numbers = buckets(dialect, column, asked.values())
    where = any_of(dialect, column, dialect.quoted(column.name), asked.values())
    rows = connection.rows(dialect.statistics(relation.sql, relation.catalog.columns, column, bucket, where))
    by_number = {number: Found(count, hash, *map(_whole, others)) for number, count, hash, *others in rows}
    return found | {key: by_number.get(numbers[part], Found()) for key, part in asked.items()}


def _whole(number: Any) -> Any:
    """A whole number that the driver may have as a decimal one, so that a position can be written as JSON."""
    return None if number is None else int(number)
