"""Which part of a table some windows concern, in literals: nothing else lets Delta skip files.

A part is told by values that a landing writes down in the window's control row: those of the table's partition column,
or, where a table is kept by key alone, the numbers of the hash buckets that its keys fall into. The log is not laid out
by buckets, so they prune the table only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyspark.sql.types as T
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incload_assets.loading.columns import col, literal, quoted
from incload_assets.loading.writes.base import BUCKET

if TYPE_CHECKING:
    from incload_assets.loading.context import Snapshot
    from incload_assets.loading.declaration import Table

WORTH_FILTERING_BYTES = 2**20
"""Size of what is looked at of the table from which a join more is cheaper than hashing rows that nobody asks for."""
BROADCAST_ROWS = 500_000
"""Most changes whose keys are sent to every task."""
_SAME_IN_DELTA = (T.DateType, T.StringType, T.IntegralType)


def bucket_sql(table: Table, alias: str = "") -> str | None:
    """SQL of the bucket of a row (int; NULL where its key has a NULL); None for a table without buckets."""
    if table.write.buckets is None:
        return None
    keys = [f"{alias}.{quoted(c)}" if alias else quoted(c) for c in table.changes.keys]
    bucket = f"CAST(pmod(xxhash64({', '.join(keys)}), {table.write.buckets}) AS INT)"
    return f"IF({' AND '.join(f'{key} IS NOT NULL' for key in keys)}, {bucket}, NULL)"


def place_sql(table: Table) -> str | None:
    """SQL of what a landing writes down of a change; None: it may concern any row of the table."""
    by = table.write.partition_by
    return quoted(by) if by is not None else bucket_sql(table)


def laid_out_by(table: Table) -> str | None:
    """The column whose values, as a landing writes them down, are the same as in Delta's own log of files."""
    if table.write.buckets is not None:
        return BUCKET
    by = table.write.partition_by
    return by if by is not None and isinstance(table.type_of(by), _SAME_IN_DELTA) else None


def touched_sql(table: Table, at: Snapshot, alias: str = "") -> str | None:
    """SQL condition on rows of the table: whether they are of the part that a snapshot's windows concern; None: all."""
    column = BUCKET if table.write.buckets is not None else table.write.partition_by
    if column is None or (values := at.partitions) is None:
        return None
    kind = "int" if column == BUCKET else table.type_of(column).simpleString()
    name = f"{alias}.{quoted(column)}" if alias else quoted(column)
    return f"{name} IN ({', '.join(f'CAST({literal(value)} AS {kind})' for value in values)})" if values else "false"


def of_keys(rows: DataFrame, keys: DataFrame, table: Table, at: Snapshot) -> DataFrame:
    """Rows of the table, without those of other keys where that spares work: hashes are computed of what is left.

    Args:
        rows: As :meth:`~incload_assets.loading.context.Context.rows` gives them.
        keys: The keys that a plan concerns; columns of the table's identity.
        table: The declaration.
        at: What the plan is made from.
    """
    if at.near_bytes < WORTH_FILTERING_BYTES or at.changes > BROADCAST_ROWS:
        return rows
    return rows.join(F.broadcast(keys.select(*map(col, table.identity))), list(table.identity), "left_semi")


def near(changes: DataFrame, table: Table, at: Snapshot) -> DataFrame:
    """Of the log's changes, only those of the partitions that the windows touch; all, where it is not laid out so."""
    if table.write.partition_by is None or (touched := touched_sql(table, at)) is None:
        return changes
    return changes.filter(touched)
