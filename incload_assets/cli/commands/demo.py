"""``incload demo``: the sample shop trades for a few days, and its tables load as its files arrive."""

from datetime import timedelta
from typing import Annotated

import dagster as dg
import typer

from incload_assets.cli.support import screen
from incload_assets.cli.support.loads import Loads, complaints, pending, summary
from incload_assets.cli.support.project import Project, open_project
from incload_assets.cli.support.runs import free_from_killed_runs
from incload_assets.declaration.window import now
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.shop import Shop
from incload_assets.shop.plan import FEEDS

DAY = timedelta(days=1)


def demo(
    ctx: typer.Context,
    days: Annotated[int, typer.Option("--days", "-n", min=1, help="Days to trade; never beyond today.")] = 3,
) -> None:
    """Let the sample shop trade for a few days and load what it wrote, day by day.

    Rewritten files and late rows are loaded on the day they arrive, as by a sensor. Tables with hourly partitions are
    left to the sensors. It fails if the shop has traded up to now.

    - **Writes:** files in the landing area, rows in the shop's PostgreSQL and Kafka, and the shop's tables. Your own
      tables are left alone.
    - **Spark:** started if it is not up.
    - **Dagster's instance:** needed; each load is a run there.

    Example: `incload demo --days 3`
    """
    with open_project(verbose=ctx.obj) as project:
        settings = project.settings
        if not settings.samples:
            raise IncrementalLoadError(
                "INCLOAD_SAMPLES is off", rule="the demo shows the sample shop", remedy="unset INCLOAD_SAMPLES"
            )
        shop = Shop(settings)
        steps = -((shop.now - min(shop.now + days * DAY, now())) // DAY)  # the last may be shorter than a day
        if steps <= 0:
            raise IncrementalLoadError(
                f"the sample shop has traded up to {shop.now:%Y-%m-%d %H:%M} UTC",
                rule="it never trades beyond the present",
                remedy=f"see its tables with `incload status`, or start over by removing {settings.home_root}",
            )
        loads = _trade(project, shop, steps)
    if not loads.outcomes:
        screen.say(f"No file has arrived: the sample shop has traded up to {shop.now:%Y-%m-%d %H:%M} UTC already.")
        return
    screen.print_grid(summary(loads.outcomes))
    for line in complaints(loads.outcomes):
        screen.say(line)
    screen.say("See them in the UI: `incload dev`. Let the shop trade on: `incload demo`.")
    if loads.failed:
        screen.complain(f"{len(loads.failed)} of {len(loads.outcomes)} loads failed")
        raise typer.Exit(1)


def _trade(project: Project, shop: Shop, steps: int) -> Loads:
    """Lets the shop trade day by day, never beyond the present, and loads what it wrote after each."""
    named = [project.table(name) for name in sorted({feed.target for feed in FEEDS.values()})]
    tables = [table for table in named if isinstance(table.partitions_def, dg.DailyPartitionsDefinition)]
    prices, end = project.table("prices"), now()
    free_from_killed_runs(project)
    with screen.apart(verbose=project.verbose) as console, screen.progress_bar(console) as progress:
        loads = Loads(project, console, progress, steps * (len(tables) + 1))
        for _ in range(steps):
            advance = shop.advance(until=min(shop.now + DAY, end))
            came = f"{len(advance.files)} files arrived, {advance.prices} prices were set"
            if advance.messages:
                came += f", {advance.messages} web events were sent"
            console.print(f"[bold]{advance.now:%Y-%m-%d %H:%M} UTC[/]: {came}")
            if advance.database_failure:
                console.print(f"No prices: {advance.database_failure}", markup=False)
            if advance.kafka_failure:
                console.print(f"No web events: {advance.kafka_failure}", markup=False)
            for table in tables if advance.database_failure else [*tables, prices]:
                loads.run(table, pending(project, table))
    return loads
