"""Lossless conversion of raw values to declared types; a value that cannot be converted becomes NULL.

Spark's own casts accept more than a loader may: ``2026`` as a date, ``12:30`` as a timestamp of today, ``1.239`` as
``decimal(10,2)``, ``1e400`` as infinity, ``1.0f`` as a double, the number 1.5 as a bigint. Each such value becomes NULL
here, so that the row is rejected with a reason and never silently changed.

A value gives the same result in every format and source type: a double 100.0 in Parquet is equal to ``1e2`` in JSON.
See :mod:`~incload_assets.contract.numbers` and :mod:`~incload_assets.contract.instants`.
"""

from typing import Any

import pyspark.sql.types as T
from pandera.dtypes import immutable
from pandera.engines import pyspark_engine
from pyspark.sql import Column
from pyspark.sql import functions as F

from incload_assets.contract.instants import INSTANTS, in_years, instant_of_text
from incload_assets.contract.nested_json import from_json
from incload_assets.contract.numbers import number_of_number, number_of_text
from incload_assets.platform.sql import TIMES_IN_JSON

NESTED = (T.StructType, T.ArrayType, T.MapType)
MAX_LEVELS = 10
"""Deepest nesting of types: their conversion goes to Spark in a message of at most a hundred levels."""


@pyspark_engine.Engine.register_dtype(equivalents=[T.StructType])
@immutable(init=True)
class Struct(pyspark_engine.DataType):
    """A struct type in pandera models; pandera's PySpark engine has none."""

    def __init__(self, fields: list[T.StructField] | None = None) -> None:
        object.__setattr__(self, "type", T.StructType(fields or []))

    @classmethod
    def from_parametrized_dtype(cls, data_type: T.StructType):  # type: ignore[no-untyped-def]
        """The pandera type of a Spark struct type."""
        return cls(data_type.fields)


def convert(value: Column, source: T.DataType, target: T.DataType) -> Column:
    """The raw value as the target type; NULL if that would lose information. Never throws.

    The value is a string (from text formats; nested values as JSON, binary as base64), or from a typed file.
    """
    if isinstance(source, T.StringType):
        return value if isinstance(target, T.StringType) else _from_text(value, target)
    if source == target or (isinstance(target, NESTED) and _same(source, target)):
        return in_years(value, target)
    if isinstance(source, NESTED):
        if _bytes_as_text(source, target):
            return _none(target)
        text = F.to_json(value, TIMES_IN_JSON)
        return convert(text, T.StringType(), target) if isinstance(target, (*NESTED, T.StringType)) else _none(target)
    return _from_native(value, source, target)


def _from_text(text: Column, target: T.DataType) -> Column:
    if isinstance(target, NESTED):
        return from_json(text, target, _member)
    if isinstance(target, INSTANTS):
        return instant_of_text(text, target)
    if isinstance(target, (T.NumericType, T.BooleanType)):
        return number_of_text(text, target)
    if isinstance(target, T.BinaryType):
        # base64 may have line breaks, as Spark writes it; the decoder also accepts other strings, such as NaN
        given = F.regexp_replace(text, r"\s", "")
        made = F.try_to_binary(given, F.lit("base64"))
        return F.when(F.regexp_replace(F.base64(made), r"\s", "") == given, made)
    return text.try_cast(target)


def _member(text: Column, target: T.DataType) -> Column:
    return convert(text, T.StringType(), target)


def _from_native(value: Column, source: T.DataType, target: T.DataType) -> Column:
    if isinstance(source, T.BinaryType):
        text = F.when(F.is_valid_utf8(value.cast("string")), value.cast("string"))
        return text if isinstance(target, T.StringType) else _none(target)
    if isinstance(target, T.StringType):
        return value.cast("string")
    if isinstance(source, T.NumericType) and isinstance(target, (T.NumericType, T.BooleanType)):
        return number_of_number(value, source, target)
    if isinstance(source, INSTANTS) and isinstance(target, INSTANTS):
        cast = value.try_cast(target)
        return in_years(F.when(cast.try_cast(source).eqNullSafe(value), cast), target)
    return _none(target)


