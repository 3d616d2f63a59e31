"""A database table as its catalog describes it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

from pydantic import Field

from incload_assets.platform.databases import NAME, Database
from incload_assets.platform.dialects.dialect import Catalog, Column, Dialect
from incload_assets.platform.errors import DeclarationError, SourceUnreadable

_IN_THE_ENVIRONMENT = "letters, digits and _, in lower case, as in INCLOAD_DATABASE_<NAME>_URL"
DatabaseName = Annotated[str, Field(pattern=f"^{NAME.pattern}$", description=_IN_THE_ENVIRONMENT)]


@dataclass(frozen=True)
class Relation:
    """A table or view: its name for people, its description, and the dialect of its database."""

    place: str
    catalog: Catalog
    dialect: Dialect

    @cached_property
    def columns(self) -> Mapping[str, Column]:
        """Its columns by name, in order."""
        return {column.name: column for column in self.catalog.columns}

    @property
    def sql(self) -> str:
        """Its name, quoted for SQL."""
        return f"{self.dialect.quoted(self.catalog.schema)}.{self.dialect.quoted(self.catalog.name)}"

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


def relation_of(connection: Any, table_name: str, database: Database, name: str) -> Relation:
    """The description of a table (``schema.table``, or ``table``) in the catalog; refuses a name without a table."""
    found = database.dialect.catalog(connection, name)
    if found is None:
        raise SourceUnreadable(
            f"{table_name}: {database.name}.{name}: there is no such table in the database {database.catalog!r}",
            rule="the table that a source names exists, and the account may use its schema",
            remedy="check the name, including upper and lower case, or restore the table",
        )
    return Relation(f"{database.name}.{found.schema}.{found.name}", found, database.dialect)


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
