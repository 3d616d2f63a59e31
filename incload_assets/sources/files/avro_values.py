"""Values of Avro as Spark reads them by an adapted schema, rendered without loss: times as text, unions as variants."""

from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F

from incload_assets.platform.sql import TIMES_IN_JSON, any_of
from incload_assets.sources.files.avro_schema import LOGICAL, Node, branches_of, fields_of, inner
from incload_assets.sources.files.parquet_types import with_times

_MILLIS_OF_DAY = 86_400_000
_UUID = ("(.{8})(.{4})(.{4})(.{4})(.{12})", "$1-$2-$3-$4-$5")


def is_bytes(node: Node) -> bool:
    """True if the values of a type are bytes and nothing else."""
    of = inner(node)
    return of["type"] in ("bytes", "fixed") and "logicalType" not in of and LOGICAL not in of


def rendered(value: Column, node: Node) -> Column:
    """A value with what Spark does not render as wanted in JSON replaced."""
    of = inner(node)
    if not is_changed(of):
        return value
    if LOGICAL in of:
        return _of_logical(value, of[LOGICAL])
    match of["type"]:
        case "union":
            return variant(value, of)
        case "array":
            return F.transform(value, lambda item: rendered(item, of["items"]))
        case "map":
            return F.transform_values(value, lambda _, item: rendered(item, of["values"]))
    members = [rendered(value.getField(name), kind).alias(name) for name, kind in fields_of(of)]
    return F.when(value.isNotNull(), F.struct(*members))


def is_changed(node: Node) -> bool:
    """True if :func:`rendered` changes the values of a type."""
    of = inner(node)
    if of["type"] == "union":
        return not _is_wider(of)
    inside = [kind for _, kind in fields_of(of)] + [of[name] for name in ("items", "values") if name in of]
    return LOGICAL in of or any(map(is_changed, inside))


def _is_wider(union: Node) -> bool:
    """True if Spark reads a union as the wider one of its two types of numbers."""
    return {one["type"] for one in branches_of(union)} in ({"int", "long"}, {"float", "double"})


def variant(value: Column, union: Node) -> Column:
    """The value of a union of several types; in Spark it is a struct with a member for each type."""
    found = []
    for number, branch in enumerate(branches_of(union)):
        member = rendered(value.getField(f"member{number}"), branch)
        nested = branch["type"] in ("record", "array", "map")
        found.append(F.to_variant_object(member) if nested else _scalar(member, branch).cast("variant"))
    return F.coalesce(*found)


def _scalar(value: Column, node: Node) -> Column:
    of_text = LOGICAL not in node and ("logicalType" in node or node["type"] in ("bytes", "fixed"))
    return value if node.get("logicalType") == "decimal" or not of_text else plain_text(value, node)


def plain_text(value: Column, node: Node) -> Column:
    """The text of a value that is no record, array, map or union, as JSON would have it without quotes."""
    if str(node.get("logicalType", "")).endswith(("-millis", "-micros")):
        local = node["logicalType"].startswith("local")
        return F.date_format(value, TIMES_IN_JSON["timestampNTZFormat" if local else "timestampFormat"])
    return F.base64(value) if is_bytes(node) else value.cast("string")


def _of_logical(value: Column, logical: str) -> Column:
    if logical == "uuid":
        return F.regexp_replace(F.lower(F.hex(value)), *_UUID)
    if logical.endswith("-nanos"):
        zone = None if logical.startswith("local") else "UTC"
        return with_times(value, pa.timestamp("ns", zone), iso=True)
    millis = logical == "time-millis"
    at = F.timestamp_millis(value.cast("bigint")) if millis else F.timestamp_micros(value)
    inside = (value >= 0) & (value < F.lit(_MILLIS_OF_DAY * (1 if millis else 1000)))
    return F.when(inside, F.date_format(at, "HH:mm:ss.SSSSSS")).otherwise(value.cast("string"))


def holds_text(node: Node) -> bool:
    """True if values of a type may contain strings."""
    of = inner(node)
    inside: list[Any] = [kind for _, kind in fields_of(of)] + [of[name] for name in ("items",) if name in of]
    inside += branches_of(of) if of["type"] == "union" else []
    return of["type"] in ("string", "map") or any(map(holds_text, inside))


def has_wrong_text(value: Column, node: Node) -> Column:
    """True if a string in a value is not UTF-8, which JSON would silently replace."""
    of = inner(node)
    match of["type"]:
        case "string":
            wrong = ~F.is_valid_utf8(value)
        case "array":
            wrong = F.exists(value, lambda item: has_wrong_text(item, of["items"]))
        case "map":
            wrong = F.exists(F.map_keys(value), lambda key: ~F.is_valid_utf8(key))
            if holds_text(of["values"]):
                wrong |= F.exists(F.map_values(value), lambda item: has_wrong_text(item, of["values"]))
        case "union":
            kinds = [(f"member{n}", kind) for n, kind in enumerate(branches_of(of)) if holds_text(kind)]
            wrong = any_of(has_wrong_text(value.getField(name), kind) for name, kind in kinds)
        case _:
            members = (has_wrong_text(value.getField(name), kind) for name, kind in fields_of(of) if holds_text(kind))
            wrong = any_of(members)
    return F.coalesce(wrong, F.lit(False))