def _bytes_as_text(source: T.DataType, target: T.DataType) -> bool:
    """True if bytes in a nested value would become a string; in JSON they are base64."""
    match source, target:
        case T.BinaryType(), T.StringType():
            return True
        case T.ArrayType(), T.ArrayType():
            return _bytes_as_text(source.elementType, target.elementType)
        case T.MapType(), T.MapType():
            return _bytes_as_text(source.valueType, target.valueType)
        case T.StructType(), T.StructType():
            kinds = {field.name: field.dataType for field in source.fields}
            return any(f.name in kinds and _bytes_as_text(kinds[f.name], f.dataType) for f in target.fields)
    return False


def _none(target: T.DataType) -> Column:
    return F.lit(None).cast(target)


def _same(left: T.DataType, right: T.DataType) -> bool:
    """True if types are equal except for nullability and comments."""
    return left.simpleString() == right.simpleString()


def text_for(value: Column, kind: T.DataType, target: T.DataType | None) -> Column:
    """A value as a string that converts to ``target`` (None: undeclared) like the value; see :func:`bytes_faults`."""
    target = target or T.StringType()
    if isinstance(kind, T.BinaryType) != isinstance(target, T.BinaryType) and not isinstance(target, T.StringType):
        return F.concat(
            F.lit(f"{kind.simpleString()} "), as_text(value, kind)
        )  # base64 could be mistaken for a number, or a number for base64
    if isinstance(target, NESTED):  # the string keeps undeclared members, so that they can be rescued
        text = as_text(value, kind)
        return F.concat(F.lit("bytes in "), text) if _bytes_as_text(kind, target) else text
    return F.coalesce(as_text(convert(value, kind, target), target), as_text(value, kind))


def bytes_faults(name: str, value: Column, kind: T.DataType, target: T.DataType | None) -> list[Column]:
    """The faults of bytes that :func:`text_for` turns into a string, which always converts; NULL if there is none."""
    if not (isinstance(kind, T.BinaryType) and isinstance(target, T.StringType)):
        return []
    return [F.when(value.isNotNull() & convert(value, kind, target).isNull(), f"{name}: bytes, not UTF-8")]


def as_text(value: Column, data_type: T.DataType) -> Column:
    """A value as a string for people, as in a reason."""
    if isinstance(data_type, NESTED):
        return F.to_json(value, TIMES_IN_JSON)
    return F.base64(value) if isinstance(data_type, T.BinaryType) else value.cast("string")


def levels(data_type: T.DataType) -> int:
    """The nesting depth of a type; 0 for a plain type."""
    if isinstance(data_type, T.StructType):
        inner = [field.dataType for field in data_type.fields]
    elif isinstance(data_type, T.MapType):
        inner = [data_type.keyType, data_type.valueType]
    else:
        inner = [data_type.elementType] if isinstance(data_type, T.ArrayType) else []
    return 1 + max(map(levels, inner), default=0) if isinstance(data_type, NESTED) else 0


def ambiguous_members(data_type: Any, path: str) -> list[str]:
    """Paths of struct members that differ from a sibling only in case, which Spark and Delta do not distinguish."""
    if isinstance(data_type, T.ArrayType):
        return ambiguous_members(data_type.elementType, path)
    if isinstance(data_type, T.MapType):
        return ambiguous_members(data_type.keyType, path) + ambiguous_members(data_type.valueType, path)
    if not isinstance(data_type, T.StructType):
        return []
    lowered = [name.lower() for name in data_type.names]
    found = [f"{path}.{name}" for name in data_type.names if lowered.count(name.lower()) > 1]
    return found + [
        bad for field in data_type.fields for bad in ambiguous_members(field.dataType, f"{path}.{field.name}")
    ]
