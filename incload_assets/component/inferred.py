"""A declaration that is inferred from data as attributes in YAML, with the evidence of each part as comments."""

import ast
import inspect
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import dagster as dg
import pyspark.sql.types as T
import yaml

from incload_assets import assets
from incload_assets.component.kinds import type_name
from incload_assets.inference.inferred import Inferred, InferredColumn
from incload_assets.inference.render import asked, changes_of, comment, description_of
from incload_assets.platform.durations import text_of_duration

_OF_SOURCE = {"events.changes()": "{{ source.changes() }}"}
"""Changes that a source makes by itself, as Python and as a template of YAML."""


def attributes_of(found: Inferred) -> str:
    """The attributes of the component, as lines of YAML."""
    return "\n".join(_lines(found)) + "\n"


def _lines(found: Inferred) -> Iterator[str]:
    origin = found.origin
    yield from asked(found.questions, "")
    yield f"name: {found.table}"
    yield f"description: {_flow(description_of(found))}"
    yield from comment(f"windows: {origin.partitions.why}", "")
    yield f"partitions_def: {_flow(_value(origin.partitions.declaration))}"
    for note in origin.notes:
        yield from comment(f"source: {note}", "")
    yield f"source: {_flow(_value(origin.source))}"
    yield "contract:"
    yield "  columns:"
    for column in found.columns:
        yield from _column(column)
    if found.keys_why:
        yield from comment(f"key: {', '.join(found.keys) + ': ' if found.keys else ''}{found.keys_why}", "")
    if found.sequence and found.keys:
        yield from comment(f"order: {found.sequence}: {found.sequence_why}", "")
    if found.delete_when:
        yield from comment(f"deletes: {found.delete_why}", "")
    if changes := origin.changes or changes_of(found):
        made = _OF_SOURCE.get(changes) or {name: one for name, one in _value(changes).items() if name != "type"}
        yield f"changes: {_flow(made)}"
    yield from comment(f"write: {found.write_why}", "")
    write = _value(found.write)
    yield f"write: {_flow(write if len(write) > 1 else write['type'])}"


def _column(column: InferredColumn) -> Iterator[str]:
    if column.left_out:
        yield from comment(f"{column.name!r} is left out: {column.left_out}. The log keeps its values", "    ")
        return
    yield from comment(f"{column.name}: {column.evidence}", "    ")
    yield from asked(column.questions, "    ")
    more = ({"nullable": True} if column.nullable else {}) | ({"personal": True} if column.personal else {})
    kind = _type(column.kind)
    yield f"    {_flow({column.name: {'type': kind, **more} if more else kind})[1:-1]}"


def _type(kind: T.DataType) -> Any:
    match kind:
        case T.ArrayType():
            return {"array": _type(kind.elementType)}
        case T.MapType():
            return {"map": [_type(kind.keyType), _type(kind.valueType)]}
        case T.StructType():
            return {"struct": {member.name: _type(member.dataType) for member in kind.fields}}
    return kind.simpleString()


def _value(expression: str | ast.expr) -> Any:
    """A Python expression of a declaration as a value of YAML."""
    node = ast.parse(expression, mode="eval").body if isinstance(expression, str) else expression
    match node:
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
            if name == "timedelta":
                given = {str(one.arg): ast.literal_eval(one.value) for one in node.keywords}
                return text_of_duration(timedelta(*map(ast.literal_eval, node.args), **given))
            made = getattr(assets, name, None) or getattr(dg, name)
            bound = inspect.signature(made).bind_partial(
                *node.args, **{str(one.arg): one.value for one in node.keywords}
            )
            return {"type": type_name(made), **{key: _value(one) for key, one in bound.arguments.items()}}
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            return [_value(one) for one in elements]
    return ast.literal_eval(node)


def _flow(value: Any) -> str:
    """A value on one line."""
    shown = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, allow_unicode=True, width=10_000)
    return shown.removesuffix("\n").removesuffix("...").rstrip()
