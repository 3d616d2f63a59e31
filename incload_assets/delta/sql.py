"""SQL text and column expressions that need no knowledge of a table: names, literals, hashes of rows, combinations."""

from collections.abc import Callable, Collection, Iterable, Sequence
from operator import and_, or_
from typing import TypeVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

TIMES_IN_JSON = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""Options of ``to_json``, which cuts to milliseconds unless told otherwise."""


_TIMES_SQL = "map({})".format(", ".join(f"'{name}', \"{form}\"" for name, form in TIMES_IN_JSON.items()))


def let(value: Column, body: Callable[[Column], Column]) -> Column:
    """An expression over a value that stands in it often, and is computed once."""
    return F.element_at(F.transform(F.array(value), body), 1)


def quoted(name: str) -> str:
    """A name as a SQL identifier."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """A string as a SQL literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def col(name: str, alias: str | None = None) -> Column:
    """A column by its exact name, dots and all."""
    return F.col(f"{alias}.{quoted(name)}" if alias else quoted(name))


def content_hash_sql(columns: Sequence[str], alias: str = "") -> str:
    """SQL of a 64-bit hash of a row's content.

    It goes through JSON because a hash of the columns themselves skips NULLs, so that (NULL, 'a') and ('a', NULL) would
    collide; and JSON leaves NULL columns out, so that adding a column changes no hash.
    """
    prefix = f"{alias}." if alias else ""
    row = ", ".join(prefix + quoted(c) for c in columns)
    return f"xxhash64(to_json(struct({row}), {_TIMES_SQL}))"


def row_id_sql(columns: Sequence[str], alias: str = "", *, zeros: Collection[str] = ()) -> str:
    """SQL of what tells rows apart by their content, even among very many: SHA-256 of the row as JSON.

    In JSON every value stands quoted beside its column's name, so that neighbours cannot run into each other: ('a',
    'bc') and ('ab', 'c') differ, and so do NULL (left out), '' and 'null'.

    Args:
        columns: Of the row.
        alias: Of the frame.
        zeros: Those of the columns in which 0.0 and -0.0, which are equal, are the same.
    """
    prefix = f"{alias}." if alias else ""
    row = ", ".join(f"{prefix}{quoted(c)}{f' + 0F AS {quoted(c)}' if c in zeros else ''}" for c in columns)
    return f"sha2(to_json(struct({row}), {_TIMES_SQL}), 256)"


Part = TypeVar("Part")


def any_of(conditions: Iterable[Column]) -> Column:
    """Whether one of the conditions holds; of none, false. NULL counts as SQL's OR counts it."""
    return combined(or_, list(conditions) or [F.lit(False)])


def all_of(conditions: Iterable[Column]) -> Column:
    """Whether all of the conditions hold; of none, true. NULL counts as SQL's AND counts it."""
    return combined(and_, list(conditions) or [F.lit(True)])


def union_of(frames: Iterable[DataFrame]) -> DataFrame:
    """The rows of all frames, by the names of their columns; there is at least one."""
    return combined(DataFrame.unionByName, list(frames))


def combined(pairwise: Callable[[Part, Part], Part], parts: list[Part]) -> Part:
    """The result of an associative operation over all parts, in their order, computed as a balanced tree.

    ``reduce`` would nest each part a level deeper than the one before, and what is sent to Spark may nest no more than
    100 levels: a table of 40 columns would be too wide. A balanced tree of 300 parts nests nine levels.

    Example:
        >>> combined("({}{})".format, ["a", "b", "c", "d", "e"])
        '((ab)(c(de)))'
    """
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return pairwise(combined(pairwise, parts[:half]), combined(pairwise, parts[half:]))
