"""``incload check``: every check of a table, now."""

import typer
from dagster import AssetCheckSeverity

from incload_assets.checks.observation import UNCHECKED
from incload_assets.cli.support import screen
from incload_assets.cli.support.options import TableName
from incload_assets.cli.support.project import open_project
from incload_assets.cli.support.runs import free_from_killed_runs, run_checks


def check(ctx: typer.Context, table: TableName) -> None:
    """Evaluate every check of a table in one Dagster run.

    The exit code is 1 if a check of severity ERROR fails, or one could not be evaluated, or the source could not be
    checked. Nothing is repaired here: the sensor loads the partitions that were found wrong.

    - **Writes:** no table and no log.
    - **Spark:** started if it is not up; the source is read again, and compared.
    - **Dagster's instance:** needed; the results are recorded there.

    Example: `incload check orders`
    """
    with open_project(verbose=ctx.obj) as project:
        wanted = project.table(table)
        free_from_killed_runs(project)
        with screen.apart(verbose=project.verbose) as console, console.status(f"checking {wanted.name}"):
            found, reasons = run_checks(project, wanted)
    grid = screen.grid("check", "result", "finding")
    for one in sorted(found, key=lambda one: one.check_name):
        bad = "[red]failed[/]" if one.severity is AssetCheckSeverity.ERROR else "[yellow]warning[/]"
        grid.add_row(one.check_name, "[green]passed[/]" if one.passed else bad, one.description or "")
    screen.print_grid(grid)
    silent = dict.fromkeys(str(one.metadata[UNCHECKED].value) for one in found if UNCHECKED in one.metadata)
    reasons += [why.removeprefix(f"{wanted.name}: ") for why in silent]
    for reason in reasons:
        screen.complain(f"{wanted.name}: not all checks were evaluated: {reason}")
    if reasons or any(not one.passed and one.severity is AssetCheckSeverity.ERROR for one in found):
        raise typer.Exit(1)
