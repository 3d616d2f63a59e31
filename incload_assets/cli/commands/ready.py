"""``incload ready``: whether a table is ready for production."""

import json
from dataclasses import asdict
from typing import Annotated

import typer


def ready(
    table: Annotated[str, typer.Argument(help="Name of the table, for example `orders`.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check whether a table is ready for production, with a remedy for whatever is not.

    The exit code is 1 if a requirement is not met, so that CI can refuse a table.

    - **Writes:** nothing.
    - **Spark:** not started.
    - **Dagster's instance:** needed, to read checks, sensors, schedules and heartbeats.

    Example: `incload ready orders`
    """
    from rich.markup import escape

    from incload_assets.cli.support import screen
    from incload_assets.cli.support.project import open_project
    from incload_assets.declaration.window import now
    from incload_assets.monitoring.facts import gather
    from incload_assets.monitoring.readiness.readiness import Circumstances, verdicts
    from resources.lake import Lake
    from resources.settings import Settings

    with open_project() as project:
        settings, wanted = Settings(), project.table(table)
        around = Circumstances(
            table=wanted,
            facts=gather(project.instance, [wanted], Lake.of(settings), now()),
            instance=project.instance,
            settings=settings,
            schedules=project.reconciling(wanted),
        )
        found = verdicts(around)
    if as_json:
        screen.print_json(json.dumps([asdict(each) for each in found]))
    else:
        grid = screen.grid("")
        grid.add_column("requirement", no_wrap=True)
        grid.add_column("found, and what to do")
        for each in found:
            mark = "[green]✓[/]" if each.passed else "[red]✗[/]"
            remedy = f"\n[dim]→ {escape(each.remedy)}[/]" if each.remedy else ""
            grid.add_row(mark, each.name, f"{escape(each.says)}{remedy}")
        screen.print_grid(grid)
        passed = sum(each.passed for each in found)
        screen.say(f"{wanted.name}: {passed} of {len(found)} requirements are met.")
    if not all(each.passed for each in found):
        raise typer.Exit(1)
