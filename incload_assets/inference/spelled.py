"""Values and types as the Python that declares them."""

import keyword
import re
from collections.abc import Collection

import pyspark.sql.types as T
from pandera.pyspark import DataFrameModel

from incload_assets.declaration.rules import NOT_IN_NAMES

_IMPORTED = {"T", "pa", "dg", "F"}


def text(value: str) -> str:
    """A string as a literal in double quotes, where it has none itself."""
    quoted = repr(value)
    return f'"{quoted[1:-1]}"' if quoted[0] == "'" and '"' not in value else quoted


def texts(values: Collection[str]) -> str:
    """A list of strings as a literal."""
    return f"[{', '.join(map(text, values))}]"


def identifier(name: str, taken: Collection[str] = ()) -> str:
    """A Python name for a column, other than those taken and than what a model or the module means by a name.

    Example:
        >>> identifier("Order No.")
        'Order_No'
    """
    made = re.sub(r"\W+", "_", name).strip("_") or "column"
    made = f"column_{made}" if made[0].isdigit() else made
    while keyword.iskeyword(made) or made in _IMPORTED or made in taken or hasattr(DataFrameModel, made):
        made += "_"
    return "Config_" if made == "Config" else made


def why_left_out(name: str) -> str:
    """The reason why a contract cannot have a column of a name; empty if it can."""
    if name.startswith("_") or not name.strip():
        return "names that begin with _ are reserved"
    if bad := sorted({*name} & {*NOT_IN_NAMES}):
        return f"Delta accepts no {', '.join(map(repr, bad))} in names"
    return ""


def class_name(table: str) -> str:
    """The name of the contract of a table: ``order_lines`` has rows of ``OrderLine``."""
    parts = [part for part in re.split(r"[\W_]+", table) if part]
    last = parts[-1]
    parts[-1] = last[:-3] + "y" if last.endswith("ies") else last[:-1] if re.search("[^sui]s$", last) else last
    made = "".join(part[:1].upper() + part[1:] for part in parts)
    return f"{made}Row" if made in _IMPORTED or keyword.iskeyword(made) else made


def annotation(kind: T.DataType) -> str:
    """The annotation of a field of a type: ``T.LongType``."""
    return f"T.{type(kind).__name__}"


def type_options(kind: T.DataType) -> str | None:
    """The ``dtype_kwargs`` that a field of a type needs; None: none."""
    match kind:
        case T.DecimalType():
            return f'{{"precision": {kind.precision}, "scale": {kind.scale}}}'
        case T.ArrayType():
            return f'{{"elementType": {type_text(kind.elementType)}, "containsNull": {kind.containsNull}}}'
        case T.MapType():
            of = f'"keyType": {type_text(kind.keyType)}, "valueType": {type_text(kind.valueType)}'
            return f'{{{of}, "valueContainsNull": {kind.valueContainsNull}}}'
        case T.StructType():
            return f'{{"fields": {_fields(kind)}}}'
    return None


def type_text(kind: T.DataType) -> str:
    """The expression of a type."""
    match kind:
        case T.DecimalType():
            return f"T.DecimalType({kind.precision}, {kind.scale})"
        case T.ArrayType():
            return f"T.ArrayType({type_text(kind.elementType)})"
        case T.MapType():
            return f"T.MapType({type_text(kind.keyType)}, {type_text(kind.valueType)})"
        case T.StructType():
            return f"T.StructType({_fields(kind)})"
    return f"T.{type(kind).__name__}()"


def _fields(kind: T.StructType) -> str:
    return f"[{', '.join(f'T.StructField({text(f.name)}, {type_text(f.dataType)})' for f in kind.fields)}]"
