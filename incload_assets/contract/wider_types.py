"""Types that became wider: which values of one type are values of another one, and columns with types of both."""

from collections.abc import Callable

import pyspark.sql.types as T

Holds = Callable[[T.DataType, T.DataType], bool]
"""Whether a plain type holds all values of another one."""
_DIGITS: dict[type[T.DataType], int] = {T.ByteType: 3, T.ShortType: 5, T.IntegerType: 10, T.LongType: 19}


def holds(wide: T.DataType, narrow: T.DataType) -> bool:
    """True if every value of one type is exactly a value of another type, in the sense of Delta's type widening."""
    return _fits(wide, narrow, _holds_value)


def holds_text(wide: T.DataType, narrow: T.DataType) -> bool:
    """True if a type is the same or wider, and every value is the same text in both."""
    return _fits(wide, narrow, _holds_text)


def widened(was: T.DataType, now: T.DataType) -> T.DataType:
    """A stored type with each part as wide as declared, if its values keep their text; members keep their places."""
    return _chosen(was, now, lambda narrow, wide: _holds_text(wide, narrow))


def as_narrow(now: T.StructType, was: T.StructType) -> T.StructType:
    """The stored columns with the types that they have in a file from before they were widened; it may lack some."""
    found = _chosen(now, was, _holds_text)
    assert isinstance(found, T.StructType)
    return found


def _chosen(of: T.DataType, other: T.DataType, fits: Holds) -> T.DataType:
    """A type in which each plain part is the other type's, where the two fit; members keep their places."""
    if isinstance(of, T.StructType) and isinstance(other, T.StructType):
        both = [name for name in of.names if name in other.names]
        kinds = {name: _chosen(of[name].dataType, other[name].dataType, fits) for name in both}
        fields = [T.StructField(one.name, kinds.get(one.name, one.dataType), one.nullable, one.metadata) for one in of]
        return T.StructType(fields)
    if isinstance(of, T.ArrayType) and isinstance(other, T.ArrayType):
        return T.ArrayType(_chosen(of.elementType, other.elementType, fits), of.containsNull)
    if isinstance(of, T.MapType) and isinstance(other, T.MapType):
        key, value = _chosen(of.keyType, other.keyType, fits), _chosen(of.valueType, other.valueType, fits)
        return T.MapType(key, value, of.valueContainsNull)
    return other if fits(of, other) else of


def _fits(wide: T.DataType, narrow: T.DataType, plain: Holds) -> bool:
    """True if two types are equal, or have the same structure and every plain type of one holds that of the other."""
    if wide.simpleString() == narrow.simpleString():
        return True
    if isinstance(wide, T.ArrayType) and isinstance(narrow, T.ArrayType):
        return _fits(wide.elementType, narrow.elementType, plain)
    if isinstance(wide, T.MapType) and isinstance(narrow, T.MapType):
        return _fits(wide.keyType, narrow.keyType, plain) and _fits(wide.valueType, narrow.valueType, plain)
    if isinstance(wide, T.StructType) and isinstance(narrow, T.StructType):
        pairs = zip(wide.fields, narrow.fields, strict=False)
        return wide.names == narrow.names and all(_fits(one.dataType, other.dataType, plain) for one, other in pairs)
    return plain(wide, narrow)


def _holds_text(wide: T.DataType, narrow: T.DataType) -> bool:
    if not _holds_value(wide, narrow):
        return False
    if isinstance(wide, T.DecimalType):
        return wide.scale == (narrow.scale if isinstance(narrow, T.DecimalType) else 0)
    return type(wide) in _DIGITS


def _holds_value(wide: T.DataType, narrow: T.DataType) -> bool:
    digits = _DIGITS.get(type(narrow))
    if isinstance(wide, T.DecimalType):
        if isinstance(narrow, T.DecimalType):
            return wide.scale >= narrow.scale and wide.precision - wide.scale >= narrow.precision - narrow.scale
        return digits is not None and wide.precision - wide.scale >= digits
    if isinstance(wide, T.DoubleType):
        return isinstance(narrow, T.FloatType | T.ByteType | T.ShortType | T.IntegerType)
    return digits is not None and digits < _DIGITS.get(type(wide), 0)
