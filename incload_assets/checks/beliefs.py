"""The laws of a table that keeps what was believed earlier, which no log can prove: see ``History(known=True)``.

A belief that was ended was held for some time, and is not current. At no instant were two versions of a key believed to
be in effect at the same time. Whether the beliefs that are still held are right is reconciled with the log.
"""

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as Over
from pyspark.sql import functions as F

from incload_assets.declaration.table import Table
from incload_assets.platform.sql import col
from incload_assets.writes.history import History

PAIRED = 200
"""Number of beliefs of a key up to which each is compared with each; of more, only beliefs with one start are."""


def broken_laws(rows: DataFrame, table: Table) -> dict[str, int]:
    """The number of rows that break each law, by its name; without laws that hold. Empty without beliefs."""
    write = table.write
    if not isinstance(write, History) or (beliefs := write.beliefs) is None:
        return {}
    keys = [col(name) for name in table.changes.keys]
    start, end, began, ended = map(col, (write.valid_from, write.valid_to, beliefs.known_from, beliefs.known_to))
    held, is_current = col(beliefs.is_known), col(write.is_current)
    of_start = Over.partitionBy(*keys, start).orderBy(began, F.coalesce(ended, _ever()))
    until = F.lag(F.coalesce(ended, _ever())).over(of_start)
    numbered = rows.withColumns({"_n": F.count(F.lit(1)).over(Over.partitionBy(*keys)), "_until": until})
    counted = numbered.agg(
        _count(began.isNull() | (ended <= began) | (held != ended.isNull())).alias("without a period"),
        _count(is_current != (held & end.isNull())).alias("wrongly current"),
        _count(F.col("_until") > began).alias("believed twice"),
    ).first()
    few = numbered.filter(F.col("_n").between(2, PAIRED))
    names = (write.valid_from, write.valid_to, beliefs.known_from, beliefs.known_to)
    sides = [few.select(*keys, *(col(name).alias(f"_{name}_{side}") for name in names)) for side in "ab"]

    def overlap(first: str, last: str) -> Column:
        a, b = ((F.col(f"_{first}_{side}"), F.col(f"_{last}_{side}")) for side in "ab")
        return _before(a[0], b[1]) & _before(b[0], a[1])

    first_a, first_b = (F.struct(f"_{write.valid_from}_{side}", f"_{beliefs.known_from}_{side}") for side in "ab")
    pairs = (
        reduce(lambda a, b: a.join(b, list(table.changes.keys)), sides)
        .filter(first_a < first_b)
        .filter(overlap(write.valid_from, write.valid_to) & overlap(beliefs.known_from, beliefs.known_to))
        .count()
    )
    assert counted is not None
    found = {**counted.asDict(), "in effect beside another version": pairs}
    return {law: count for law, count in found.items() if count}


def _count(condition: Column) -> Column:
    return F.count(F.when(condition, 1))


def _before(start: Column, end: Column) -> Column:
    """True if a period begins before another one ends; NULL is the open end."""
    return start.isNull() | end.isNull() | (start < end)


def _ever() -> Column:
    return F.lit("9999-12-31").cast("timestamp")
