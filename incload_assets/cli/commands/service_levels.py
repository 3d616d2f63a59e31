"""``incload slo`` and ``incload ready``: the service levels of tables, and what they need for production."""

from dataclasses import asdict
from typing import Annotated

import typer
from rich.markup import escape

from incload_assets.cli.support import screen
from incload_assets.cli.support.options import AsJson, TableName
from incload_assets.cli.support.project import open_project
from incload_assets.cli.support.slo_view import as_data, details, overview
from incload_assets.declaration.window import now
from incload_assets.monitoring.facts import checks_at, gather
from incload_assets.monitoring.readiness.readiness import Circumstances, verdicts
from incload_assets.monitoring.slis import CHECKS, slis


def slo(
    table: Annotated[str | None, typer.Argument(help="Name of a table, for all its indicators.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with every indicator.")] = False,
) -> None:
    """Show per table whether its objectives are met, and the error budget left.

    With a table's name, each indicator is shown with its target, the budget that is left and the difference to the
    period before. Loads that ended since the last look are recorded first. The exit code is 0 whether or not the
    objectives are met, and 1 if a table, its log, the audit or the decisions cannot be read.

    - **Writes:** the history of loads, the lake's table `_loads`.
    - **Spark:** not started.
    - **Dagster's instance:** needed, to read loads, checks and what sensors saw.

    Example: `incload slo orders --json`
    """
    with open_project() as project:
        chosen = project.named([table] if table else None)
        project.collect()
        facts = gather(project.instance, chosen, project.lake, now())
        found = []
        trends = bool(table) or as_json  # the overview shows none, and each takes dozens of queries
        for one in chosen:
            earlier = checks_at(project.instance, one, CHECKS, facts.at - one.slo.period) if trends else {}
            found.append((one, slis(facts.tables[one.name], facts.at, facts.price_per_hour, earlier)))
    if as_json:
        screen.print_json([as_data(*each, facts.at) for each in found])
    else:
        screen.print_grid(details(*found[0]) if table else overview(found))
    screen.complain_of([*facts.unreadable, *(facts.tables[one.name].unreadable for one in chosen)])


def ready(table: TableName, as_json: AsJson = False) -> None:
    """Check whether a table is ready for production, with a remedy for what is not.

    The exit code is 1 if a requirement is not met, so that CI can refuse a table.

    - **Writes:** nothing.
    - **Spark:** not started.
    - **Dagster's instance:** needed, to read checks, sensors, schedules and heartbeats.

    Example: `incload ready orders`
    """
    with open_project() as project:
        wanted = project.table(table)
        around = Circumstances(
            table=wanted,
            facts=gather(project.instance, [wanted], project.lake, now()),
            instance=project.instance,
            settings=project.settings,
            schedules=project.reconciling,
        )
        found = verdicts(around)
    passed = sum(each.passed for each in found)
    if as_json:
        screen.print_json([asdict(each) for each in found])
    else:
        grid = screen.grid("")
        grid.add_column("requirement", no_wrap=True)
        grid.add_column("found, and what to do")
        for each in found:
            mark = "[green]✓[/]" if each.passed else "[red]✗[/]"
            remedy = f"\n[dim]→ {escape(each.remedy)}[/]" if each.remedy else ""
            grid.add_row(mark, each.name, f"{escape(each.says)}{remedy}")
        screen.print_grid(grid)
        screen.say(f"{wanted.name}: {passed} of {len(found)} requirements are met.")
    if passed < len(found):
        raise typer.Exit(1)
