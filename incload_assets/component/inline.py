"""A contract that is written in YAML, and the pandera model that it stands for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, make_dataclass
from datetime import date, datetime
from typing import Any

import pandera.pyspark as pa
import pyspark.sql.types as T

from incload_assets.contract.checks import CHECKS
from incload_assets.contract.protection import Dropped, Encrypted, Hashed, InClear, Masked, Tokenized
from incload_assets.platform.errors import DeclarationError

ColumnChecks: Any = make_dataclass("ColumnChecks", [(name, Any, field(default=None)) for name in CHECKS], frozen=True)
"""The checks of a column, by their names in ``pa.Field``."""
_PARSED: Mapping[type[T.DataType], Any] = {T.DateType: date.fromisoformat, T.TimestampType: datetime.fromisoformat}


@dataclass(frozen=True, kw_only=True)
class InlineColumn:
    """A column of a contract.

    Args:
        type: Type in Spark's SQL, for example ``bigint`` or ``decimal(12,2)``; ``{array: string}``,
            ``{map: [string, int]}`` or ``{struct: {city: string}}`` for nested values.
        nullable: Whether NULL is allowed; default: no.
        checks: Checks of each value, as in ``pa.Field``: ``ge``, ``isin``, ``str_matches`` and so on.
        personal: Whether values are personal, and so masked wherever people look; or how they are protected.
        description: Description of the column.
    """

    type: T.DataType
    nullable: bool | None = None
    checks: ColumnChecks | None = None
    personal: bool | Hashed | Tokenized | Encrypted | Masked | Dropped | InClear | None = None
    description: str | None = None

    def field_as(self, name: str) -> Any:
        """The field of a pandera model."""
        options: dict[str, Any] = {"description": self.description}
        options |= {} if self.nullable is None else {"nullable": self.nullable}
        options |= {} if self.personal is None else {"metadata": {"personal": self.personal}}
        given = vars(self.checks) if self.checks is not None else {}
        checks = {check: _argument(value, self.type) for check, value in given.items() if value is not None}
        return pa.Field(alias=name, **options, **checks)


@dataclass(frozen=True, kw_only=True)
class InlineContract:
    """The columns of a table.

    Args:
        columns: Type of each column by its name, or more about it.
        unique: Columns whose values together identify a row, beside the keys.
    """

    columns: Mapping[str, T.DataType | InlineColumn]
    unique: Sequence[str] = ()

    def model(self, table_name: str) -> type[Any]:
        """The pandera model with these columns, named after the table."""
        name = "".join(part.capitalize() for part in table_name.split("_"))
        columns = [
            (name, one if isinstance(one, InlineColumn) else InlineColumn(type=one))
            for name, one in self.columns.items()
        ]
        members: dict[str, Any] = {}
        for at, (column_name, column) in enumerate(columns):
            try:
                members[f"column_{at}"] = column.field_as(column_name)
            except (TypeError, ValueError) as error:  # of pandera, for a check without what it needs
                raise DeclarationError(
                    f"{table_name}: contract {name}, field {column_name}: a check is refused: {error}",
                    rule="a check takes what it takes in pa.Field",
                    remedy="write for example checks: {ge: 0, isin: [1, 2]}",
                ) from error
        members["__annotations__"] = {f"column_{at}": column.type for at, (_, column) in enumerate(columns)}
        members["__module__"] = __name__
        if self.unique:
            members["Config"] = type("Config", (), {"unique": list(self.unique)})
        return type(name, (pa.DataFrameModel,), members)


def _argument(value: Any, kind: T.DataType) -> Any:
    """An argument of a check; YAML has days and times as text. A wrong one is refused by the check."""
    if isinstance(value, list):
        return [_argument(one, kind) for one in value]
    if isinstance(value, dict):
        return {name: _argument(one, kind) for name, one in value.items()}
    if isinstance(value, str) and (parsed := _PARSED.get(type(kind))) is not None:
        try:
            return parsed(value)
        except ValueError:
            return value
    return value
