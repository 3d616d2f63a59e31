"""The output of ``incload contract``: contracts, and the differences between them, as people and programs read them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.markup import escape

from incload_assets.cli.support import screen
from incload_assets.contract.adaptation import Difference
from incload_assets.contract.described import TableContract
from incload_assets.platform.wording import several

_COLOURS = {"stops": "red", "applied": "green", "validated from now on": "yellow", "ignored": "dim"}


@dataclass(frozen=True)
class Line:
    """One difference of one table, in the place ``table``, ``log`` or ``table and log``; empty: of declarations."""

    table: str
    found: Difference
    place: str = ""

    def as_plain(self) -> dict[str, Any]:
        """The line for programs."""
        kind = self.found.kind
        return {
            "table": self.table,
            "place": self.place,
            "column": self.found.column,
            "kind": kind.name,
            "was": self.found.was,
            "now": self.found.now,
            "outcome": kind.outcome,
            "then": kind.then,
            "rule": kind.rule,
            "remedy": self.found.remedy(self.table),
        }

    def as_text(self) -> str:
        """The line for people, in Rich's markup."""
        kind, found = self.found.kind, self.found
        where = ".".join(filter(None, [self.table, found.column])) + (f" ({self.place})" if self.place else "")
        values = [f"{name} {value}" for name, value in (("was", found.was), ("now", found.now)) if value is not None]
        worded = ", ".join([f"{where}: {kind.name}", *values])
        sentences = [worded, f"Rule: {kind.rule}" if found.stops else kind.then]
        if remedy := found.remedy(self.table):
            sentences.append(f"Remedy: {remedy}")
        return f"[{_COLOURS[kind.outcome]}]{kind.outcome}[/]  {escape('. '.join(sentences))}."


def exit_code(lines: Sequence[Line]) -> int:
    """0: nothing differs. 1: something stops a load. 2: loads go on with every difference."""
    if any(line.found.stops for line in lines):
        return 1
    return 2 if lines else 0


def worded(lines: Sequence[Line], tables: int) -> Iterator[str]:
    """The lines for people, those that stop loads first, and their number."""
    ordered = sorted(lines, key=lambda line: not line.found.stops)
    yield from (line.as_text() for line in ordered)
    stopping = sum(line.found.stops for line in lines)
    of_tables = several(tables, "table")
    if not lines:
        yield f"{of_tables}, no difference"
    else:
        count = several(len(lines), "difference")
        yield f"{of_tables}, {count}; {stopping or 'none'} stop{'s' if stopping < 2 else ''} loads"


def print_contract(name: str, contract: TableContract) -> None:
    """Prints a contract for people: a row for each column, and a line about the rows."""
    grid = screen.grid(f"{escape(name)}: column", "type", "NULL", "checks")
    for column in contract.columns:
        personal = ["personal"] if column.personal else []
        grid.add_row(
            escape(column.name),
            escape(column.data_type.simpleString()),
            "allowed" if column.nullable else "no",
            escape("; ".join([*personal, *column.checks])),
        )
    own = {column.name for column in contract.columns}
    for field in contract.stored.columns.fields:
        if field.name not in own:
            grid.add_row(escape(field.name), escape(field.dataType.simpleString()), "", "the loader's own")
    screen.print_grid(grid)
    rows = {
        "keys": contract.keys,
        "sequence": contract.sequence_by,
        "unique": contract.unique,
        "partitioned by": contract.stored.partitioned_by,
    }
    worded = [f"{what} {', '.join(columns)}" for what, columns in rows.items() if columns]
    screen.say(escape("; ".join([*worded, f"write {contract.write}"])) + "\n")
