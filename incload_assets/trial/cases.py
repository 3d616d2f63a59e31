"""Test cases as files beside the tables: ``tests/<table>/<case>.yaml``, with windows in the order of their loads.

A row is a mapping from columns to values, or a line of CSV. Values are read as text, as from a JSON file; ``null``,
and an empty value in CSV, is NULL.
"""

import csv
import io
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import yaml

from incload_assets.declaration.table import Table
from incload_assets.declaration.window import Window
from incload_assets.platform.errors import IncrementalLoadError

FOLDER = "tests"
REASON = "_reason"
"""The column of an expected rejected row that has its reasons, joined by ``; ``."""
_IN_FILE = ("about", "windows", "expected", "rejected")
_IN_WINDOW = ("window", "rows", "stops")


@dataclass(frozen=True)
class Row:
    """A row of a case: its values as text, and its line in the file."""

    values: Mapping[str, str | None]
    line: int


@dataclass(frozen=True)
class Arrival:
    """A load of a window: what its source holds then, and whether the load is expected to stop."""

    window: Window
    rows: tuple[Row, ...]
    stops: bool
    line: int


@dataclass(frozen=True)
class Case:
    """A case of one table; ``columns`` of the table are compared: those that an expected row names, or all."""

    file: Path
    table: Table
    arrivals: tuple[Arrival, ...]
    expected: tuple[Row, ...]
    rejected: tuple[Row, ...]

    @property
    def columns(self) -> list[str]:
        """The columns of the table that are compared."""
        named = {name for row in self.expected for name in row.values}
        return [name for name in self.table.schema.names if name in named or not named]


def find_cases(folder: Path, tables: Mapping[str, Table]) -> dict[Path, str]:
    """The files of cases below a folder of tables, with the names of their tables.

    Raises:
        IncrementalLoadError: A folder of cases has the name of no table.
    """
    names, found = {table.identifier: name for name, table in tables.items()}, {}
    for file in sorted(folder.rglob(f"{FOLDER}/*/*.y*ml")):
        if any(part.startswith(".") for part in file.relative_to(folder).parts):
            continue  # an environment in the folder, for example
        if file.parent.name not in names:
            raise IncrementalLoadError(
                f"{file} is of no table",
                rule=f"the folder of a case has the name of its table: {', '.join(sorted(names)) or 'there is none'}",
                remedy=f"rename the folder {file.parent.name!r}",
            )
        found[file] = names[file.parent.name]
    return found


