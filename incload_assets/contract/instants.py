"""Conversion of dates and instants, restricted to the years and the precision that a table holds.

A table holds the years 1 to 9999 in UTC, which all its readers spell the same way, with microseconds. A value with a
finer fraction, or in another year after conversion to UTC, becomes NULL, so that its row is quarantined.
"""

import pyspark.sql.types as T
from pyspark.sql import Column
from pyspark.sql import functions as F

from incload_assets.platform.sql import all_of

INSTANTS = (T.DateType, T.TimestampType, T.TimestampNTZType)
RULES: dict[type[T.DataType], str] = {
    T.DateType: "no time of day, year 1 to 9999",
    T.TimestampType: "at most six fractional digits of a second, year 1 to 9999 in UTC",
}
"""The rule to add to a reason, by type, if the refused text begins like a date."""
DATED = r"^\s*[+-]?\d{4,}-\d"
"""Pattern of a text that begins like a date."""

_FIRST, _LAST = "0001-01-01T00:00:00", "9999-12-31T23:59:59.999999"
_DATE = r"^\s*(?!0000)\d{4}-\d{1,2}-\d{1,2}([T ]00:00(:00(\.0+)?)?([Zz]|\+00:?00)?)?\s*$"
_TIMESTAMP = r"^\s*\d{4}-\d{1,2}-\d{1,2}([T ]\d{1,2}:(?!.*\.\d{6}\d*[1-9]).*)?\s*$"
_WITHOUT_ZONE = r"^\s*(?!0000)\d{4}-\d{1,2}-\d{1,2}([T ]\d{1,2}:\d{1,2}(:\d{1,2}(\.\d{0,6}0*)?)?)?\s*$"
_WITHOUT_SECONDS = r"^(\s*\S{8,10}[T ]\d{1,2}:\d{2})(?=\s*($|[Zz+-]|\s[A-Za-z]))"


def instant_of_text(text: Column, target: T.DataType) -> Column:
    """The date or instant of a text; NULL if the text is none, or if a table cannot hold it.

    Args:
        text: In ISO 8601 format; without an offset it is UTC.
        target: One of :data:`INSTANTS`.
    """
    if isinstance(target, T.DateType):
        return F.when(text.rlike(_DATE), F.substring_index(F.upper(F.trim(text)), "T", 1).try_cast(target))
    if isinstance(target, T.TimestampNTZType):
        return F.when(text.rlike(_WITHOUT_ZONE), text.try_cast(target))
    # Spark requires seconds before an offset, and a capital Z
    whole = F.regexp_replace(F.regexp_replace(text, _WITHOUT_SECONDS, "$1:00"), r"z\s*$", "Z")
    instant = whole.try_cast(target)
    first, last = _bounds(target)
    # one flat expression, see MAX_LEVELS
    cases = F.when(~text.rlike(_TIMESTAMP), None).when(instant < first, None).when(instant > last, None)
    return cases.otherwise(instant)


def in_years(value: Column, kind: T.DataType) -> Column:
    """The value itself; NULL if an instant in it lies outside the years that a table holds.

    Args:
        value: A value of any type.
        kind: Its type.
    """
    return F.when(_is_in_years(value, kind), value) if holds_instants(kind) else value


def holds_instants(kind: T.DataType) -> bool:
    """True if values of a type can contain a date or an instant."""
    if isinstance(kind, T.StructType):
        return any(holds_instants(field.dataType) for field in kind.fields)
    if isinstance(kind, T.MapType):
        return holds_instants(kind.keyType) or holds_instants(kind.valueType)
    return holds_instants(kind.elementType) if isinstance(kind, T.ArrayType) else isinstance(kind, INSTANTS)


def _is_in_years(value: Column, kind: T.DataType) -> Column:
    """Condition that is false if an instant in the value lies outside the years, otherwise true or NULL."""
    if isinstance(kind, INSTANTS):
        return value.between(*_bounds(kind))

    def fine(member: Column, of: T.DataType) -> Column:
        return F.coalesce(_is_in_years(member, of), F.lit(True))

    if isinstance(kind, T.ArrayType):
        return F.forall(value, lambda member: fine(member, kind.elementType))
    if isinstance(kind, T.MapType):
        sides = ((F.map_keys(value), kind.keyType), (F.map_values(value), kind.valueType))
        return all_of(fine(side, T.ArrayType(of)) for side, of in sides if holds_instants(of))
    assert isinstance(kind, T.StructType)
    return all_of(
        fine(value.getField(field.name), field.dataType) for field in kind.fields if holds_instants(field.dataType)
    )


def _bounds(kind: T.DataType) -> tuple[Column, Column]:
    return F.lit(_FIRST).cast(kind), F.lit(_LAST).cast(kind)
