"""Many conditions, or frames, made one.

Written one after the other, as ``reduce`` does it, each nests a level deeper than the one before, and what is sent to
Spark may nest no more than 100 levels: a table of 40 columns would be too wide. As a balanced tree 300 nest nine.
"""

from collections.abc import Callable, Iterable
from operator import and_, or_
from typing import TypeVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

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
    """What an associative operation makes of the parts, in their order.

    Example:
        >>> combined("({}{})".format, ["a", "b", "c", "d", "e"])
        '((ab)(c(de)))'
    """
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return pairwise(combined(pairwise, parts[:half]), combined(pairwise, parts[half:]))
