"""Large windows in which each key has one change, as the first one of a table: folded without sorting, proven by sums.

Whether that is so takes one shuffle of 64-bit hashes of the keys. The fold then takes each change as it is. If besides
the table has as many rows as the window has changes, the two are equal if the sums of their rows' hashes are, so that
they need not be joined. Where the sums differ, because other loads have changed rows meanwhile, all keys are pending,
and the full fold compares them one by one.
"""

from collections.abc import Hashable

import pyspark.sql.types as T
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incload_assets.change_log.change import UPSERTS
from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.read_view import MANY_CHANGES, ReadView
from incload_assets.declaration.table import Table
from incload_assets.platform.sql import TIMES_IN_JSON, col
from incload_assets.writes.plan import entry

ROWS_PER_TASK = 1_000_000
"""Most hashes of keys that one task compares, in memory."""
_ATOMIC = (T.NumericType, T.BooleanType, T.StringType, T.BinaryType, T.DateType, T.TimestampType, T.TimestampNTZType)


def are_single(load: LoadContext, at: ReadView, changes: DataFrame) -> bool:
    """True if each key is known to have one of the changes of a window, of all kinds.

    Few changes are not examined: their fold is cached. The answer is kept for the load's further plans.
    """
    if at.changes <= MANY_CHANGES:
        return False
    place = _place(load, at)
    if place not in load.proven:
        hashes = changes.select(F.xxhash64(*map(col, load.table.identity)).alias("_key"))
        spread = hashes.repartition(at.changes // ROWS_PER_TASK + 1, "_key")
        load.proven[place] = spread.groupBy("_key").count().filter("count > 1").isEmpty()
    return load.proven[place]


def fills(load: LoadContext, at: ReadView) -> bool:
    """True if the table's near rows may be the changes of the one window of a read view, and nothing else.

    An earlier plan of the load has found no row there. Else the number may be the same by chance, as in full extracts.
    """
    (record,) = at.records.values()
    changes = record.rows_read - record.rejected - record.skipped - record.erased
    place = (*_place(load, at), "empty")
    if not at.near_bytes:
        load.proven[place] = True
    return load.proven.get(place, False) and at.near_rows == changes > 0 and not at.moves


def _place(load: LoadContext, at: ReadView) -> tuple[Hashable, ...]:
    """The windows in a version of the log."""
    return (load.log.uri, at.log_version, *at.records)


def ledger_of_sums(window: str, changes: DataFrame, rows: DataFrame, table: Table) -> DataFrame:
    """The ledger of a window with single changes and of the table's near rows: all keys are applied, or pending."""
    logged = _summed(changes.filter(F.col("_kind").isin(*UPSERTS)), table).alias("log")
    both = logged.crossJoin(_summed(rows, table).alias("t"))
    same, keys = F.col("log.content") == F.col("t.content"), F.col("log.content.rows")
    return both.select(
        *entry(
            F.lit(window),
            keys=keys,
            pending=F.when(~same, F.greatest(keys, F.lit(1))),
            applied=F.when(same, keys),
            present=F.when(same, keys),
            log_hash=F.col("log.hash"),
            table_hash=F.col("t.hash"),
        )
    )


def _summed(rows: DataFrame, table: Table) -> DataFrame:
    """The number of rows, and the sum of their hashes in two halves, whose sums cannot overflow."""
    hashed = rows.select(_hash(table).alias("_h"))
    halves = F.sum(F.col("_h").bitwiseAND(0xFFFFFFFF)), F.sum(F.shiftright("_h", 32))
    content = F.struct(F.count(F.lit(1)).alias("rows"), *(half.alias(f"half{n}") for n, half in enumerate(halves)))
    return hashed.agg(content.alias("content"), F.coalesce(F.bit_xor("_h"), F.lit(0)).alias("hash"))


def _hash(table: Table) -> Column:
    """A hash of a row's values, each beside whether it is NULL, as Spark's hash skips NULLs; nested values are JSON."""
    parts: list[Column] = []
    for name in table.columns:
        value = col(name)
        if not isinstance(table.type_of(name), _ATOMIC):
            value = F.to_json(F.struct(value), TIMES_IN_JSON)
        parts += [value, value.isNull()]
    return F.xxhash64(*parts)
