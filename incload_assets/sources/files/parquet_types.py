"""Parquet types that Spark misreads or cannot read: nanoseconds, INT96, large decimals.

Spark reads nanoseconds, which pandas writes, only as the stored numbers. INT96, the legacy format of times, consists of
a Julian day and nanoseconds of the day; Spark truncates it to microseconds unless it is read as bytes. Both become
strings with all digits here, so that times finer than a microsecond are noticed.
"""

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark.sql.types as T
from pyspark.sql import Column
from pyspark.sql import functions as F

Rendering = Callable[[Column, pa.DataType, bool], Column]
"""A time as Spark reads it, its type in the file, and whether it is for JSON; to a string."""
INT96 = pa.timestamp("ns", "INT96")
"""Placeholder for INT96, which Arrow's schema of a footer does not distinguish from other timestamps."""

_LARGEST_PRECISION = 38
_MICROS_OF_DAY = 86_400_000_000
_EPOCH = 2_440_588
"""The Julian day 1970-01-01."""


def fields_of(footer: pq.FileMetaData) -> list[pa.Field]:
    """The columns of a file with their types in the file, INT96 as :data:`INT96`."""
    fields = list(footer.schema.to_arrow_schema())
    physical = [footer.schema.column(index).physical_type for index in range(footer.num_columns)]
    if "INT96" not in physical:
        return fields
    leaves = iter(physical)
    return [field.with_type(_with_int96(field.type, leaves)) for field in fields]


def is_nanoseconds(kind: pa.DataType) -> bool:
    """True if a type is a time in nanoseconds."""
    return bool(pa.types.is_timestamp(kind) and kind.unit == "ns")


def unreadable(kind: pa.DataType) -> tuple[str, str] | None:
    """Why Spark cannot read a type, and what to write instead; None if it can."""
    if pa.types.is_decimal(kind) and kind.precision > _LARGEST_PRECISION:
        return f"a decimal has up to {_LARGEST_PRECISION} digits", "fewer digits, or strings"
    if pa.types.is_float16(kind):
        return "Spark reads floats of 32 and 64 bits", "one of these"
    if pa.types.is_time(kind):
        return "Spark reads no time of day from Parquet", "strings, or timestamps"
    if pa.types.is_union(kind):
        return "Spark reads no unions from ORC", "a struct with a member for each type, or strings"
    return None


def is_text(kind: pa.DataType) -> bool:
    """True if a type is a string type."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def kinds_in(kind: pa.DataType) -> Iterator[pa.DataType]:
    """A type and the types of its members, at any depth."""
    yield kind
    for member in _members(kind):
        yield from kinds_in(member.type)


def keys_in(kind: pa.DataType) -> Iterator[pa.DataType]:
    """The types in the keys of maps, at any depth of a type."""
    for inner in kinds_in(kind):
        if pa.types.is_map(inner):
            yield from kinds_in(inner.key_type)


def with_bytes(spark: T.DataType, kind: pa.DataType) -> T.DataType:
    """A Spark type, with binary in place of the instants that are INT96 in the file."""
    if kind == INT96:
        return T.BinaryType()
    if isinstance(spark, T.StructType):
        members = ((of, kind.field(of.name).type) for of in spark.fields)
        return T.StructType([T.StructField(of.name, with_bytes(of.dataType, inner)) for of, inner in members])
    if isinstance(spark, T.MapType):
        return T.MapType(with_bytes(spark.keyType, kind.key_type), with_bytes(spark.valueType, kind.item_type))
    return T.ArrayType(with_bytes(spark.elementType, kind.value_type)) if isinstance(spark, T.ArrayType) else spark


def with_times(value: Column, kind: pa.DataType, time: Rendering | None = None, *, iso: bool = False) -> Column:
    """A value as Spark reads it, with the times in it that are nanoseconds by their type converted to strings.

    With ``iso`` times are formatted like ``sql.TIMES_IN_JSON``; otherwise like Spark's cast. ``time`` converts one
    time, by default :func:`exact_text`.
    """
    one = time or exact_text
    if not any(map(is_nanoseconds, kinds_in(kind))):
        return value
    if is_nanoseconds(kind):
        return one(value, kind, iso)
    if pa.types.is_struct(kind):
        members = (with_times(value.getField(field.name), field.type, one, iso=iso).alias(field.name) for field in kind)
        return F.when(value.isNotNull(), F.struct(*members))
    if pa.types.is_map(kind):
        keyed = value
        if any(map(is_nanoseconds, kinds_in(kind.key_type))):
            keyed = F.transform_keys(value, lambda key, _: with_times(key, kind.key_type, one, iso=iso))
        return F.transform_values(keyed, lambda _, item: with_times(item, kind.item_type, one, iso=iso))
    return F.transform(value, lambda item: with_times(item, kind.value_type, one, iso=iso))


def exact_text(value: Column, kind: pa.DataType, iso: bool) -> Column:
    """A time of Parquet, which Spark reads as nanoseconds or as the bytes of INT96, as a string with all digits."""
    if kind == INT96:
        # both numbers are little-endian; reversed, the bytes are the day and the nanoseconds
        digits = F.regexp_replace(F.reverse(F.hex(value)), "(.)(.)", "$2$1")
        day, nanoseconds = (
            F.conv(part, 16, -10).try_cast("bigint") for part in (F.left(digits, F.lit(8)), F.substring(digits, 9, 16))
        )
        micros = F.try_add(F.try_multiply(day - _EPOCH, F.lit(_MICROS_OF_DAY)), _floored(nanoseconds))
        return F.coalesce(_text(micros, F.pmod(nanoseconds, F.lit(1000)), iso, zoned=True), F.hex(value))
    return _text(_floored(value), F.pmod(value, F.lit(1000)), iso, zoned=bool(kind.tz))


def _floored(nanoseconds: Column) -> Column:
    """Nanoseconds rounded down to microseconds in integer arithmetic, because a double would lose digits."""
    before = F.when(nanoseconds % 1000 < 0, F.lit(1)).otherwise(F.lit(0))
    return F.call_function("div", nanoseconds, F.lit(1000)) - before


def _text(micros: Column, rest: Column, iso: bool, *, zoned: bool) -> Column:
    """A time as a string: its microseconds, and the nanoseconds beyond them if there are any."""
    instant, finer = F.timestamp_micros(micros), F.lpad(rest.cast("string"), 3, "0")
    if iso:
        whole = F.date_format(instant, "yyyy-MM-dd'T'HH:mm:ss.SSSSSS")
        return F.concat(whole, F.when(rest == 0, "").otherwise(finer), F.lit("Z" if zoned else ""))
    exact = F.concat(F.date_format(instant, "yyyy-MM-dd HH:mm:ss.SSSSSS"), finer)
    return F.when(rest == 0, instant.cast("string")).otherwise(exact)


def _members(kind: pa.DataType) -> Iterable[pa.Field]:
    return [kind.field(index) for index in range(kind.num_fields)]


def _with_int96(kind: pa.DataType, physical: Iterator[str]) -> pa.DataType:
    """The type with INT96 in place of the leaves, in column order, whose physical type is INT96."""
    if pa.types.is_map(kind):
        return pa.map_(_with_int96(kind.key_type, physical), _with_int96(kind.item_type, physical))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_with_int96(field.type, physical)) for field in kind])
    if kind.num_fields:
        return pa.list_(_with_int96(kind.value_type, physical))
    return INT96 if next(physical) == "INT96" else kind
