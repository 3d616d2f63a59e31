"""Contracts of tables as values that can be written to a file and compared, for example with what a lake holds.

The file is JSON, with a line for each column in the declared order, so that a version control shows what has changed.
It has no address, no password and no value of a row.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyspark.sql.types as T

from incload_assets.contract.adaptation import Adaptation, Stored
from incload_assets.platform.errors import IncrementalLoadError

FORMAT = 1


@dataclass(frozen=True)
class ColumnDescription:
    """One column of a contract; text in ``personal`` says what is kept in place of the values."""

    name: str
    data_type: T.DataType
    nullable: bool
    personal: bool | str = False
    checks: tuple[str, ...] = ()


@dataclass(frozen=True)
class TableContract:
    """The contract of a table; ``unique`` columns together identify a row, besides the keys.

    Args:
        stored: What Delta stores of the table, the loader's own columns included.
        whole: Whether rows are identified by their whole content.
        unset: Whether changes may leave columns as they are.
    """

    columns: tuple[ColumnDescription, ...]
    stored: Stored
    keys: tuple[str, ...] = ()
    sequence_by: tuple[str, ...] = ()
    unique: tuple[str, ...] = ()
    write: str = ""
    whole: bool = False
    unset: bool = False
    adaptation: Adaptation = field(default=Adaptation(), compare=False)


def as_json(contracts: Mapping[str, TableContract]) -> str:
    """The contracts of tables, by name, as a file."""
    tables = [f"{_line(name)}: {_block(_as_plain(contracts[name]))}" for name in sorted(contracts)]
    return f'{{\n  "format": {FORMAT},\n  "tables": {{\n    {f",{_NEXT}".join(tables)}\n  }}\n}}\n'


_NEXT = "\n    "


def _block(table: Mapping[str, Any]) -> str:
    columns = f",{_NEXT}    ".join(map(_line, table["columns"]))
    others = [f"{_NEXT}  {_line(name)}: {_line(value)}" for name, value in table.items() if name != "columns"]
    return f'{{{_NEXT}  "columns": [{_NEXT}    {columns}{_NEXT}  ],{",".join(others)}{_NEXT}}}'


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def from_json(text: str, place: str) -> dict[str, TableContract]:
    """The contracts in the text of a file, which ``place`` names in messages; refuses other text."""
    try:
        found = json.loads(text)
        known = found["format"]
        tables = {} if known != FORMAT else {name: _as_contract(one) for name, one in found["tables"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise IncrementalLoadError(
            f"{place} is no file of contracts ({type(error).__name__}: {error})",
            rule="contracts are compared with a file that incload contract show has written",
            remedy="incload contract show --out contracts.json",
        ) from error
    if known != FORMAT:
        raise IncrementalLoadError(
            f"{place} has the format {known!r}",
            rule=f"this version of incload reads the format {FORMAT}",
            remedy="write the file again with this version: incload contract show --out contracts.json",
        )
    return tables


def _as_plain(contract: TableContract) -> dict[str, Any]:
    own = {column.name for column in contract.columns}
    loaders = [field for field in contract.stored.columns.fields if field.name not in own]
    return {
        "columns": [_as_plain_column(column) for column in contract.columns],
        **({"loader_columns": {one.name: plain_type(one.dataType) for one in loaders}} if loaders else {}),
        "keys": [*contract.keys],
        "sequence_by": [*contract.sequence_by],
        "unique": [*contract.unique],
        "write": contract.write,
        "partitioned_by": [*contract.stored.partitioned_by],
        "properties": dict(sorted(contract.stored.properties.items())),
        **({"rows_are_content": True} if contract.whole else {}),
        **({"partial_changes": True} if contract.unset else {}),
    }


def _as_plain_column(column: ColumnDescription) -> dict[str, Any]:
    return {
        "name": column.name,
        "type": plain_type(column.data_type),
        "nullable": column.nullable,
        **({"personal": column.personal} if column.personal else {}),
        **({"checks": [*column.checks]} if column.checks else {}),
    }


def _as_contract(plain: Mapping[str, Any]) -> TableContract:
    columns = tuple(
        ColumnDescription(
            one["name"],
            data_type(one["type"]),
            one["nullable"],
            one.get("personal", False),
            tuple(one.get("checks", ())),
        )
        for one in plain["columns"]
    )
    fields = [T.StructField(column.name, column.data_type) for column in columns]
    fields += [T.StructField(name, data_type(kind)) for name, kind in plain.get("loader_columns", {}).items()]
    stored = Stored(T.StructType(fields), tuple(plain["partitioned_by"]), plain["properties"])
    return TableContract(
        columns,
        stored,
        keys=tuple(plain["keys"]),
        sequence_by=tuple(plain["sequence_by"]),
        unique=tuple(plain["unique"]),
        write=plain["write"],
        whole=plain.get("rows_are_content", False),
        unset=plain.get("partial_changes", False),
    )


def plain_type(kind: T.DataType) -> Any:
    """A type as JSON: its name in SQL, or ``{"array": …}``, ``{"map": […, …]}``, ``{"struct": {name: …}}``."""
    if isinstance(kind, T.ArrayType):
        return {"array": plain_type(kind.elementType)}
    if isinstance(kind, T.MapType):
        return {"map": [plain_type(kind.keyType), plain_type(kind.valueType)]}
    if isinstance(kind, T.StructType):
        return {"struct": {field.name: plain_type(field.dataType) for field in kind.fields}}
    return kind.simpleString()


PLAIN_TYPES: dict[str, T.DataType] = {
    name: kind
    for kind in (
        T.StringType(), T.BinaryType(), T.BooleanType(), T.ByteType(), T.ShortType(), T.IntegerType(), T.LongType(),
        T.FloatType(), T.DoubleType(), T.DateType(), T.TimestampType(), T.TimestampNTZType(),
    )
    for name in (kind.simpleString(), kind.typeName())
}  # fmt: skip
"""The types that need no arguments, by each of their names in Spark."""


def data_type(plain: Any) -> T.DataType:
    """The type that :func:`plain_type` has written; ValueError if it is none."""
    if isinstance(plain, str):
        if plain.startswith("decimal(") and plain.endswith(")"):
            precision, _, scale = plain[len("decimal(") : -1].partition(",")
            return T.DecimalType(int(precision), int(scale))
        if plain in PLAIN_TYPES:
            return PLAIN_TYPES[plain]
    elif isinstance(plain, dict) and len(plain) == 1:
        [(name, inner)] = plain.items()
        if name == "array":
            return T.ArrayType(data_type(inner))
        if name == "map":
            key, value = inner
            return T.MapType(data_type(key), data_type(value))
        if name == "struct":
            return T.StructType([T.StructField(member, data_type(kind)) for member, kind in inner.items()])
    raise ValueError(f"{plain!r} is no type")
