"""Strict type checks of declared values, by the annotations of their fields."""

import types
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from datetime import timedelta
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import dagster as dg
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from incload_assets.platform.dagster_private import CheckError
from incload_assets.platform.errors import DeclarationError

Share = Annotated[float, Field(ge=0, le=1, description="a share from 0 to 1")]
Text = Annotated[str, Field(min_length=1, description="a string that is not empty")]
ARGUMENTS: Mapping[str, Any] = {
    "name": str | None,
    "key_prefix": str | Sequence[str] | None,
    "pool": Text | None,
    "max_partitions_per_run": Annotated[int, Field(ge=1, description="a whole number, 1 or more")],
}
"""Types of the asset arguments that are used before Dagster checks them, or that mean something different here."""

_WORDS: Mapping[Any, str] = {
    str: "a string", int: "a whole number", float: "a number", bool: "True or False", type(None): "None",
    Sequence: "an ordered list of strings", Mapping: "a mapping from strings to strings", timedelta: "a timedelta",
}  # fmt: skip
_EXAMPLES: Mapping[str, str] = {
    "keys": "['order_id']", "sequence_by": "['updated_at']", "delete_when": '"op = \'d\'"', "max_share": "0.05",
    "within": "timedelta(hours=6)", "partition_by": "'order_date'", "name": "'orders'", "key_prefix": "['retail']",
    "path": "'{landing}/orders/{window:%Y-%m-%d}/*.json'", "code_version": "'2'", "max_partitions_per_run": "32",
    "buckets": "64", "encodings": "{'shipped': 'timestamp[ms]'}", "max_rows": "100", "max_shrink": "0.5",
    "interval": "timedelta(minutes=5)", "lag": "timedelta(minutes=5)", "log_retention": "timedelta(days=90)",
    "source": 'Files("{landing}/orders/{window:%Y-%m-%d}/*.json")', "write": "Merge() or Merge(partition_by=...)",
    "changes": 'Changes(keys=["order_id"], sequence_by=["updated_at"])', "quarantine": "Quarantine(max_share=0.05)",
    "freshness": "Freshness(within=timedelta(hours=6))", "slo": "Slo(success=0.99)", "criticality": "'high'",
    "success": "0.99", "period": "timedelta(days=30)",
    "per_task": "200_000", "database": "'shop'", "cluster": "'shop'", "topic": "'orders'", "slot.name": "'debezium'",
    "ignore": "['utm_*']",
}  # fmt: skip


def check_types(table_name: str, place: str, part: Any) -> None:
    """Refuses a dataclass with a value not of its field's type; ``place`` prefixes the field's name in the message."""
    kind: Any = type(part)
    hints = _hints(kind)
    for field in fields(part):
        if field.init:
            check_type(table_name, f"{place}{field.name}", getattr(part, field.name), hints[field.name])


def check_arguments(table_name: str, **values: object) -> None:
    """Refuses arguments of an asset that do not have the types in ``ARGUMENTS``."""
    for name, value in values.items():
        check_type(table_name, name, value, ARGUMENTS[name])


@contextmanager
def as_in_dagster(table_name: str) -> Iterator[None]:
    """Turns Dagster's errors in the block into a DeclarationError that names the table; no warning of beta is printed.

    A table needs ``backfill_policy``, which Dagster marks as beta: its author has not chosen it, and cannot do without.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dg.BetaWarning)
            yield
    except (TypeError, ValueError, dg.DagsterError, CheckError) as error:
        raise DeclarationError(
            f"{table_name}: Dagster refuses its declaration: {error}",
            rule="deps, group_name, owners, tags, kinds, metadata, pool and the like mean the same as in dagster.asset",
            remedy="correct the argument, or leave it out",
        ) from error


def check_type(table_name: str, place: str, value: object, kind: Any) -> None:
    """Refuses a value that is not of a type; ``place`` is its name in the message."""
    try:
        _adapter(kind).validate_python(value, strict=True)
    except ValidationError:
        path = place.rpartition(" ")[2]
        name = path.rpartition(".")[2]
        example = _EXAMPLES.get(path) or _EXAMPLES.get(name)
        raise DeclarationError(
            f"{table_name}: {place} is {value if isinstance(value, timedelta) else repr(value)}",
            rule=f"it is {_in_words(kind)}",
            remedy=f"write {name}={example}" if example else f"correct {name}, or leave it out",
        ) from None


def as_columns(value: Any) -> Any:
    """One or several names as a tuple; anything else unchanged, for the table's declaration to refuse."""
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, Sequence) else value


@cache
def _hints(of: Any) -> Mapping[str, Any]:
    return get_type_hints(of, include_extras=True)


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    # pydantic takes no configuration for a dataclass, which can have its own
    return TypeAdapter(kind, config=None if is_dataclass(kind) else ConfigDict(arbitrary_types_allowed=True))


def _in_words(kind: Any) -> str:
    origin, of = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return ", or ".join(_in_words(one) for one in of)
    if origin is Annotated:
        return str(of[1].description)
    if origin is Literal:
        return " or ".join(map(repr, of))
    return _WORDS.get(origin or kind) or f"a {getattr(kind, '__name__', kind)}"
