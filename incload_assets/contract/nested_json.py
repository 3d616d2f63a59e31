"""Conversion of JSON to arrays, structs and maps, whose members follow the same rules as columns.

``from_json`` alone turns 1.239 into ``decimal(10,2)`` 1.24, ``"2026"`` into a date and 1e999 into infinity, and ignores
members that a struct does not declare. Here it only splits the JSON into strings. Members of another shape are reported
in its column for corrupt records, which requires a struct around the value.
"""

from collections.abc import Callable

import pyspark.sql.types as T
from pyspark.sql import Column
from pyspark.sql import functions as F

from incload_assets.contract.exact_json import all_marked, is_single, parsed, plain_number, unmarked
from incload_assets.platform.sql import let

Convert = Callable[[Column, T.DataType], Column]
"""From the text of a member and its declared type to its value, NULL if it cannot be converted."""


def from_json(text: Column, target: T.DataType, convert: Convert) -> Column:
    """The value of a JSON text; NULL if it is invalid, has another shape, or a member cannot become its type."""
    wrapper = T.StructType([T.StructField("v", _texts(target)), T.StructField("_corrupt", T.StringType())])
    wrapped = F.concat(F.lit('{"v":'), all_marked(text), F.lit("}"))
    taken = F.from_json(wrapped, wrapper, {"columnNameOfCorruptRecord": "_corrupt"})
    # from_json alone would accept '1}, "v": {"x": 2', and invalid JSON
    whole = let(parsed(text), is_single)

    def checked(it: Column) -> Column:
        made = _made(it["v"], target, convert)
        return let(
            F.struct(it["v"].alias("taken"), made.alias("made"), it["_corrupt"].isNotNull().alias("corrupt")),
            unless_failed,
        )

    def unless_failed(both: Column) -> Column:
        failed = F.coalesce(_failed(both["taken"], both["made"], target), F.lit(False))
        return F.when(~both["corrupt"] & ~failed, both["made"])

    return F.when(whole, let(taken, checked))


def has_undeclared(text: Column, target: T.DataType) -> Column:
    """True if a JSON text has members that a struct in the type does not declare; never NULL."""
    json = F.try_variant_get(parsed(text), "$[0]", "variant")
    return F.coalesce(_undeclared(json, target), F.lit(False))


def holds_struct(data_type: T.DataType) -> bool:
    """True if a type contains structs, so that JSON may have undeclared members."""
    if isinstance(data_type, T.ArrayType):
        return holds_struct(data_type.elementType)
    return isinstance(data_type, T.StructType) or (
        isinstance(data_type, T.MapType) and holds_struct(data_type.valueType)
    )


def _texts(target: T.DataType) -> T.DataType:
    if isinstance(target, T.ArrayType):
        return T.ArrayType(_texts(target.elementType))
    if isinstance(target, T.MapType):
        return T.MapType(T.StringType(), _texts(target.valueType))
    if isinstance(target, T.StructType):
        return T.StructType([T.StructField(field.name, _texts(field.dataType)) for field in target.fields])
    return T.StringType()


def _made(taken: Column, target: T.DataType, convert: Convert) -> Column:
    if isinstance(target, T.ArrayType):
        return F.transform(taken, lambda member: _made(member, target.elementType, convert))
    if isinstance(target, T.MapType):
        # keys that cannot be converted, or that are equal once converted, make the map NULL
        keys = F.transform(F.map_keys(taken), lambda key: convert(key, target.keyType))
        values = F.transform(F.map_values(taken), lambda member: _made(member, target.valueType, convert))
        valid = F.size(F.array_distinct(F.array_compact(keys))) == F.size(taken)
        return F.when(valid, F.map_from_arrays(keys, values))
    if isinstance(target, T.StructType):
        members = [_made(taken[field.name], field.dataType, convert).alias(field.name) for field in target.fields]
        return F.when(taken.isNotNull(), F.struct(*members))
    if isinstance(target, T.StringType):
        return unmarked(taken)
    return convert(plain_number(taken), target)


def _failed(taken: Column, made: Column, target: T.DataType) -> Column:
    """True if a text in the value could not be converted; flat, as a message to Spark has at most a hundred levels."""
    if isinstance(target, T.ArrayType):
        each = F.zip_with(taken, made, lambda text, value: _failed(text, value, target.elementType))
        return F.array_contains(each, True)
    if isinstance(target, T.MapType):
        each = F.zip_with(
            F.map_values(taken), F.map_values(made), lambda text, value: _failed(text, value, target.valueType)
        )
        return (taken.isNotNull() & made.isNull()) | F.array_contains(each, True)
    if isinstance(target, T.StructType):
        members = [_failed(taken[field.name], made[field.name], field.dataType) for field in target.fields]
        return F.array_contains(F.array(*members), True)
    return taken.isNotNull() & made.isNull()


def _undeclared(json: Column, target: T.DataType) -> Column:
    if isinstance(target, T.ArrayType):
        members = F.try_variant_get(json, "$", "array<variant>")
        return F.exists(members, lambda member: _undeclared(member, target.elementType))
    if isinstance(target, T.MapType):
        values = F.map_values(F.try_variant_get(json, "$", "map<string,variant>"))
        return F.exists(values, lambda member: _undeclared(member, target.valueType))
    assert isinstance(target, T.StructType)
    members = F.try_variant_get(json, "$", "map<string,variant>")
    own = F.size(F.array_except(F.map_keys(members), F.array(*map(F.lit, target.names)))) > 0
    deeper = [
        _undeclared(F.try_element_at(members, F.lit(field.name)), field.dataType)
        for field in target.fields
        if holds_struct(field.dataType)
    ]
    return F.array_contains(F.array(own, *deeper), True)
