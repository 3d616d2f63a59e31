"""Types of Parquet that Spark reads otherwise than they are meant, or not at all: nanoseconds, INT96, large decimals.

Nanoseconds, which pandas writes, Spark reads only as the number they are stored as. INT96, the old way to write times,
is an instant for Spark; the schema that Arrow makes of a footer calls both nanoseconds.
"""

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column
from pyspark.sql import functions as F

INSTANT = pa.timestamp("us", "UTC")

_LARGEST_PRECISION = 38


def fields_of(footer: pq.FileMetaData) -> list[pa.Field]:
    """The columns of a file with the types that they have for Spark, INT96 as :data:`INSTANT`."""
    fields = list(footer.schema.to_arrow_schema())
    physical = [footer.schema.column(index).physical_type for index in range(footer.num_columns)]
    if "INT96" not in physical:
        return fields
    leaves = iter(physical)
    return [field.with_type(_with_instants(field.type, leaves)) for field in fields]


def is_nanoseconds(kind: pa.DataType) -> bool:
    """Whether a type is a time in nanoseconds."""
    return bool(pa.types.is_timestamp(kind) and kind.unit == "ns")


def is_too_large(kind: pa.DataType) -> bool:
    """Whether a type is a decimal with more digits than those of Spark have."""
    return bool(pa.types.is_decimal(kind) and kind.precision > _LARGEST_PRECISION)


def is_text(kind: pa.DataType) -> bool:
    """Whether a type is a text."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def kinds_in(kind: pa.DataType) -> Iterator[pa.DataType]:
    """A type and those of its members, down to the last."""
    yield kind
    for member in _members(kind):
        yield from kinds_in(member.type)


def keys_in(kind: pa.DataType) -> Iterator[pa.DataType]:
    """The types in the keys of maps, wherever these are in a type."""
    for inner in kinds_in(kind):
        if pa.types.is_map(inner):
            yield from kinds_in(inner.key_type)


def in_microseconds(value: Column, kind: pa.DataType) -> Column:
    """A value as Spark reads it, each number of nanoseconds in it as the time that it means.

    Args:
        value: Of any type.
        kind: Its type in the file, without nanoseconds in the keys of maps.
    """
    if not any(map(is_nanoseconds, kinds_in(kind))):
        return value
    if is_nanoseconds(kind):
        # down to the microsecond before, in whole numbers: a double has no room for the digits
        before = F.when(value % 1000 < 0, F.lit(1)).otherwise(F.lit(0))
        instant = F.timestamp_micros(F.call_function("div", value, F.lit(1000)) - before)
        return instant if kind.tz else instant.cast("timestamp_ntz")
    if pa.types.is_struct(kind):
        members = (in_microseconds(value.getField(field.name), field.type).alias(field.name) for field in kind)
        return F.when(value.isNotNull(), F.struct(*members))
    if pa.types.is_map(kind):
        return F.transform_values(value, lambda _, item: in_microseconds(item, kind.item_type))
    return F.transform(value, lambda item: in_microseconds(item, kind.value_type))


def _members(kind: pa.DataType) -> Iterable[pa.Field]:
    return [kind.field(index) for index in range(kind.num_fields)]


def _with_instants(kind: pa.DataType, physical: Iterator[str]) -> pa.DataType:
    """The type with its leaves, in the order of the columns in the file, as their physical types say."""
    if pa.types.is_map(kind):
        return pa.map_(_with_instants(kind.key_type, physical), _with_instants(kind.item_type, physical))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_with_instants(field.type, physical)) for field in kind])
    if kind.num_fields:
        return pa.list_(_with_instants(kind.value_type, physical))
    return INSTANT if next(physical) == "INT96" else kind
