"""Avro schemas of writers, adapted to what Spark reads without loss.

The binary form of a value depends on neither the names of types nor on logical types, so an adapted schema reads the
same bytes. Spark would read a decimal of more digits than its schema declares as another number, refuses the precision
of 64 that Kafka Connect declares by default, and knows no nanoseconds; so decimals get the largest precision, and other
times are read as the numbers that they are. See the specification of Apache Avro 1.12.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
LOGICAL = "as"
"""The member of an adapted type with the logical type that :mod:`.avro` handles, which Spark ignores."""
_OF_SPARK = {
    "date": "int",
    "timestamp-millis": "long",
    "timestamp-micros": "long",
    "local-timestamp-millis": "long",
    "local-timestamp-micros": "long",
}
"""Logical types that Spark reads exactly, with the primitive types that they are of."""
_OURS = {
    "time-millis": "int",
    "time-micros": "long",
    "timestamp-nanos": "long",
    "local-timestamp-nanos": "long",
}
_DIGITS = 38
_MOST_TYPES = 20_000
"""Largest number of types in a schema once each name is replaced by what it names."""

Node = Mapping[str, Any]
"""An adapted type: ``type`` and, by it, ``fields``, ``items``, ``values``, ``symbols``, ``size``, ``branches``."""


class WrongSchema(Exception):
    """A schema that is not Avro, or that Spark cannot read; the text says why."""


def adapted(text: str, references: Sequence[str] = (), *, logical: bool = True) -> Node:
    """The adapted type of a schema in JSON. Each type in it stands in full and has a name of its own.

    Args:
        text: The schema.
        references: Schemas whose names it uses, each after those that it uses itself.
        logical: False: logical types are left out, as in the JSON of Kafka Connect.
    """
    reading = _Reading(logical)
    try:
        for reference in references:
            reading.of(_parsed(reference), "", ())
        return reading.of(_parsed(text), "", ())
    except RecursionError:
        raise WrongSchema("its types are nested too deeply") from None


def for_files(text: str) -> str:
    """A schema in JSON with its own names, adapted as by :func:`adapted`: Spark compares names in files."""

    def widened(schema: Any) -> Any:
        if isinstance(schema, list):
            return [widened(one) for one in schema]
        if not isinstance(schema, dict):
            return schema
        made = {name: value if name in ("default", "doc") else widened(value) for name, value in schema.items()}
        if schema.get("logicalType") in _OURS:
            del made["logicalType"]
        return {**made, **exact_decimal(schema)} if schema.get("logicalType") == "decimal" else made

    return json.dumps(widened(json.loads(text)))


def exact_decimal(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The logical type of a decimal with the largest precision; one without sense for an invalid decimal."""
    kind, precision, scale = schema.get("type"), schema.get("precision"), schema.get("scale", 0)
    if kind not in ("bytes", "fixed") or not isinstance(precision, int) or not isinstance(scale, int):
        return {"logicalType": "bytes"}
    held = _DIGITS if kind == "bytes" else _digits_of(schema["size"])
    most = min(held, _DIGITS)
    if not 0 <= scale <= min(precision, most) or (kind == "fixed" and precision > held):
        return {"logicalType": "bytes"}
    return {"logicalType": "decimal", "precision": most, "scale": scale}


def is_events(node: Node) -> bool:
    """True if a type is the envelope of Debezium's events, which has its connector's types in ``connect.name``."""
    names = {name for name, _ in fields_of(node)}
    return str(node.get("connect.name", "")).endswith(".Envelope") and {"before", "after", "source", "op"} <= names


def fields_of(node: Node) -> list[tuple[str, Node]]:
    """The names and types of the fields of a record; none of another type."""
    return [(one["name"], one["type"]) for one in node.get("fields", ())]


def branches_of(node: Node) -> list[Node]:
    """The types of a union except null; a type that is no union is its only one."""
    return [one for one in node["branches"] if one["type"] != "null"] if node["type"] == "union" else [node]


def inner(node: Node) -> Node:
    """The type of a value that may be NULL; a union of several types is itself."""
    branches = branches_of(node)
    if not branches:
        return {"type": "null"}
    return inner(branches[0]) if len(branches) == 1 and node["type"] == "union" else node


def for_spark(node: Node) -> Any:
    """An adapted type in the notation of Avro."""
    match node["type"]:
        case "union":
            return [for_spark(one) for one in node["branches"]]
        case "record":
            members = [{"name": name, "type": for_spark(kind)} for name, kind in fields_of(node)]
            return {"type": "record", "name": node["name"], "fields": members}
        case "array" | "map":
            of = "items" if node["type"] == "array" else "values"
            return {"type": node["type"], of: for_spark(node[of])}
    shown = ("type", "name", "size", "symbols", "logicalType", "precision", "scale")
    return {name: node[name] for name in shown if name in node}


def connect_schema(node: Node) -> dict[str, Any]:
    """The types of the rows in Debezium's events, as Kafka Connect describes them in JSON beside a payload."""

    def described(kind: Node) -> dict[str, Any]:
        of = inner(kind)
        found: dict[str, Any] = {"name": of.get("connect.name")}
        if scale := (of.get("connect.parameters") or {}).get("scale"):
            found["parameters"] = {"scale": scale}
        if of["type"] == "array":
            found["items"] = described(of["items"])
        return {name: value for name, value in found.items() if value}

    row = inner(dict(fields_of(node))["after"])
    columns = [{"field": name, **shown} for name, kind in fields_of(row) if (shown := described(kind))]
    return {"type": "struct", "fields": [{"field": "after", "fields": columns}]}


