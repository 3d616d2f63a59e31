"""``incload status``: what is loaded, what is not, and how late."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Annotated

import dagster as dg
import typer
from rich.markup import escape
from rich.table import Table as Grid

from incload_assets.automation.overview import Sight, sight_of
from incload_assets.cli.support import screen
from incload_assets.cli.support.folder import enter_project
from incload_assets.cli.support.project import Project, open_project
from incload_assets.declaration.partition_keys import shown
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import now
from incload_assets.load.faults import Faults, expect_readable, unreadable_of_lake
from incload_assets.monitoring.advice import advice_for
from incload_assets.platform.dagster_sqlite import tune_sqlite
from incload_assets.platform.lake import Lake
from incload_assets.platform.memory import unsearched
from incload_assets.platform.settings import Settings
from incload_assets.platform.wording import ago, largest, some
from incload_assets.progress.observed import SENSOR, folder_of
from incload_assets.progress.pause import pauses
from incload_assets.progress.recorded import in_groups
from incload_assets.progress.silence import silence_of, silences
from incload_assets.progress.status import Overview, TableStatus, forgotten_loads, table_status

_COUNTED = ("loaded", "missing", "failed", "drifted", "in_progress", "waiting", "held")
_LABELS = {"in_progress": "running"}
_STYLES = {"missing": "yellow", "failed": "red", "drifted": "yellow", "in_progress": "blue", "held": "magenta"}


def status(
    ctx: typer.Context,
    table: Annotated[str | None, typer.Argument(help="Name of a table, for its partitions too.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with every partition key.")] = False,
) -> None:
    """Show what is loaded, missing, failed or drifted per table, and how fresh it is.

    Without a table's name, and while the sensor runs, tables are shown as the sensor saw them last; those about which
    Dagster has recorded something since are looked at. With a table's name, its partitions, the causes of failures and
    advice are shown, too. If a source does not respond, or a table cannot be read, the other tables are shown all the
    same. The exit code is 1 then, and if the audit or the decisions cannot be read, or logs have loads that Dagster
    does not know, because its storage was lost.

    - **Writes:** no table and no log. A source may record where its windows end, and what was read
      of files and logs is cached.
    - **Spark:** not started.
    - **Dagster's instance:** needed, to read checkpoints.

    Example: `incload status orders --json`
    """
    sight = None if table or as_json else _sight()
    if sight is not None and not sight.others:
        _show(sight.rows, Settings(), sight.at)
        return
    with open_project(verbose=ctx.obj) as project:
        chosen = project.named([table] if table else None)
        seen = {row.table: row for row in sight.rows if row.table in project.tables} if sight else {}
        chosen = [one for one in chosen if one.name not in seen]
        found, rows = _looked_at(project, chosen)
        if as_json:
            faults = ({"table": row.table, "error": row.unreadable} for row in rows if row.unreadable)
            screen.print_json([*map(asdict, found), *faults])
            _complain(rows, project.lake)
            return
        try:
            rows = sorted([*seen.values(), *rows], key=lambda row: row.table)
            _show(rows, project.settings, sight.at if sight else None)
        finally:
            if table and found:
                _say_more(project, chosen[0], found[0])


def _sight() -> Sight | None:
    """The tables as the sensor sees them: without the code location, whose thousand tables take seconds to load."""
    folder = enter_project().root
    tune_sqlite()
    with dg.DagsterInstance.get() as instance:
        return sight_of(instance, folder_of(folder), now())


def _looked_at(project: Project, tables: Sequence[Table]) -> tuple[list[TableStatus], list[Overview]]:
    """The statuses of tables that can be looked at, and the rows of all."""
    known: dict[str, TableStatus] = {}
    faults, recorded = Faults(project.lake), in_groups(project.instance, tables)

    def look(one: Table) -> None:
        followed = project.lake.followed()  # each Delta log is read once
        known[one.name] = table_status(project.instance, one, followed, recorded=recorded)
        expect_readable(one, followed)

    with screen.under_way(), unsearched():
        faults.in_threads(tables, look)
    rows = {one.name: known[one.name].overview if one.name in known else Overview(table=one.name) for one in tables}
    found = [known[one.name] for one in tables if one.name in known]
    return found, [replace(row, unreadable=faults.found.get(name, "")) for name, row in rows.items()]


def _show(rows: Sequence[Overview], settings: Settings, seen_at: datetime | None = None) -> None:
    """Prints the rows of tables, what is out of the ordinary, and when the sensor saw the tables if it did."""
    lake = Lake.of(settings)
    screen.say_environment(settings.environment, settings.lake_root)
    screen.print_grid(_grid(rows))
    if seen_at is not None:
        screen.say(f"[dim]as {SENSOR} saw them {ago(seen_at, now())}; incload status TABLE looks now[/]")
    _say_what_holds(rows, lake)
    _complain(rows, lake)


def _complain(rows: Sequence[Overview], lake: Lake) -> None:
    """Prints what is wrong on standard error, and ends the command with exit code 1 if something is."""
    faults = [*map(str, unreadable_of_lake(lake).values()), *(row.unreadable for row in rows if row.unreadable)]
    if forgotten := {row.table: row.forgotten for row in rows if row.forgotten}:
        faults.append(". Remedy: ".join(forgotten_loads(forgotten)))
    screen.complain_of(faults)


def _grid(rows: Sequence[Overview]) -> Grid:
    """A row for each table: counts of partitions by status, rows, freshness and the last load."""
    numbers = [_LABELS.get(name, name) for name in (*_COUNTED, "rows")]
    grid = screen.grid("table", *numbers, "fresh", "last load", right=numbers)
    for one in rows:
        if not one.counts:
            grid.add_row(one.table, *("?" for _ in numbers), "[red]unknown[/]", "")
            continue
        counts = {name: one.counts.get(name, 0) for name in _COUNTED}
        grid.add_row(
            one.table,
            *(f"[{_STYLES[n]}]{c}[/]" if c and n in _STYLES else str(c) for n, c in counts.items()),
            "-" if one.rows is None else str(one.rows),
            _freshness(one.freshness),
            "never" if one.last_materialized is None else f"{one.last_materialized:%m-%d %H:%M}Z",
        )
    return grid


def _freshness(overdue: float | None) -> str:
    if overdue is None:
        return "-"
    if not overdue:
        return "[green]yes[/]"
    return f"[red]{largest(overdue)} late[/]"


def _say_what_holds(rows: Sequence[Overview], lake: Lake) -> None:
    """Prints what is out of the ordinary for tables: silences, closed definitions, pauses, files left out."""
    in_force, paused = silences(lake), pauses(lake, now())
    silent = [of for each in rows if (of := silence_of(in_force, each.table))]
    lines = [f"{silence.table or 'Every table'} is {silence}" for silence in dict.fromkeys(silent)]
    for each in rows:
        lines += [f"{each.table}: {era}" for era in each.closed]
        lines += [f"{each.table} is {paused[each.table]}"] if each.table in paused else []
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
    if found.never_complete:
        screen.say(f"no window becomes complete, so all are looked at again and again: {found.never_complete}")
    for why in dict.fromkeys(found.undone.values()):
        lost = [key for key, reason in found.undone.items() if reason == why]
        screen.say(f"no longer in the table: {shown(lost, keys)} ({why})")
    if advice := advice_for(project.instance, table, project.lake):
        screen.say(f"advice: {advice}")