def read_case(file: Path, table: Table) -> Case:
    """The case in a file.

    Raises:
        IncrementalLoadError: The file is wrong; names file, line, column and what is allowed.
    """
    try:
        root = yaml.compose(file.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise IncrementalLoadError(
            f"{file} is no YAML: {' '.join(str(error).split())}", remedy="correct the file"
        ) from error
    return _Reader(file, table).case(root)


@dataclass(frozen=True)
class _Reader:
    file: Path
    table: Table

    def case(self, root: yaml.Node | None) -> Case:
        parts = self._mapping(root, "a case", _IN_FILE)
        for name in ("windows", "expected"):
            if name not in parts:
                self._wrong(root, f"the case has no {name!r}", f"it has {', '.join(_IN_FILE)}", f"add {name}:")
        return Case(
            self.file,
            self.table,
            tuple(self._arrivals(parts["windows"])),
            tuple(self._rows(parts["expected"], "expected", self.table.schema.names)),
            tuple(self._rows(parts.get("rejected"), "rejected", (*self._fields, REASON))),
        )

    @property
    def _fields(self) -> tuple[str, ...]:
        """The fields of a source's record: the contract's columns, and the fields that conditions use."""
        return (*self.table.columns, *self.table.control_fields)

    def _arrivals(self, node: yaml.Node) -> Iterator[Arrival]:
        for each in self._sequence(node, "windows"):
            parts = self._mapping(each, "a window", _IN_WINDOW)
            key = parts.get("window")
            if not isinstance(key, yaml.ScalarNode):
                self._wrong(each, "a window has no key", "window: is its partition key", "write window: 2026-01-05")
            try:
                window = self.table.window_of(key.value)
            except IncrementalLoadError as error:
                self._wrong(key, error.problem, error.rule or "", error.remedy or "")
            stops = parts.get("stops")
            if stops is not None and stops.value not in ("true", "false"):
                self._wrong(stops, f"stops is {stops.value!r}", "it is true or false", "write stops: true, or drop it")
            rows = tuple(self._rows(parts.get("rows"), f"the window {key.value}", self._fields))
            yield Arrival(window, rows, stops is not None and stops.value == "true", self._line(each))

    def _rows(self, node: yaml.Node | None, place: str, allowed: Collection[str]) -> Iterator[Row]:
        if node is None or node.tag == "tag:yaml.org,2002:null":
            return
        if isinstance(node, yaml.ScalarNode):
            yield from self._of_csv(node, place, allowed)
            return
        for each in self._sequence(node, place):
            cells = self._mapping(each, f"a row of {place}", allowed)
            yield Row({name: self._text(cell) for name, cell in cells.items()}, self._line(each))

    def _of_csv(self, node: yaml.ScalarNode, place: str, allowed: Collection[str]) -> Iterator[Row]:
        begin = self._line(node) + (1 if node.style in ("|", ">") else 0)
        reader = csv.reader(io.StringIO(node.value), skipinitialspace=True, strict=True)
        try:
            lines = [(begin + reader.line_num - 1, [cell.strip() for cell in cells]) for cells in reader if cells]
        except csv.Error as error:
            self._wrong(node, f"{place} is no CSV: {error}", "a quote in a value is doubled", "correct it")
        (_, header), *rest = lines or [(begin, [])]
        self._names(begin, f"a row of {place}", header, allowed)
        for line, cells in rest:
            if len(cells) != len(header):
                raise self._error(
                    line,
                    f"a row of {place} has {len(cells)} values",
                    f"the header has {len(header)} columns: {', '.join(header)}",
                    "add or remove commas",
                )
            yield Row({name: cell or None for name, cell in zip(header, cells, strict=True)}, line)

    def _text(self, node: yaml.Node) -> str | None:
        if isinstance(node, yaml.ScalarNode):
            return None if node.tag == "tag:yaml.org,2002:null" else str(node.value)
        return json.dumps(_plain(node), ensure_ascii=False)

    def _mapping(self, node: yaml.Node | None, place: str, allowed: Collection[str]) -> dict[str, Any]:
        if not isinstance(node, yaml.MappingNode):
            self._wrong(node, f"{place} is no mapping", f"it has {', '.join(allowed)}", "write name: value")
        self._names(self._line(node), place, [key.value for key, _ in node.value], allowed)
        return {key.value: value for key, value in node.value}

    def _names(self, line: int, place: str, names: list[Any], allowed: Collection[str]) -> None:
        for name in names:
            if name not in allowed or names.count(name) > 1:
                what = f"has {name!r} twice" if name in allowed else f"has {name!r}"
                raise self._error(
                    line, f"{place} {what}", f"it has {', '.join(allowed)}, each once", "correct the name"
                )

    def _sequence(self, node: yaml.Node, place: str) -> list[yaml.Node]:
        if not isinstance(node, yaml.SequenceNode):
            self._wrong(
                node, f"{place} is no list", "each entry begins with a dash", f"write {place}: and '- ' entries"
            )
        return list(node.value)

    def _line(self, node: yaml.Node | None) -> int:
        return node.start_mark.line + 1 if node is not None else 1

    def _error(self, line: int, problem: str, rule: str, remedy: str) -> IncrementalLoadError:
        return IncrementalLoadError(f"{self.file}:{line}: {problem}", rule=rule, remedy=remedy)

    def _wrong(self, node: yaml.Node | None, problem: str, rule: str, remedy: str) -> NoReturn:
        raise self._error(self._line(node), problem, rule, remedy)


def _plain(node: yaml.Node) -> Any:
    """A nested value; texts that look like times stay texts."""
    if isinstance(node, yaml.MappingNode):
        return {key.value: _plain(value) for key, value in node.value}
    if isinstance(node, yaml.SequenceNode):
        return [_plain(value) for value in node.value]
    return node.value if "timestamp" in node.tag else yaml.SafeLoader("").construct_object(node)
