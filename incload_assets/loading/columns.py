"""Column expressions that several steps share: the order of changes, and the hash of a row."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from incload_assets.loading.declaration import Table

UPSERT, DELETE, TRUNCATE, REJECTED = "upsert", "delete", "truncate", "rejected"
REPLACED, CONTROL, SKIPPED = "replaced", "control", "skipped"
MOVED = "moved"
"""An upsert that may give a row a new key, and leaves columns unset; see :mod:`incload_assets.loading.moves`."""
UPSERTS = (UPSERT, MOVED)
SNAPSHOT = "snapshot"
"""The mark of a complete extract, see :mod:`incload_assets.loading.snapshots`."""
EMPTIES = (TRUNCATE, SNAPSHOT)
"""Rows of the log without a key that delete everything older than they are."""
CHANGES = (*UPSERTS, DELETE, *EMPTIES)


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


def sets(name: str) -> Column:
    """Whether a change sets a column: it does unless ``_unset`` lists it."""
    return ~F.coalesce(F.array_contains("_unset", name), F.lit(False))


def order_sql(table: Table, *, alias: str = "", is_delete: str, content_hash: str) -> str:
    """SQL of the struct that orders a key's changes: sequence (NULL first), upsert before delete, content hash."""
    prefix = f"{alias}." if alias else ""
    sequence = [f"'s{i}', {prefix}{quoted(c)}" for i, c in enumerate(table.changes.sequence_by)]
    members = ", ".join([*sequence, f"'delete', {is_delete}", f"'hash', {content_hash}"])
    return f"named_struct({members})"


def log_order(table: Table, alias: str = "log") -> Column:
    """The order of a row of the log.

    The content is hashed as the contract is now: the stored ``_hash`` is of the contract that judged the row, and
    with a column removed or moved since it would differ from the table's for ever.
    """
    content = content_hash_sql(table.columns, alias)
    return F.expr(order_sql(table, alias=alias, is_delete=f"{alias}._kind = '{DELETE}'", content_hash=content))


def truncate_order(table: Table) -> Column:
    """The order of a row of the log that deletes what is older: NULL is older than any content of its sequence."""
    return F.expr(order_sql(table, alias="log", is_delete="false", content_hash="CAST(NULL AS BIGINT)"))


def row_order_sql(table: Table, alias: str) -> str:
    """SQL of the order of a row of the table itself, NULL where there is no such row.

    Key columns are never NULL in the table, so a NULL key tells an absent row in an outer join.
    """
    order = order_sql(table, alias=alias, is_delete="false", content_hash=content_hash_sql(table.columns, alias))
    return f"CASE WHEN {alias}.{quoted(table.changes.keys[0])} IS NOT NULL THEN {order} END"
