"""``incload trace``: every change of one row, and its outcome."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer
from rich.markup import escape

from incload_assets.cli.support import screen
from incload_assets.cli.support.options import AsJson, TableName
from incload_assets.cli.support.project import open_project
from incload_assets.history.row_trace import RowTrace, trace_row
from incload_assets.protection.row_key import key_of


def trace(
    table: TableName,
    key: Annotated[list[str], typer.Argument(help="The row's key, for example `order_id=17`; a column each.")],
    values: Annotated[
        bool, typer.Option("--values", help="Show the values of the columns, too; personal ones stay masked.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show every change of one row with its origin and outcome, and the row as it is now.

    Changes are shown oldest first, in the order of the engine. A change is in effect (the table has its values),
    superseded by a newer one, stale (a newer one had arrived before it), a duplicate, waiting, rejected or withdrawn.
    For tables without a key all rows with the given values are shown. The exit code is 1 if the table is not what its
    changes make.

    - **Writes:** nothing.
    - **Spark:** not started.
    - **Dagster's instance:** not used; the log and the table are read.

    Example: `incload trace orders order_id=17`
    """
    with open_project() as project:
        declared = project.table(table)
        found = trace_row(declared, project.lake, key_of(declared, key), values=values)
    if as_json:
        told = asdict(found)
        for one, change in zip(told["changes"], found.changes, strict=True):
            one["trace_id"] = change.trace_id
        screen.print_json(told)
    else:
        _show(found, declared.changes.sequence_by)
    if found.agrees is False:
        raise typer.Exit(1)


def _show(found: RowTrace, sequence_by: Sequence[str]) -> None:
    """Prints a trace."""
    if found.changes:
        grid = screen.grid("#", "change", *sequence_by, "window", "from", "landed", "became", "why")
        for change in found.changes:
            grid.add_row(
                str(change.number),
                change.operation,
                *(_shown(value, change.operation) for value in change.sequence.values()),
                escape(change.window),
                escape(change.place),
                f"{change.landed_at:%Y-%m-%d %H:%M}Z",
                change.fate + (f" by {change.by}" if change.by else ""),
                escape(change.why),
            )
        screen.print_grid(grid)
    for change in found.changes:
        more = f", sets {', '.join(change.sets)}" if change.sets else ""
        shown = f"  {json.dumps(change.values, default=screen.plain)}" if change.values else ""
        run = f"run {change.run_id}, trace {change.trace_id}" if change.run_id else "no run"
        screen.say(escape(f"{change.number}: landing {change.landing} of its window, {run}{more}{shown}"))
    for row in found.present:
        screen.say(escape(f"row: {json.dumps(row, default=screen.plain)}"))
    for note in found.notes:
        screen.say(escape(f"note: {note}."))
    named = " ".join(f"{name}={value}" for name, value in found.key.items())
    screen.say(escape(f"{found.table} {named}: {found.now}."))


def _shown(value: object, operation: str) -> str:
    """A value of a change's sequence; empty for a withdrawn change, which has none, and ``NULL`` for a missing one."""
    if value is None:
        return "" if operation == "withdrawn" else "NULL"
    return escape(str(value))
