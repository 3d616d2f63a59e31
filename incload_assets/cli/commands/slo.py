"""``incload slo``: the service level indicators against their targets."""

import json
from typing import Annotated

import typer


def slo(
    table: Annotated[str | None, typer.Argument(help="Name of a table, for all its indicators.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with every indicator.")] = False,
) -> None:
    """Show per table whether its objectives are met, and how much of the error budget is left.

    With a table's name, each indicator is shown with its target, the budget that is left and the difference to the
    period before. Loads that ended since the last look are recorded first. The exit code is 0 whether or not the
    objectives are met, and 1 if a table, its log, the audit or the decisions cannot be read.

    - **Writes:** the history of loads, the lake's table `_loads`.
    - **Spark:** not started.
    - **Dagster's instance:** needed, to read loads, checks and what sensors saw.

    Example: `incload slo orders --json`
    """
    from incload_assets.cli.support import screen
    from incload_assets.cli.support.project import open_project
    from incload_assets.cli.support.slo_view import as_data, details, overview
    from incload_assets.declaration.window import now
    from incload_assets.monitoring.facts import checks_at, gather
    from incload_assets.monitoring.slis import CHECKS, slis
    from incload_assets.monitoring.telemetry.emitters import collect_and_send
    from resources.lake import Lake
    from resources.settings import Settings

    with open_project() as project:
        lake = Lake.of(Settings())
        chosen = [project.table(table)] if table else [project.tables[name] for name in sorted(project.tables)]
        collect_and_send(project.instance, project.tables.values(), lake)
        facts = gather(project.instance, chosen, lake, now())
        found = []
        for one in chosen:
            earlier = checks_at(project.instance, one, CHECKS, facts.at - one.slo.period)
            found.append((one, slis(facts.tables[one.name], facts.at, facts.price_per_hour, earlier)))
    if as_json:
        screen.print_json(json.dumps([as_data(*each, facts.at) for each in found]))
    elif table:
        screen.print_grid(details(*found[0]))
    else:
        screen.print_grid(overview(found))
    screen.complain_of([*facts.unreadable, *(facts.tables[one.name].unreadable for one in chosen)])
