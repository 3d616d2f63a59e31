"""Kinds of rows in the change log, and column expressions for the order of changes."""

from pyspark.sql import Column
from pyspark.sql import functions as F

from incload_assets.declaration.table import Table
from incload_assets.platform.sql import content_hash_sql, quoted

UPSERT, DELETE, TRUNCATE, REJECTED = "upsert", "delete", "truncate", "rejected"
REPLACED, CONTROL, SKIPPED = "replaced", "control", "skipped"
ERASED = "erased"
"""A record of an erased subject, of which nothing is kept; see :mod:`incload_assets.protection.erasures`."""
NOT_KEPT = (SKIPPED, ERASED)
"""Kinds of rows that are counted, and never committed."""
MOVED = "moved"
"""An upsert that may give a row a new key, and leaves columns unset; see :mod:`incload_assets.writes.key_moves`."""
UPSERTS = (UPSERT, MOVED)
SNAPSHOT = "snapshot"
"""The mark of a full extract; see :mod:`incload_assets.ingest.full_extracts`."""
EMPTIES = (TRUNCATE, SNAPSHOT)
"""Kinds of rows without a key that delete all older rows."""
CHANGES = (*UPSERTS, DELETE, *EMPTIES)


def sets(name: str) -> Column:
    """True if a change sets a column: all columns except those in ``_unset``."""
    return ~F.coalesce(F.array_contains("_unset", name), F.lit(False))


def order_sql(table: Table, *, alias: str = "", is_delete: str, content_hash: str) -> str:
    """SQL for the struct that orders a key's changes: sequence (NULL first), upsert before delete, content hash."""
    prefix = f"{alias}." if alias else ""
    sequence = [f"'s{i}', {prefix}{quoted(c)}" for i, c in enumerate(table.changes.sequence_by)]
    members = ", ".join([*sequence, f"'delete', {is_delete}", f"'hash', {content_hash}"])
    return f"named_struct({members})"


def log_order(table: Table, alias: str = "log") -> Column:
    """The order of a row of the log.

    The content is hashed by the present contract: the stored ``_hash`` is by the contract that validated the row, and
    would always differ from the table's if a column has been removed or moved since.
    """
    content = content_hash_sql(table.columns, alias)
    return F.expr(order_sql(table, alias=alias, is_delete=f"{alias}._kind = '{DELETE}'", content_hash=content))


def truncate_order(table: Table) -> Column:
    """The order of a row that deletes all older rows: its NULL hash is older than any content of its sequence."""
    return F.expr(order_sql(table, alias="log", is_delete="false", content_hash="CAST(NULL AS BIGINT)"))


def row_order_sql(table: Table, alias: str) -> str:
    """SQL for the order of a row of the table, NULL if there is no such row.

    Key columns are never NULL in the table, so a NULL key means an absent row in an outer join.
    """
    order = order_sql(table, alias=alias, is_delete="false", content_hash=content_hash_sql(table.columns, alias))
    return f"CASE WHEN {alias}.{quoted(table.changes.keys[0])} IS NOT NULL THEN {order} END"
