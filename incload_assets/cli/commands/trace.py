"""``incload trace``: every change of one row, and what became of it."""

import json
from typing import Annotated

import typer


def trace(
    table: Annotated[str, typer.Argument(help="Name of the table, for example `orders`.")],
    key: Annotated[list[str], typer.Argument(help="The row's key, for example `order_id=17`; a column each.")],
    values: Annotated[
        bool, typer.Option("--values", help="Show the values of the columns, too; personal ones stay masked.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show every change of one row, oldest first, where each came from, what became of it and why, and the row now.

    A change is in effect (the table has its values), superseded by a newer one, stale (a newer one had arrived before
    it), a duplicate, waiting, rejected or withdrawn. The order is that of the engine. For tables without a key all rows
    with the given values are shown. The exit code is 1 if the table is not what its changes make.

    - **Writes:** nothing.
    - **Spark:** not started.
    - **Dagster's instance:** not used; the log and the table are read.

    Example: `incload trace orders order_id=17`
    """
    from dataclasses import asdict

    from rich.markup import escape

    from incload_assets.cli.support import screen
    from incload_assets.cli.support.project import open_project
    from incload_assets.monitoring.rows.row_key import key_of
    from incload_assets.monitoring.rows.row_trace import trace_row
    from resources.lake import Lake
    from resources.settings import Settings

    with open_project() as project:
        declared = project.table(table)
        found = trace_row(declared, Lake.of(Settings()), key_of(declared, key), values=values)
    if as_json:
        told = asdict(found)
        for one, change in zip(told["changes"], found.changes, strict=True):
            one["trace_id"] = change.trace_id
        screen.print_json(json.dumps(told, default=_as_text))
    else:
        if found.changes:
            grid = screen.grid("#")
            for name in ("change", *declared.changes.sequence_by, "window", "from", "landed", "became", "why"):
                grid.add_column(name)
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
                shown = f"  {json.dumps(change.values, default=_as_text)}" if change.values else ""
                run = f"run {change.run_id}, trace {change.trace_id}" if change.run_id else "no run"
                screen.say(escape(f"{change.number}: landing {change.landing} of its window, {run}{more}{shown}"))
        for row in found.present:
            screen.say(escape(f"row: {json.dumps(row, default=_as_text)}"))
        for note in found.notes:
            screen.say(escape(f"note: {note}."))
        named = " ".join(f"{name}={value}" for name, value in found.key.items())
        screen.say(escape(f"{found.table} {named}: {found.now}."))
    if found.agrees is False:
        raise typer.Exit(1)


def _shown(value: object, operation: str) -> str:
    """A value of a change's sequence; a withdrawn change has none.

    Example:
        >>> _shown(None, "withdrawn"), _shown(None, "upsert"), _shown(3, "upsert")
        ('', 'NULL', '3')
    """
    from rich.markup import escape

    if value is None:
        return "" if operation == "withdrawn" else "NULL"
    return escape(str(value))


def _as_text(value: object) -> str:
    """A value that JSON has no form for."""
    from datetime import date

    return value.isoformat() if isinstance(value, date) else str(value)
