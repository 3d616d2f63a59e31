"""The values of a YAML file with the file and the line that each was written in."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import NoneType
from typing import Any

import yaml
from dagster_shared.yaml_utils.source_position import SourcePositionTree

from incload_assets.platform.errors import DeclarationError

DEFAULTS = "defaults"
"""The key of what many tables have in common."""


@dataclass(frozen=True)
class Node:
    """A value of a YAML file.

    Args:
        value: A scalar, a mapping from keys to nodes, or a tuple of nodes.
        place: The file and the line, as ``file:line``.
        path: The keys that lead to it, from the first of ``attributes`` on.
        template: The template that has made the value; None: it was written.
    """

    value: Any
    place: str = ""
    path: tuple[str, ...] = ()
    template: str | None = None

    @property
    def dotted(self) -> str:
        """The keys that lead to it, as text, for example ``source.path``."""
        return ".".join(self.path)

    @property
    def plain(self) -> Any:
        """The value without lines."""
        if isinstance(self.value, Mapping):
            return {key: node.plain for key, node in self.value.items()}
        return [node.plain for node in self.value] if type(self.value) is tuple else self.value

    @property
    def shown(self) -> str:
        """The value in messages; of a template the template, as what it makes may be secret."""
        return repr(self.plain if self.template is None else self.template)

    @property
    def is_made(self) -> bool:
        """True if the value is an object that a template has made."""
        return type(self.value) not in (str, int, float, bool, NoneType, dict, tuple)

    def nearest(self, path: list[str]) -> "Node":
        """The node that the keys lead to, or the last one on the way that is there."""
        found = self
        for key in path:
            if not isinstance(found.value, Mapping) or key not in found.value:
                break
            found = found.value[key]
        return found


def node_of(value: Any, positions: SourcePositionTree | None, place: str = "", path: tuple[str, ...] = ()) -> Node:
    """A value as Dagster has read it, with its lines; ``place`` is for values whose line is not known."""
    if positions is not None:
        place = f"{positions.position.filename}:{positions.position.start.line}"
    below = positions.children if positions is not None else {}
    if type(value) is dict:
        content: Any = {key: node_of(one, below.get(key), place, (*path, str(key))) for key, one in value.items()}
    elif type(value) in (list, tuple):  # exactly: an object that a template makes may be a tuple of another class
        content = tuple(node_of(one, below.get(at), place, (*path, str(at))) for at, one in enumerate(value))
    else:
        content = value
    return Node(content, place, path)


def merged(general: Node, own: Node) -> Node:
    """A table's own values over general ones: mappings key by key, unless they are of another ``type``."""
    if not isinstance(general.value, Mapping) or not isinstance(own.value, Mapping):
        return own
    if "type" in own.value and ("type" not in general.value or own.value["type"].value != general.value["type"].value):
        return own
    known = general.value
    return replace(
        own,
        value={**known, **{key: merged(known[key], one) if key in known else one for key, one in own.value.items()}},
    )


def check_repeated_keys(file: str) -> None:
    """Refuses a file that gives a key twice, because YAML would silently take the last."""
    if not Path(file).is_file():  # a text that was given in Python
        return
    for document in yaml.compose_all(Path(file).read_text(encoding="utf-8"), yaml.SafeLoader):
        for line, key, first in _repeated(document):
            raise DeclarationError(
                f"{file}:{line}: {key!r} is given a second time, as in line {first}",
                rule="a mapping has each key once; YAML takes the last and drops the others",
                remedy="remove one of them",
            )


def _repeated(node: yaml.Node | None) -> Iterator[tuple[int, str, int]]:
    if isinstance(node, yaml.MappingNode):
        lines: dict[str, int] = {}
        for key, value in node.value:
            line, name = key.start_mark.line + 1, str(key.value)
            if name in lines and key.tag != "tag:yaml.org,2002:merge":
                yield line, name, lines[name]
            lines[name] = line
            yield from _repeated(value)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            yield from _repeated(value)
