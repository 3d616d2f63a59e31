"""SQL text and column expressions independent of any table: names, literals, row hashes, combinations."""

from collections.abc import Callable, Collection, Iterable, Sequence
from operator import and_, or_
from typing import TypeVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

TIMES_IN_JSON = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""Options of ``to_json``, which by default truncates times to milliseconds."""


_TIMES_SQL = "map({})".format(", ".join(f"'{name}', \"{form}\"" for name, form in TIMES_IN_JSON.items()))


def let(value: Column, body: Callable[[Column], Column]) -> Column:
    """An expression that uses a value several times but computes it once."""
    return F.element_at(F.transform(F.array(value), body), 1)


def quoted(name: str) -> str:
    """A name as a SQL identifier."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """A string as a SQL literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def col(name: str, alias: str | None = None) -> Column:
    """A column by its exact name, which may contain dots."""
    return F.col(f"{alias}.{quoted(name)}" if alias else quoted(name))


def content_hash_sql(columns: Sequence[str], alias: str = "") -> str:
    """SQL for a 64-bit hash of a row's content.

    The hash is taken of the row as JSON: a hash of the columns themselves skips NULLs, so that (NULL, 'a') and
    ('a', NULL) would collide. JSON omits NULL columns, so adding a column changes no hash.
    """
    prefix = f"{alias}." if alias else ""
    row = ", ".join(prefix + quoted(c) for c in columns)
    return f"xxhash64(to_json(struct({row}), {_TIMES_SQL}))"


def row_id_sql(columns: Sequence[str], alias: str = "", *, zeros: Collection[str] = ()) -> str:
    """SQL for an identifier of a row by its content: SHA-256 of the row as JSON, unique even among very many rows.

    JSON quotes every value beside its column's name, so adjacent values cannot be confused: ('a', 'bc') and ('ab', 'c')
    differ, and so do NULL (omitted), '' and 'null'.

    Args:
        columns: The row's columns.
        alias: Alias of the frame.
        zeros: Columns in which 0.0 and -0.0, which are equal, get the same identifier.
    """
    prefix = f"{alias}." if alias else ""
    row = ", ".join(f"{prefix}{quoted(c)}{f' + 0F AS {quoted(c)}' if c in zeros else ''}" for c in columns)
    return f"sha2(to_json(struct({row}), {_TIMES_SQL}), 256)"


Part = TypeVar("Part")


def any_of(conditions: Iterable[Column]) -> Column:
    """SQL's OR of conditions, false for no conditions. NULL is treated as in SQL."""
    return combined(or_, list(conditions) or [F.lit(False)])


def all_of(conditions: Iterable[Column]) -> Column:
    """SQL's AND of conditions, true for no conditions. NULL is treated as in SQL."""
    return combined(and_, list(conditions) or [F.lit(True)])


def union_of(frames: Iterable[DataFrame]) -> DataFrame:
    """The union of one or more frames, by column name."""
    return combined(DataFrame.unionByName, list(frames))


def combined(pairwise: Callable[[Part, Part], Part], parts: list[Part]) -> Part:
    """The result of an associative operation over all parts, in order, computed as a balanced tree.

    ``reduce`` would nest each part one level deeper than the one before. Expressions sent to Spark may nest at most 100
    levels, so a table of 40 columns would be too wide. A balanced tree of 300 parts has nine levels.

    Example:
        >>> combined("({}{})".format, ["a", "b", "c", "d", "e"])
        '((ab)(c(de)))'
    """
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return pairwise(combined(pairwise, parts[:half]), combined(pairwise, parts[half:]))
