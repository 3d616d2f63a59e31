"""The JSON schema of what a YAML file can declare, for ``dg check yaml`` and for editors.

Alternatives are chosen by ``if``, and not listed as ``anyOf``, so that an error is about the alternative that was meant
and names the key. Any value can be a template, which is filled in when the file is loaded.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import is_dataclass
from datetime import timedelta
from types import NoneType
from typing import Any, Literal, get_args, get_origin

import dagster as dg
import pyspark.sql.types as T

from incload_assets.component.kinds import Argument, arguments_of, choices_of, members_of, table_arguments
from incload_assets.component.nodes import DEFAULTS
from incload_assets.component.reading import TEMPLATE, is_several
from incload_assets.component.tables import NAME, TABLES
from incload_assets.platform.durations import PATTERN

_Schema = dict[str, Any]
_IS_TEMPLATE = {"type": "string", "pattern": TEMPLATE}
_SCALARS: Mapping[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}
_NAMES = (type, Callable, dg.AssetKey)
"""Types whose values are written as names."""


def attributes_schema(example: Mapping[str, Any]) -> _Schema:
    """The schema of ``attributes``: one table, or many with what they have in common."""
    schemas, arguments = _Schemas(), table_arguments()
    table = schemas.mapping(arguments)
    in_part = _Schemas(schemas.defs, partly=True).mapping({name: arguments[name] for name in arguments if name != NAME})
    schemas.defs["DeclaredInPart"] = in_part
    own = {"type": ["object", "null"], "if": {"type": "object"}, "then": {"$ref": "#/$defs/DeclaredInPart"}}
    many = {
        DEFAULTS: {"$ref": "#/$defs/DeclaredInPart", "description": "What the tables have in common."},
        TABLES: {
            "type": "object",
            "description": "Tables by name, with what each has of its own.",
            "minProperties": 1,
            "additionalProperties": own,
        },
    }
    return {
        "title": "IncrementalTable",
        "type": "object",
        "examples": [example],
        "properties": table["properties"] | many,
        "additionalProperties": _no_others(table["properties"] | many),
        "if": {"anyOf": [{"required": [DEFAULTS]}, {"required": [TABLES]}]},
        "then": {
            "required": [TABLES],
            "properties": {DEFAULTS: {}, TABLES: {}},
            "additionalProperties": _no_others(many),
        },
        "else": {"required": table["required"]},
        "$defs": schemas.defs,
    }


class _Schemas:
    """Schemas of types, with definitions of classes; ``partly``: another mapping may have what is required."""

    def __init__(self, defs: _Schema | None = None, *, partly: bool = False) -> None:
        self.defs: _Schema = {} if defs is None else defs
        self._partly = partly

    def mapping(self, arguments: Mapping[str, Argument], **more: _Schema) -> _Schema:
        """The schema of a mapping with these arguments."""
        required = [name for name, one in arguments.items() if one.required and not self._partly]
        properties = {
            name: self.of(one.kind) | ({"description": one.about} if one.about else {})
            for name, one in arguments.items()
        }
        return {
            "type": "object",
            "properties": more | properties,
            "additionalProperties": _no_others(more | properties),
            **({"required": required} if required else {}),
        }

    def of(self, kind: Any) -> _Schema:
        """The schema of a type."""
        members = members_of(kind)
        if Any in members:
            return {}
        choices = choices_of(members)
        parts = self._choice(choices) if choices else []
        parts += [part for one in members if not choices or one in _SCALARS for part in self._member(one)]
        conditions = [{"if": {"type": name}, "then": schema} for name, schema in parts if schema]
        joined = {"type": list(dict.fromkeys(name for name, _ in parts))}
        return {"if": _IS_TEMPLATE, "else": {**joined, "allOf": conditions} if conditions else joined}

    def _member(self, kind: Any) -> list[tuple[str, _Schema]]:
        """The JSON types of an alternative, each with what holds for it."""
        origin, of = get_origin(kind), get_args(kind)
        if kind in _SCALARS:
            return [(_SCALARS[kind], {})]
        if origin is Literal:
            return [("string", {"enum": list(of)})]
        if kind is T.DataType:
            return [("string", {}), ("object", {})]
        if kind is timedelta:
            return [("string", {"pattern": f"^{PATTERN}$"})]
        if isinstance(kind, type) and is_dataclass(kind):
            return [("object", self._reference(kind))]
        if origin is not None and issubclass(origin, Mapping):
            return [("object", {"additionalProperties": self.of(of[1])})]
        if is_several(kind):
            return [("array", {"items": self.of(of[0])}), ("string", {})]
        return [("string", {})] if kind in _NAMES else []

    def _choice(self, choices: Mapping[str, type[Any]]) -> list[tuple[str, _Schema]]:
        alone = [name for name, made in choices.items() if not _required(made)]
        branches = [
            {
                "if": {"properties": {"type": {"const": name}}, "required": ["type"]},
                "then": self._reference(made, type={"const": name}),
            }
            for name, made in choices.items()
        ]
        chosen = {"properties": {"type": {"enum": list(choices)}}, "allOf": branches}
        return [
            ("object", chosen if self._partly else chosen | {"required": ["type"]}),
            *([("string", {"enum": alone})] if alone else []),
        ]

    def _reference(self, made: Any, **more: _Schema) -> _Schema:
        name = f"{made.__name__}{'InPart' if self._partly else ''}"
        if name not in self.defs:
            self.defs[name] = {}  # a source may have a source
            self.defs[name] = self.mapping(arguments_of(made), **more)
        return {"$ref": f"#/$defs/{name}"}


def _no_others(keys: Iterable[str]) -> _Schema:
    """The schema of the values of all other keys: an error about one names its line, and the keys that there are."""
    return {"const": f"one of the keys {', '.join(keys)}"}


def _required(made: Any) -> list[str]:
    return [name for name, one in arguments_of(made).items() if one.required]
