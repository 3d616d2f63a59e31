"""Values of a YAML file as the Python values that a table is declared with.

Every error names file, line and key, and what is allowed there.
"""

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import is_dataclass, replace
from datetime import timedelta
from importlib import import_module
from types import MappingProxyType, NoneType
from typing import Any, cast, get_args, get_origin

import dagster as dg
import pyspark.sql.types as T
from jinja2 import Environment
from jinja2.meta import find_undeclared_variables

from incload_assets.component.inline import InlineColumn
from incload_assets.component.kinds import Argument, arguments_of, choices_of, members_of
from incload_assets.component.nodes import DEFAULTS, Node, node_of
from incload_assets.contract.described import PLAIN_TYPES, data_type
from incload_assets.declaration.field_types import check_type
from incload_assets.platform.dagster_private import CheckError
from incload_assets.platform.durations import duration_of
from incload_assets.platform.errors import DeclarationError

TEMPLATE = "{{"
"""The beginning of a template, which Dagster fills in."""

_NESTED = "decimal(12,2), {array: string}, {map: [string, int]}, {struct: {city: string}}"
_TYPES = f"types are {', '.join(PLAIN_TYPES)}, {_NESTED}"
_JINJA = Environment()  # only parses: Dagster renders


class Reader:
    """A reader of one table's values.

    Args:
        table: The table's name, for messages.
        context: Dagster's context, with the names that templates may use.
        place: The file and the line of the table.
    """

    def __init__(self, table: str, context: dg.ResolutionContext, place: str) -> None:
        self._table, self._context, self._place = table, context, place

    def with_scope(self, **names: Any) -> "Reader":
        """This reader, with more names that templates may use."""
        return Reader(self._table, self._context.with_scope(**names), self._place)

    def of(self, name: Node) -> "Reader":
        """This reader, for the table of that name."""
        return Reader(str(name.plain), self._context.with_scope(name=name.plain), self._place)

    def arguments(
        self, node: Node, known: Mapping[str, Argument], read: Mapping[str, Any] = MappingProxyType({})
    ) -> dict[str, Any]:
        """The arguments in a mapping, some read already; refuses unknown ones and a lack of required ones."""
        self.expect_known(node, known)
        for name, argument in known.items():
            if argument.required and name not in node.value:
                given = ", ".join(map(str, node.value)) or "nothing"
                here = replace(node, place=self._place) if node.path[:1] == (DEFAULTS,) else node
                raise self.wrong(here, f"lacks {name!r}", f"{name}: {argument.about}", f"add {name!r} beside {given}")
        return {
            name: read[name] if name in read else self.read(child, known[name].kind)
            for name, child in node.value.items()
        }

    def expect_known(self, node: Node, known: Iterable[str]) -> None:
        """Refuses something that is no mapping, or a mapping with another key than the known ones."""
        if not isinstance(node.value, Mapping):
            raise self.wrong(node, f"is {node.shown}", f"it is a mapping with the keys {', '.join(known)}", "write one")
        for name, child in node.value.items():
            if name not in known:
                raise self.wrong(child, "is unknown", f"the keys here are {', '.join(known)}", _instead(name, known))

    def read(self, node: Node, kind: Any) -> Any:
        """The Python value of a type that a node stands for."""
        node = self._rendered(node)
        members = members_of(kind)
        value, choices = node.value, choices_of(members)
        if node.is_made:
            return self._checked(node, kind)
        if T.DataType in members and (isinstance(value, str) or InlineColumn not in members):
            return self._type(node)
        if choices and (isinstance(value, Mapping) or (isinstance(value, str) and str not in members)):
            return self._chosen(node, choices)
        if isinstance(value, Mapping):
            return self._mapping(node, members)
        if len(only := [one for one in members if one is not NoneType]) == 1 and is_dataclass(only[0]):
            return None if value is None and NoneType in members else self._made(node, cast(Any, only[0]))
        several = next((one for one in members if is_several(one)), None)
        if several is not None and (isinstance(value, tuple) or (isinstance(value, str) and str not in members)):
            items = [self.read(one, get_args(several)[0]) for one in (value if isinstance(value, tuple) else [node])]
            return set(items) if get_origin(several) is set else items
        if isinstance(value, str):
            if timedelta in members:
                return self._duration(node)
            if type in members or Callable in members:
                return self._python(node)
            if dg.AssetKey in members:
                return dg.AssetKey.from_user_string(value)
        return self._checked(node, kind)

    def wrong(self, node: Node, problem: str, rule: str, remedy: str) -> DeclarationError:
        """The error that a value is wrong."""
        return DeclarationError(
            f"{node.place}: {self._table}: {node.dotted or 'attributes'} {problem}", rule=rule, remedy=remedy
        )

    def _rendered(self, node: Node) -> Node:
        """A node whose template, if it is one, is filled in."""
        if not isinstance(node.value, str) or TEMPLATE not in node.value:
            return node
        try:
            names = find_undeclared_variables(_JINJA.parse(node.value))
            if unknown := sorted(names - self._context.scope.keys() - _JINJA.globals.keys()):  # it would be left out
                raise NameError(f"there is no {unknown[0]!r}; there are {', '.join(sorted(self._context.scope))}")
            made = node_of(self._context.resolve_value(node.value), None, node.place, node.path)
            return replace(made, template=node.value)
        except Exception as error:  # whatever a template raises, which runs the author's code
            reason = [type(error).__name__, *filter(str.strip, str(error).splitlines())][-1]
            raise self.wrong(
                node,
                f"is {node.value!r}, which cannot be filled in",
                f"{{{{ … }}}} is a template of Dagster: {reason}",
                "use a name that there is, or single braces for a part of a path",
            ) from error

    def _chosen(self, node: Node, choices: Mapping[str, type[Any]]) -> Any:
        """The object of the class that ``type`` chooses; text alone is the ``type`` of one without arguments."""
        chosen = node.value.get("type") if isinstance(node.value, Mapping) else node
        allowed = f"type is one of {', '.join(choices)}"
        if chosen is None:
            raise self.wrong(node, "lacks 'type'", allowed, f"write type: {next(iter(choices))}")
        name = self._rendered(chosen).value
        if not isinstance(name, str) or name not in choices:
            raise self.wrong(chosen, f"is {chosen.shown}", allowed, _instead(chosen.plain, choices))
        content = {key: child for key, child in node.value.items() if key != "type"} if chosen is not node else {}
        return self._made(Node(content, node.place, node.path), choices[name])

    def _mapping(self, node: Node, members: tuple[Any, ...]) -> Any:
        for member in members:
            if isinstance(member, type) and is_dataclass(member):
                return self._made(node, member)
            if get_origin(member) is not None and issubclass(get_origin(member), Mapping):
                for name, child in node.value.items():
                    if not isinstance(name, str):
                        raise self.wrong(
                            child, f"has the name {name!r}", "names are text", f"write it in quotes: '{name}'"
                        )
                return {name: self.read(child, get_args(member)[1]) for name, child in node.value.items()}
        return self._checked(node, members[0] if len(members) == 1 else str)

    def _made(self, node: Node, made: Callable[..., Any]) -> Any:
        arguments = self.arguments(node, arguments_of(made))
        try:
            return made(**arguments)
        except (TypeError, ValueError, dg.DagsterError, CheckError) as error:
            raise self.wrong(node, f"is refused: {error}", "it is as in Python", "correct it") from error

    def _type(self, node: Node) -> T.DataType:
        try:
            return data_type(node.plain)
        except (ValueError, TypeError, AttributeError):
            raise self.wrong(node, f"is {node.shown}", _TYPES, "write one of them") from None

    def _duration(self, node: Node) -> timedelta:
        length = duration_of(node.value)
        if length is None:
            raise self.wrong(
                node,
                f"is {node.shown}",
                "a length of time is written 30s, 15min, 2h, 3d or 1w",
                "write for example 2h",
            )
        return length

    def _python(self, node: Node) -> Any:
        """The object that a full name such as ``my_lake.contracts.Order`` stands for."""
        module_name, _, name = node.value.rpartition(".")
        rule = "it is the full name of something in a Python module, for example my_lake.contracts.Order"
        try:
            module = import_module(module_name)
        except Exception as error:  # also of the module's own code
            raise self.wrong(
                node, f"is {node.shown}: {type(error).__name__}: {error}", rule, "correct the name, or the module"
            ) from error
        if not hasattr(module, name):
            names = [name for name in vars(module) if not name.startswith("_")]
            raise self.wrong(node, f"is {node.shown}, and {module_name} has no {name!r}", rule, _instead(name, names))
        return getattr(module, name)

    def _checked(self, node: Node, kind: Any) -> Any:
        """The plain value, checked by the type."""
        value = self._plain(node)
        try:
            check_type(self._table, node.path[-1] if node.path else "attributes", value, kind)
        except DeclarationError as error:
            raise self.wrong(node, f"is {node.shown}", error.rule or "", error.remedy or "") from None
        return value

    def _plain(self, node: Node) -> Any:
        node = self._rendered(node)
        if isinstance(node.value, Mapping):
            return {key: self._plain(child) for key, child in node.value.items()}
        return [self._plain(child) for child in node.value] if type(node.value) is tuple else node.value


def is_several(kind: Any) -> bool:
    """True if a type is a list or a set of values."""
    origin = get_origin(kind)
    return isinstance(origin, type) and issubclass(origin, Iterable) and not issubclass(origin, Mapping)


def _instead(name: object, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(str(name), list(known), n=1)
    return f"write {close[0]!r}" if close else "write one of them"
