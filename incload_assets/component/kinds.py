"""The arguments of a table declared in YAML: as of ``incremental_asset``, and of the classes that it takes.

Nothing is listed here a second time. Arguments come from signatures and their descriptions from docstrings; sources and
write strategies are the public classes of :mod:`incload_assets.assets`.
"""

import inspect
import re
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, is_dataclass, replace
from functools import cache
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import dagster as dg

from incload_assets import assets
from incload_assets.component.inline import InlineContract
from incload_assets.declaration.field_types import ARGUMENTS
from incload_assets.declaration.source import Source
from incload_assets.declaration.table import Declaration
from incload_assets.declaration.write import Write

_PARTITIONS = "PartitionsDefinition"
_ABOUT = re.compile(r"^ {4}(\w+)(?: \([^)]*\))?: (.*(?:\n {5,}.*)*)", re.MULTILINE)
_FUNCTION = "Full name of a Python function that shapes the changes; default: they stay as they are."
_CONTRACT = "The table's columns, or the full name of a ``pandera.pyspark.DataFrameModel``."


@dataclass(frozen=True)
class Argument:
    """An argument of a table or of a class: its type, whether it has to be given, and its description."""

    kind: Any
    required: bool
    about: str


@cache
def arguments_of(made: Callable[..., Any]) -> Mapping[str, Argument]:
    """The arguments of a dataclass, a function or a partitions definition of Dagster, by name."""
    ours = is_dataclass(made) or inspect.isfunction(made)
    hints = get_type_hints(made, include_extras=True) if ours else {}
    about = {name: " ".join(text.split()) for name, text in _ABOUT.findall(inspect.getdoc(made) or "")}
    return {
        name: Argument(hints.get(name, one.annotation), one.default is one.empty, about.get(name, ""))
        for name, one in inspect.signature(made).parameters.items()
        if one.kind is not one.VAR_KEYWORD
    }


@cache
def table_arguments() -> Mapping[str, Argument]:
    """The arguments of a table: as of ``incremental_asset``, and its function."""
    strict = {**get_type_hints(Declaration, include_extras=True), **ARGUMENTS}
    found = {
        name: replace(argument, kind=strict.get(name, argument.kind))
        for name, argument in arguments_of(assets.incremental_asset).items()
    }
    found["deps"] = replace(found["deps"], kind=Iterable[dg.AssetKey] | None)
    found["contract"] = Argument(type | InlineContract, True, _CONTRACT)
    return {**found, "function": Argument(Callable, False, _FUNCTION)}


def members_of(kind: Any) -> tuple[Any, ...]:
    """The alternatives of a type, without their constraints; ``None`` is one of them."""
    if get_origin(kind) is Annotated:
        return members_of(get_args(kind)[0])
    if get_origin(kind) in (Union, types.UnionType):
        return tuple(member for one in get_args(kind) for member in members_of(one))
    return (kind,)


def choices_of(members: Iterable[Any]) -> Mapping[str, type[Any]]:
    """The classes that ``type`` chooses from, by its values; empty if there is at most one."""
    found: dict[str, type[Any]] = {}
    for member in members:
        found |= _public(member) if member in (Source, Write, dg.PartitionsDefinition) else {}
    made = [member for member in members if isinstance(member, type) and is_dataclass(member)]
    return found or ({type_name(one): one for one in made} if len(made) > 1 else {})


def type_name(made: type[Any]) -> str:
    """The ``type`` that chooses a class, for example ``query_by_time`` for ``QueryByTime``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", made.__name__.removesuffix(_PARTITIONS)).lower()


@cache
def _public(base: type[Any]) -> Mapping[str, type[Any]]:
    found = [getattr(assets, name) for name in assets.__all__]
    if base is dg.PartitionsDefinition:
        base, found = dg.TimeWindowPartitionsDefinition, [getattr(dg, name) for name in dir(dg) if _PARTITIONS in name]
    return {
        type_name(one): one
        for one in found
        if isinstance(one, type) and issubclass(one, base) and not inspect.isabstract(one)
    }
