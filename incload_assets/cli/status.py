"""``incload status``: what is loaded, what is not, and how late."""

import json
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from resources.errors import IncrementalLoadError

if TYPE_CHECKING:
    from rich.table import Table as Grid

    from incload_assets.progress.status import TableStatus

_COUNTED = ("loaded", "missing", "failed", "drifted", "in_progress", "waiting")
_LABELS = {"in_progress": "running"}
_NAMED = 5
_STYLES = {"missing": "yellow", "failed": "red", "drifted": "yellow", "in_progress": "blue"}


def status(
    table: Annotated[str | None, typer.Argument(help="Name of a table, for its partitions too.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with every partition key.")] = False,
) -> None:
    """Show per table how many partitions are loaded, missing, failed or drifted, and how fresh it is.

    With a table's name, its partitions, the causes of failures and advice are shown, too. If a source does not respond,
    the other tables are shown all the same, and the exit code is 1.

    - **Writes:** no table and no log. A source may record where its windows end, and hashes of files are cached.
    - **Spark:** not started.
    - **Dagster's instance:** needed, to read checkpoints.

    Example: `incload status orders --json`
    """
    from rich.markup import escape

    from incload_assets.cli import screen
    from incload_assets.cli.advice import advice_for
    from incload_assets.cli.partition_keys import shown
    from incload_assets.cli.project import open_project
    from incload_assets.declaration.window import now
    from incload_assets.progress.status import table_status
    from resources.lake import Lake
    from resources.settings import Settings

    with open_project() as project:
        lake = Lake.of(Settings())
        tables = [project.table(table)] if table else [project.tables[name] for name in sorted(project.tables)]
        found: list[TableStatus] = []
        unknown: dict[str, str] = {}
        for one in tables:
            try:
                found.append(table_status(project.instance, one, lake))
            except IncrementalLoadError as error:
                unknown[one.name] = str(error)
        if as_json:
            known = [asdict(each) for each in found]
            troubles = [{"table": name, "error": why} for name, why in unknown.items()]
            screen.print_json(json.dumps([*known, *troubles], default=_iso))
        elif found:
            screen.print_grid(_overview(found))
            for each in found:
                if each.left_out:
                    screen.say(
                        escape(f"{each.table}: left out by the path, because of their names: {_some(each.left_out)}")
                    )
        for why in unknown.values():
            screen.complain(why)
        if unknown:
            raise typer.Exit(1)
        if table and not as_json:
            keys = tables[0].partitions_def.get_partition_keys(current_time=now())
            for name in _COUNTED:
                if chosen := getattr(found[0], name):
                    screen.say(f"{_LABELS.get(name, name)}: {shown(chosen, keys)}")
            for key, cause in found[0].causes.items():
                screen.say(f"{key} failed: {cause}")
            for why in dict.fromkeys(found[0].undone.values()):
                lost = [key for key, reason in found[0].undone.items() if reason == why]
                screen.say(f"no longer in the table: {shown(lost, keys)} ({why})")
            if advice := advice_for(project.instance, tables[0], lake):
                screen.say(f"advice: {advice}")


def _overview(found: "list[TableStatus]") -> "Grid":
    from incload_assets.cli import screen

    grid = screen.grid("table")
    for name in (*_COUNTED, "rows"):
        grid.add_column(_LABELS.get(name, name), justify="right")
    for name in ("fresh", "last load"):
        grid.add_column(name)
    for one in found:
        counts = {name: len(getattr(one, name)) for name in _COUNTED}
        grid.add_row(
            one.table,
            *(f"[{_STYLES[n]}]{c}[/]" if c and n in _STYLES else str(c) for n, c in counts.items()),
            "-" if one.rows is None else str(one.rows),
            _freshness(one.freshness),
            "never" if one.last_materialized is None else f"{one.last_materialized:%m-%d %H:%M}Z",
        )
    return grid


def _some(names: "list[str]") -> str:
    more = len(names) - _NAMED
    return ", ".join(map(repr, names[:_NAMED])) + (f" and {more} more, see --json" if more > 0 else "")


def _freshness(overdue: float | None) -> str:
    if overdue is None:
        return "-"
    if not overdue:
        return "[green]yes[/]"
    for unit, seconds in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if overdue >= 2 * seconds:
            return f"[red]{overdue // seconds:.0f} {unit} late[/]"
    return "[red]late[/]"


def _iso(value: datetime) -> str:
    return value.isoformat()
