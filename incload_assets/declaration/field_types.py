"""The types of what a declaration says: those that are written beside its fields, strictly."""

import types
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from datetime import timedelta
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import dagster as dg
from dagster._check import CheckError  # has no public name
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from resources.errors import DeclarationError

Share = Annotated[float, Field(ge=0, le=1, description="a share from 0 to 1")]
Text = Annotated[str, Field(min_length=1, description="a text that is not empty")]
ARGUMENTS: Mapping[str, Any] = {
    "name": str | None,
    "key_prefix": str | Sequence[str] | None,
    "pool": Text | None,
    "max_partitions_per_run": Annotated[int, Field(ge=1, description="a whole number, 1 or more")],
}
"""Arguments of an asset that are used before Dagster looks at them, or in a way of our own."""

_WORDS: Mapping[Any, str] = {
    str: "a text", int: "a whole number", float: "a number", bool: "True or False", type(None): "None",
    Sequence: "a list of texts, in an order", Mapping: "a text for each of some names", timedelta: "a length of time",
}  # fmt: skip
_EXAMPLES: Mapping[str, str] = {
    "keys": "['order_id']", "sequence_by": "['updated_at']", "delete_when": '"op = \'d\'"', "max_share": "0.05",
    "within": "timedelta(hours=6)", "partition_by": "'order_date'", "name": "'orders'", "key_prefix": "['retail']",
    "path": "'{landing}/orders/{window:%Y-%m-%d}/*.json'", "code_version": "'2'", "max_partitions_per_run": "32",
    "buckets": "64", "encodings": "{'shipped': 'timestamp[ms]'}", "max_rows": "100", "max_shrink": "0.5",
    "interval": "timedelta(minutes=5)", "lag": "timedelta(minutes=5)", "log_retention": "timedelta(days=90)",
    "source": 'Files("{landing}/orders/{window:%Y-%m-%d}/*.json")', "write": "Merge() or Merge(partition_by=...)",
    "changes": 'Changes(keys=["order_id"], sequence_by=["updated_at"])', "quarantine": "Quarantine(max_share=0.05)",
    "freshness": "Freshness(within=timedelta(hours=6))",
    "per_task": "200_000", "database": "'shop'", "cluster": "'shop'", "topic": "'orders'", "slot.name": "'debezium'",
}  # fmt: skip


def check_types(table_name: str, place: str, part: Any) -> None:
    """Refuse a part of a declaration, a dataclass, of which a field has another type than is written beside it.

    Args:
        table_name: For the message.
        place: What stands before the field's name in the message, for example ``changes.``.
        part: What was declared.

    Raises:
        DeclarationError: Naming the field, its value and its type.
    """
    hints = get_type_hints(type(part), include_extras=True)
    for field in fields(part):
        if field.init:
            check_type(table_name, f"{place}{field.name}", getattr(part, field.name), hints[field.name])


def check_arguments(table_name: str, **values: object) -> None:
    """Refuse arguments of an asset that are not what ``ARGUMENTS`` says; raises as :func:`check_types` does."""
    for name, value in values.items():
        check_type(table_name, name, value, ARGUMENTS[name])


@contextmanager
def as_in_dagster(table_name: str) -> Iterator[None]:
    """Say which table it is whose arguments Dagster refuses.

    Raises:
        DeclarationError: With what Dagster says.
    """
    try:
        yield
    except (TypeError, ValueError, dg.DagsterError, CheckError) as error:
        raise DeclarationError(
            f"{table_name}: Dagster refuses its declaration: {error}",
            rule="deps, group_name, owners, tags, kinds, metadata, pool and the like are as in dagster.asset",
            remedy="correct what is named, or leave it out",
        ) from error


def check_type(table_name: str, place: str, value: object, kind: Any) -> None:
    """Refuse a value that is not of a type; raises as :func:`check_types` does."""
    try:
        _adapter(kind).validate_python(value, strict=True)
    except ValidationError:
        path = place.rpartition(" ")[2]
        name = path.rpartition(".")[2]
        example = _EXAMPLES.get(path) or _EXAMPLES.get(name)
        raise DeclarationError(
            f"{table_name}: {place} is {value if isinstance(value, timedelta) else repr(value)}",
            rule=f"it is {_said(kind)}",
            remedy=f"write {name}={example}" if example else f"correct {name}, or leave it out",
        ) from None


def as_columns(value: Any) -> Any:
    """One name or some as a tuple; anything else as it is, to be refused by name when the table is declared."""
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, Sequence) else value


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    # pydantic takes no configuration for a dataclass, which can have its own
    return TypeAdapter(kind, config=None if is_dataclass(kind) else ConfigDict(arbitrary_types_allowed=True))


def _said(kind: Any) -> str:
    """A type in words."""
    origin, of = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return ", or ".join(_said(one) for one in of)
    if origin is Annotated:
        return str(of[1].description)
    if origin is Literal:
        return " or ".join(map(repr, of))
    return _WORDS.get(origin or kind) or f"a {getattr(kind, '__name__', kind)}"
