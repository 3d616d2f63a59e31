"""``incload plan`` and ``incload shadow``: the changes that loads would make, and a table by changed code."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.progress import Progress, TaskID

from incload_assets.cli.support import screen
from incload_assets.cli.support.loads import run_loads
from incload_assets.cli.support.options import AsJson, TableName, Yes
from incload_assets.cli.support.project import Project, open_project
from incload_assets.declaration.partition_keys import chosen
from incload_assets.declaration.table import Table
from incload_assets.platform.wording import several
from incload_assets.progress.audit import AuditEntry, record
from incload_assets.what_if import shadow as shadows
from incload_assets.what_if.plan_text import ALONE, counts_of, notes_of, pace_of
from incload_assets.what_if.planned import Plan
from incload_assets.what_if.planning import pending_untouched, plan_loads

_MARKS = {"nothing to do": "[dim]=[/]", "changes": "[yellow]~[/]", "would stop": "[red]✗[/]"}


def plan(
    ctx: typer.Context,
    table: TableName,
    partitions: Annotated[
        str | None,
        typer.Option("--partitions", "-p", help="Partition keys and ranges, as for `incload load`."),
    ] = None,
    all_missing: Annotated[
        bool, typer.Option("--all-missing", help="Every partition that is not loaded as its source is now.")
    ] = False,
    as_json: AsJson = False,
    out: Annotated[
        Path | None, typer.Option("--out", help="Write the plan to this file, for `incload load --plan`.")
    ] = None,
    values: Annotated[
        bool,
        typer.Option("--values", help="Show the values of changed columns, too; personal ones stay masked."),
    ] = False,
    rewrite_compacted: Annotated[
        bool, typer.Option("--rewrite-compacted", help="Plan as for `incload load --rewrite-compacted`.")
    ] = False,
) -> None:
    """Show what the loads of partitions would change in a table.

    The source is read, and its rows are validated and compared with the table, by the code that loads. Each partition
    is planned alone, against the table as it is now. The exit code is 0 if there is nothing to do, 2 if something would
    change, and 1 if a load would stop.

    - **Writes:** no table, no log and no checkpoint. Rows are staged for the time of the plan. With `--values` the
      audit records who has seen values.
    - **Spark:** started if it is not up.
    - **Dagster's instance:** needed, to read checkpoints.

    Example: `incload plan orders --partitions 2026-01-03 --out plan.json`
    """
    if (partitions is None) != all_missing:
        raise typer.BadParameter("give either --partitions A..B or --all-missing")
    with open_project(verbose=ctx.obj) as project:
        wanted, lake = project.table(table), project.lake
        if partitions is not None:
            keys = chosen(wanted, partitions)
        else:
            keys = pending_untouched(project.instance, wanted, lake)
        found = _planned(project, wanted, keys, values=values, rewrite_compacted=rewrite_compacted)
        if values:
            record(lake, AuditEntry(action="read", table=wanted.name, partitions=keys, details={"by": "incload plan"}))
    if out is not None:
        out.write_text(found.without_values().as_json() + "\n")
    if as_json:
        screen.print_json(found.as_json())
    else:
        _show(found)
        if out is not None:
            screen.say(f"Load it: incload load {wanted.name} --plan {out}")
    raise typer.Exit(found.exit_code)


def _planned(project: Project, table: Table, keys: Sequence[str], *, values: bool, rewrite_compacted: bool) -> Plan:
    """The plan of the loads of partitions, with a progress bar meanwhile."""
    with screen.apart(verbose=project.verbose) as console, screen.progress_bar(console) as progress:
        bar = progress.add_task(f"{table.name}: planning", total=len(keys))
        with project.spark(table.name) as spark:
            return plan_loads(
                spark,
                project.instance,
                table,
                project.lake,
                keys,
                tables=project.tables.values(),
                values=values,
                rewrite_compacted=rewrite_compacted,
                done=partial(_advance, progress, bar),
            )


def _advance(progress: Progress, bar: TaskID, done: int) -> None:
    progress.update(bar, completed=done)


def _show(plan: Plan) -> None:
    """Prints a plan."""
    if not plan.windows:
        screen.say(f"{plan.table}: every partition is up to date with its source.")
        return
    screen.say(f"{plan.table}: {several(len(plan.windows), 'partition')}, {ALONE}. Nothing was written.")
    for window in plan.windows:
        screen.say(f"{_MARKS[window.outcome]} {window.partition}  {escape(counts_of(window))}")
        for note in notes_of(window):
            screen.say(f"    {escape(note)}")
    if pace := pace_of(plan):
        screen.say(pace[:1].upper() + pace[1:] + ".")


def shadow(
    ctx: typer.Context,
    table: TableName,
    drop: Annotated[bool, typer.Option("--drop", help="Only remove the shadow.")] = False,
    promote: Annotated[
        bool,
        typer.Option(
            "--promote", help="Then load the partitions that other code validated, compare again, remove the shadow."
        ),
    ] = False,
    yes: Yes = False,
) -> None:
    """Fold a table's log by the code of this folder into a second table, and compare them.

    Windows that other code validated are read from the source again, if it still holds the same; the output says for
    which it does not. The exit code is 0 if table and shadow are equal, and 2 if they differ. With `--promote` it is
    that of the second comparison, and a shadow that differs then stays.

    - **Writes:** the folder `_shadow` in the lake; with `--promote` the table and its log, otherwise neither.
    - **Spark:** started if it is not up.
    - **Dagster's instance:** used for `--promote` only; its loads are runs there.

    Example: `incload shadow orders`
    """
    if drop and promote:
        raise typer.BadParameter("give either --drop or --promote")
    with open_project(verbose=ctx.obj) as project:
        wanted = project.table(table)
        with screen.apart(verbose=project.verbose) as console, project.load(wanted) as load:
            if drop:
                there = shadows.drop(load)
                console.print(f"{wanted.name}: {'removed the shadow' if there else 'there is no shadow'}", markup=False)
                return
            with console.status(f"folding the log of {wanted.name}"):
                found = shadows.shadow(load)
            for line in found.lines(wanted.name):
                console.print(line, markup=False)
        equal = _promoted(project, wanted, found, yes=yes) if promote else found.comparison.equal
    if not equal:
        raise typer.Exit(2)


def _promoted(project: Project, table: Table, made: shadows.Shadow, *, yes: bool) -> bool:
    """True if table and shadow are equal after loads by this code; the shadow is then removed."""
    keys = list(made.validated)
    if run_loads(project, table, keys, yes=yes).failed:
        raise typer.Exit(1)
    with screen.apart(verbose=project.verbose), project.load(table) as load:
        if equal := shadows.compare_again(load, made).equal:
            shadows.drop(load)
    told = "table and shadow are equal" if equal else "table and shadow still differ, see incload plan"
    screen.say(f"{table.name}: loaded {len(keys)} of {several(len(keys), 'partition')} by this code; {told}")
    return equal
