"""The assets of the tables that a YAML file declares: one, or many with what they have in common."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import FunctionType
from typing import Any

import dagster as dg
from pyspark.sql import DataFrame

from incload_assets.assets.incremental import incremental_asset
from incload_assets.component.inline import InlineContract
from incload_assets.component.kinds import table_arguments
from incload_assets.component.nodes import DEFAULTS, Node, merged
from incload_assets.component.reading import Reader
from incload_assets.platform.errors import DeclarationError

TABLES, NAME = "tables", "name"


def assets_in(attributes: Node, context: dg.ResolutionContext, module: str) -> Iterator[dg.AssetsDefinition]:
    """The assets of the tables in ``attributes``; ``module`` is the name under which messages find the file."""
    if not isinstance(attributes.value, Mapping) or not {DEFAULTS, TABLES} & attributes.value.keys():
        yield _asset(attributes, Reader("a table", context, attributes.place), module)
        return
    reader = Reader("tables", context, attributes.place)
    reader.expect_known(attributes, (DEFAULTS, TABLES))
    tables = attributes.value.get(TABLES, replace(attributes, value={}))
    if not isinstance(tables.value, Mapping) or not tables.value:
        raise reader.wrong(
            tables, f"declares {tables.plain!r}", "tables has each table's name, and what it has of its own",
            "write for example tables: {orders: {}, customers: {}}",
        )  # fmt: skip
    general = attributes.value.get(DEFAULTS, replace(attributes, value={}))
    for name, own in tables.value.items():
        if not isinstance(name, str):
            raise reader.wrong(own, f"is the name {name!r}", "names are text", f"write it in quotes: '{name}'")
        for node in (general, own):
            if isinstance(node.value, Mapping) and NAME in node.value:
                raise reader.wrong(
                    node.value[NAME], "is given", "the name of a table is its key in tables", "remove it"
                )
        table = merged(general, replace(own, value={}) if own.value is None else own)
        named = Node(name, own.place, (*own.path, NAME))
        whole = replace(table, value={**table.value, NAME: named}) if isinstance(table.value, Mapping) else table
        yield _asset(replace(whole, place=own.place, path=own.path), Reader(name, context, own.place), module)


def _asset(node: Node, reader: Reader, module: str) -> dg.AssetsDefinition:
    arguments = table_arguments()
    reader.expect_known(node, arguments)
    if NAME in node.value:
        reader = reader.of(node.value[NAME])
    read = {}
    if "source" in node.value:  # first, as templates of others may use it
        read["source"] = reader.read(node.value["source"], arguments["source"].kind)
    given = reader.with_scope(**read).arguments(node, arguments, read)
    function = given.pop("function", None)
    name = given.setdefault(NAME, getattr(function, "__name__", None))
    if name is None:
        raise reader.wrong(node, "lacks 'name'", "a table without a function has a name", "write name: orders")
    try:
        if isinstance(given["contract"], InlineContract):
            given["contract"] = given["contract"].model(name)
        return incremental_asset(**given)(function or _as_they_are(name, given.get("description"), module))
    except DeclarationError as error:
        raise DeclarationError(
            f"{_place(node, error.problem)}: {error.problem}", rule=error.rule, remedy=error.remedy
        ) from error


def _unchanged(changes: DataFrame) -> DataFrame:
    return changes


def _as_they_are(name: str, description: str | None, module: str) -> Any:
    """A function of a table's own that returns its changes as they are; messages name a table by it."""
    function = FunctionType(_unchanged.__code__, _unchanged.__globals__, name)
    function.__doc__, function.__module__, function.__qualname__ = description, module, name
    return function


def _place(node: Node, problem: str) -> str:
    """The place of what an error is about: of the key that it begins with or names in full, or else of the table."""
    text = problem.partition(": ")[2].replace("source: ", "source.").replace("its asset key", NAME)
    text = re.sub(r"contract \w+, field (\S+?)[:,]? ", r"contract.columns.\1 ", text)
    text = re.sub(r"contract \w+: Config", "contract", text)
    for words in re.findall(r"^\w[\w.]*|\w+(?:\.\w+)+", text):
        if (found := node.nearest(words.split("."))) is not node:
            return found.place
    return node.place
