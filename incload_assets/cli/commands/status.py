"""``incload status``: what is loaded, what is not, and how late."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table as Grid

from incload_assets.cli.support import screen
from incload_assets.cli.support.project import Project, open_project
from incload_assets.declaration.partition_keys import shown
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import now
from incload_assets.load.faults import Faults, expect_readable, unreadable_of_lake
from incload_assets.monitoring.advice import advice_for
from incload_assets.platform.lake import Lake
from incload_assets.platform.wording import largest, some
from incload_assets.progress.silence import silence_of, silences
from incload_assets.progress.status import TableStatus, forgotten_loads, table_status

_COUNTED = ("loaded", "missing", "failed", "drifted", "in_progress", "waiting", "held")
_LABELS = {"in_progress": "running"}
_STYLES = {"missing": "yellow", "failed": "red", "drifted": "yellow", "in_progress": "blue", "held": "magenta"}


def status(
    ctx: typer.Context,
    table: Annotated[str | None, typer.Argument(help="Name of a table, for its partitions too.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with every partition key.")] = False,
) -> None:
    """Show what is loaded, missing, failed or drifted per table, and how fresh it is.

    With a table's name, its partitions, the causes of failures and advice are shown, too. If a source does not respond,
    or a table cannot be read, the other tables are shown all the same. The exit code is 1 then, and if the audit or the
    decisions cannot be read, or logs have loads that Dagster does not know, because its storage was lost.

    - **Writes:** no table and no log. A source may record where its windows end, and what was read
      of files and logs is cached.
    - **Spark:** not started.
    - **Dagster's instance:** needed, to read checkpoints.

    Example: `incload status orders --json`
    """
    with open_project(verbose=ctx.obj) as project:
        tables, lake = project.named([table] if table else None), project.lake
        known: dict[str, TableStatus] = {}
        faults = Faults(lake)

        def look(one: Table) -> None:
            followed = lake.followed()  # each Delta log is read once
            known[one.name] = table_status(project.instance, one, followed)
            expect_readable(one, followed)

        faults.in_threads(tables, look)
        found, unknown = [known[one.name] for one in tables if one.name in known], faults.found
        if as_json:
            screen.print_json([*map(asdict, found), *({"table": name, "error": why} for name, why in unknown.items())])
        else:
            screen.say_environment(project.settings.environment, project.settings.lake_root)
            screen.print_grid(_overview(found, [name for name in unknown if name not in known]))
            _say_what_holds(found, lake)
        faults_of_lake = unreadable_of_lake(lake)
        for fault in (*faults_of_lake.values(), *unknown.values()):
            screen.complain(str(fault))
        forgotten = {each.table: len(each.forgotten) for each in found if each.forgotten}
        if forgotten:
            screen.complain(". Remedy: ".join(forgotten_loads(forgotten)))
        if table and found and not as_json:
            _say_more(project, tables[0], found[0])
    if unknown or faults_of_lake or forgotten:
        raise typer.Exit(1)


def _overview(found: Sequence[TableStatus], unknown: Sequence[str]) -> Grid:
    """A row for each table: counts of partitions by status, rows, freshness and the last load."""
    numbers = [_LABELS.get(name, name) for name in (*_COUNTED, "rows")]
    grid = screen.grid("table", *numbers, "fresh", "last load", right=numbers)
    for one in found:
        counts = {name: len(getattr(one, name)) for name in _COUNTED}
        grid.add_row(
            one.table,
            *(f"[{_STYLES[n]}]{c}[/]" if c and n in _STYLES else str(c) for n, c in counts.items()),
            "-" if one.rows is None else str(one.rows),
            _freshness(one.freshness),
            "never" if one.last_materialized is None else f"{one.last_materialized:%m-%d %H:%M}Z",
        )
    for name in unknown:
        grid.add_row(name, *("?" for _ in numbers), "[red]unknown[/]", "")
    return grid


def _freshness(overdue: float | None) -> str:
    if overdue is None:
        return "-"
    if not overdue:
        return "[green]yes[/]"
    return f"[red]{largest(overdue)} late[/]"


def _say_what_holds(found: Sequence[TableStatus], lake: Lake) -> None:
    """Prints what is out of the ordinary for tables: silences, closed definitions, pauses, files left out."""
    in_force = silences(lake)
    silent = [of for each in found if (of := silence_of(in_force, each.table))]
    lines = [f"{silence.table or 'Every table'} is {silence}" for silence in dict.fromkeys(silent)]
    for each in found:
        lines += [f"{each.table}: {era}" for era in each.closed]
        lines += [f"{each.table} is {each.paused}"] if each.paused else []
        if each.left_out:
            names = some([*map(repr, each.left_out)])
            lines.append(f"{each.table}: left out by the path, because of their names: {names}")
    for line in lines:
        screen.say(escape(line))


def _say_more(project: Project, table: Table, found: TableStatus) -> None:
    """Prints the partitions of a table by status, causes, holds, and advice."""
    keys = table.keys_at(now())
    for name in _COUNTED:
        if chosen := getattr(found, name):
            screen.say(f"{_LABELS.get(name, name)}: {shown(chosen, keys)}")
    for key, cause in found.causes.items():
        screen.say(f"{key} failed: {cause}")
    for key, hold in found.holds.items():
        screen.say(f"{key} is {hold}. Its source is loaded when it changes, or with incload release.")
    for why in dict.fromkeys(found.undone.values()):
        lost = [key for key, reason in found.undone.items() if reason == why]
        screen.say(f"no longer in the table: {shown(lost, keys)} ({why})")
    if advice := advice_for(project.instance, table, project.lake):
        screen.say(f"advice: {advice}")
