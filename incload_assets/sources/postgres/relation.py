"""A database table as its catalog describes it, and the SQL that makes its columns readable for Spark."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import psycopg
from pydantic import Field

from incload_assets.platform.databases import NAME, Database
from incload_assets.platform.errors import DeclarationError, SourceUnreadable

_IN_THE_ENVIRONMENT = "letters, digits and _, in lower case, as in INCLOAD_DATABASE_<NAME>_URL"
DatabaseName = Annotated[str, Field(pattern=f"^{NAME.pattern}$", description=_IN_THE_ENVIRONMENT)]

_CATALOG = """
SELECT c.oid::bigint, n.nspname, c.relname, a.attname, b.typname, b.typcategory, b.typtype, s.seqcache,
  CASE WHEN s.seqrelid IS NOT NULL AND has_sequence_privilege(s.seqrelid, 'USAGE, SELECT')
    THEN coalesce(pg_sequence_last_value(s.seqrelid), s.seqstart - s.seqincrement) END
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
JOIN pg_type t ON t.oid = a.atttypid
JOIN pg_type b ON b.oid = CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE t.oid END
LEFT JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = c.oid AND d.refobjsubid = a.attnum
  AND d.classid = 'pg_class'::regclass AND d.deptype IN ('a', 'i')
  AND EXISTS (SELECT FROM pg_sequence q WHERE q.seqrelid = d.objid)
LEFT JOIN pg_sequence s ON s.seqrelid = d.objid
WHERE c.oid = to_regclass(%s)
ORDER BY a.attnum
"""
# Types that Spark reads without loss. All others are read as text and typed by the contract: numerics of any precision
# including NaN, intervals, inets; uuid and json are text in Spark anyway.
_NATIVE = {"bool", "int2", "int4", "int8", "float4", "float8", "text", "varchar", "date", "timestamptz", "bytea"}
# Replacements for -infinity and infinity, which Spark does not have.
_FIRST, _LAST = "timestamptz '0001-01-01 00:00:00+00'", "timestamptz '9999-12-31 23:59:59.999999+00'"
_ENDS = {
    "timestamptz": (_FIRST, _LAST),
    "timestamp": (_FIRST, _LAST),
    "date": ("date '0001-01-01'", "date '9999-12-31'"),
}
INTEGERS = {"int2": "smallint", "int4": "integer", "int8": "bigint"}
TIMES = {"timestamptz": "timestamptz", "timestamp": "timestamp"}


@dataclass(frozen=True)
class Column:
    """A column of a table; its ``type`` is, for a domain, the base type; ``nested`` types are read as JSON.

    ``cache`` is how many values a session takes from the column's sequence at once, ``last`` the sequence's last value;
    None without a sequence, or if the account may not read it.
    """

    name: str
    type: str
    nested: bool = False
    cache: int | None = None
    last: int | None = None

    @property
    def sql(self) -> str:
        """SQL of the value in a form that Spark reads without loss."""
        name = quoted(self.name)
        if self.type in _ENDS:  # the text 'infinity' is not a date, and the driver turns infinity into a wrong one
            first, last = _ENDS[self.type]
            value = f"({name} AT TIME ZONE 'UTC')" if self.type == "timestamp" else name  # without a zone: UTC
            return f"CASE {name} WHEN '-infinity' THEN {first} WHEN 'infinity' THEN {last} ELSE {value} END"
        if self.nested:
            return f"to_json({name})::text"
        return name if self.type in _NATIVE else f"{name}::text"


@dataclass(frozen=True)
class Relation:
    """A table or view: its name for people, quoted for SQL, its columns in order; ``oid`` changes when recreated."""

    place: str
    sql: str
    oid: int
    columns: Mapping[str, Column]

    def column(self, table_name: str, name: str, types: Mapping[str, str]) -> Column:
        """The column whose ranges are the windows of a source; refuses one that is gone, or of another type."""
        column = self.columns.get(name)
        if column is None or column.type not in types:
            has = f"is of type {column.type}" if column else f"is not among {', '.join(self.columns)}"
            raise SourceUnreadable(
                f"{table_name}: {self.place}: the column {name!r} {has}",
                rule=f"the window column exists and is of type {', '.join(types.values())}",
                remedy="restore the column, or name another one in the table's source",
            )
        return column

    def check_asked(self, table_name: str, names: Sequence[str]) -> None:
        """Refuses a table that lacks a column of a condition, which would otherwise go unnoticed."""
        for name in names:
            if name not in self.columns:
                raise SourceUnreadable(
                    f"{table_name}: a condition of changes names {name!r}, which {self.place} does not have",
                    rule="a condition on a missing column is never true, so nothing would be deleted",
                    remedy=f"name one of its columns: {', '.join(self.columns)}",
                )


def relation_of(connection: psycopg.Connection[Any], table_name: str, database: Database, name: str) -> Relation:
    """The description of a table (``schema.table``, or ``table``) in the catalog; refuses a name without a table."""
    rows = connection.execute(_CATALOG, [qualified(name)]).fetchall()
    if not rows:
        raise SourceUnreadable(
            f"{table_name}: {database.name}.{name}: there is no such table in the database {database.catalog!r}",
            rule="the table that a source names exists, and the account may use its schema",
            remedy="check the name, including upper and lower case, or restore the table",
        )
    columns = {row[3]: Column(row[3], row[4], row[5] == "A" or row[6] == "c", row[7], row[8]) for row in rows}
    oid, schema, relation = rows[0][:3]
    return Relation(f"{database.name}.{schema}.{relation}", f"{quoted(schema)}.{quoted(relation)}", oid, columns)


def check_names(table_name: str, name: str, column: str) -> None:
    """Refuses an empty or invalid name of a table or column."""
    for what, value in (("table", name), ("column", column)):
        parts: Sequence[str] = name.split(".") if what == "table" else [value]
        if not all(parts) or len(parts) > 2 or "\0" in value:
            raise DeclarationError(
                f"{table_name}: source: {what} is {value!r}",
                rule="a table is 'table' or 'schema.table', a column is a name",
                remedy="write for example 'public.orders', 'updated_at'",
            )


def quoted(name: str) -> str:
    """A quoted SQL name, which may contain any character."""
    return '"' + name.replace('"', '""') + '"'


def qualified(name: str) -> str:
    """``schema.table`` with both parts quoted."""
    return ".".join(quoted(part) for part in name.split("."))
