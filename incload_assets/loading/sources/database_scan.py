"""What ranges of a database table hold: counted and hashed by one query for all of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import psycopg

from incload_assets.loading.sources.database_ranges import Range, any_of, buckets, value_sql
from incload_assets.loading.sources.database_table import Column, Relation, quoted

_ROW, _TEXT = '"_incload_row"', '"_incload_text"'


@dataclass(frozen=True)
class Found:
    """What a range holds.

    Args:
        rows: How many.
        hash: Of their contents, whatever their order; a sum, which sees repetitions.
        size: Bytes, as text.
        nulls: Rows whose column is NULL.
        least, most: Of the column's values; None without any that are finite.
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
    """What each of some ranges holds, by one query; ranges do not overlap.

    Raises:
        psycopg.Error: As the server has it.
    """
    found, asked = dict.fromkeys(ranges, Found()), {key: part for key, part in ranges.items() if not part.empty}
    if not asked:
        return found
    bucket, numbers = buckets(column, asked.values())
    value = value_sql(column)
    name = quoted(column.name)
    # OFFSET 0 keeps PostgreSQL from making the text of a row anew for each use
    rows = connection.execute(
        f"SELECT {bucket}, count(*), sum(hashtextextended({_TEXT}, 0)::numeric)::text, sum(octet_length({_TEXT})), "
        f"count(*) FILTER (WHERE {name} IS NULL), min({value}), max({value}) "
        f"FROM (SELECT {name}, {_ROW}::text AS {_TEXT} FROM {relation.sql} AS {_ROW} "
        f"WHERE {any_of(column, name, asked.values())} OFFSET 0) AS {_ROW} GROUP BY 1".encode()
    )
    by_number = {row[0]: Found(*row[1:]) for row in rows}
    return found | {key: by_number.get(numbers[part], Found()) for key, part in asked.items()}