@dataclass
class _Reading:
    logical: bool
    named: dict[str, tuple[Any, str]] = field(default_factory=dict)
    """Definitions by full name, with the namespace that they stand in."""
    count: int = 0

    def of(self, schema: Any, space: str, within: tuple[str, ...]) -> Node:
        """The adapted type of a schema in a namespace, inside the named types ``within``."""
        self.count += 1
        if self.count > _MOST_TYPES:
            raise WrongSchema(f"it has more than {_MOST_TYPES} types once its names are replaced by what they name")
        if isinstance(schema, str):
            return {"type": schema} if schema in PRIMITIVES else self._by_name(schema, space, within)
        if isinstance(schema, list):
            return self._union(schema, space, within)
        if not isinstance(schema, dict) or "type" not in schema:
            raise WrongSchema(f"{_shown(schema)} is no type")
        kind = schema["type"]
        if kind in ("record", "error", "enum", "fixed"):
            name = _full_name(schema, space)
            if name in self.named and self.named[name][0] is not schema:
                raise WrongSchema(f"{name!r} is defined twice")
            self.named[name] = (schema, space)
            return self._named(schema, name, within)
        if kind in ("array", "map"):
            member = "items" if kind == "array" else "values"
            if member not in schema:
                raise WrongSchema(f"{_shown(schema)} has no {member}")
            return {"type": kind, member: self.of(schema[member], space, within), **_of_connect(schema)}
        if not isinstance(kind, str) or kind not in PRIMITIVES:  # a type in another one, such as a name in an object
            return {**self.of(kind, space, within), **_of_connect(schema)}
        return {"type": kind, **_of_connect(schema), **(self._logical(schema) if self.logical else {})}

    def _by_name(self, name: str, space: str, within: tuple[str, ...]) -> Node:
        full = name if "." in name or not space else f"{space}.{name}"
        full = full if full in self.named else name
        if full not in self.named:
            raise WrongSchema(f"{name!r} is no type, and no type of that name is defined before it")
        schema, _ = self.named[full]
        return self._named(schema, full, within)

    def _named(self, schema: dict[str, Any], full: str, within: tuple[str, ...]) -> Node:
        if full in within:
            raise WrongSchema(f"{full!r} contains itself, and Spark's types end somewhere")
        own = {"type": schema["type"], "name": f"Type{self.count}", **_of_connect(schema)}
        if schema["type"] == "enum":
            if not isinstance(schema.get("symbols"), list) or not all(isinstance(s, str) for s in schema["symbols"]):
                raise WrongSchema(f"the enum {full!r} has no symbols")
            return {**own, "symbols": schema["symbols"]}
        if schema["type"] == "fixed":
            if not isinstance(schema.get("size"), int) or schema["size"] < 0:
                raise WrongSchema(f"the fixed {full!r} has no size")
            return {**own, "size": schema["size"], **(self._logical(schema) if self.logical else {})}
        members = schema.get("fields")
        if not isinstance(members, list) or not all(isinstance(m, dict) and "type" in m for m in members):
            raise WrongSchema(f"the record {full!r} has no fields, or one without a type")
        names = [member.get("name") for member in members]
        lowered = [str(name).lower() for name in names]
        for name in names:
            if not isinstance(name, str) or lowered.count(name.lower()) > 1:
                raise WrongSchema(f"the record {full!r} has fields that differ at most in case: {name!r}")
        space = full.rpartition(".")[0]
        fields = [
            {"name": m["name"], "type": self.of(m["type"], space, (*within, full)), "aliases": m.get("aliases") or ()}
            for m in members
        ]
        return {**own, "type": "record", "fields": fields}

    def _union(self, schema: list[Any], space: str, within: tuple[str, ...]) -> Node:
        branches = [self.of(one, space, within) for one in schema]
        kinds = {one["type"] for one in branches} - {"null"}
        if "union" in kinds or not branches:
            raise WrongSchema("a union has no branch, or one that is a union itself")
        if kinds in ({"int", "long"}, {"float", "double"}):  # Spark reads the wider one
            branches = [{"type": one["type"]} for one in branches]
        return {"type": "union", "branches": branches}

    def _logical(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """The logical type as Spark has it, or as ``LOGICAL``; an invalid one is ignored, as Avro demands."""
        kind, name = schema["type"], schema.get("logicalType")
        if not isinstance(name, str):
            return {}
        if _OF_SPARK.get(name) == kind:
            return {"logicalType": name}
        if _OURS.get(name) == kind or (name == "uuid" and kind == "fixed" and schema.get("size") == 16):
            return {LOGICAL: name}
        made = exact_decimal(schema) if name == "decimal" else {}
        return made if made.get("logicalType") == name else {}


def _digits_of(size: int) -> int:
    """The digits of every number that so many bytes hold."""
    return math.floor(math.log10(2) * (8 * size - 1)) if size else 0


def _full_name(schema: Mapping[str, Any], space: str) -> str:
    name, own = schema.get("name"), schema.get("namespace", space)
    if not isinstance(name, str) or not name or not isinstance(own, str):
        raise WrongSchema(f"{_shown(schema)} has no name")
    return name if "." in name or not own else f"{own}.{name}"


def _of_connect(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {name: schema[name] for name in ("connect.name", "connect.parameters") if name in schema}


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise WrongSchema("it is not JSON") from None


def _shown(schema: Any) -> str:
    text = json.dumps(schema, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:80]}…"
