"""``incload plan``: what loads would change, before they do."""

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress, TaskID


def _advance(progress: Progress, bar: TaskID, done: int) -> None:
    progress.update(bar, completed=done)


def plan(
    ctx: typer.Context,
    table: Annotated[str, typer.Argument(help="Name of the table, for example `orders`.")],
    partitions: Annotated[
        str | None,
        typer.Option("--partitions", "-p", help="Partition keys and ranges, as for `incload load`."),
    ] = None,
    all_missing: Annotated[
        bool, typer.Option("--all-missing", help="Every partition that is not loaded as its source is now.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
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
    from functools import partial

    from incload_assets.cli.support import screen
    from incload_assets.cli.support.partition_keys import chosen
    from incload_assets.cli.support.plan_view import show
    from incload_assets.cli.support.project import open_project
    from incload_assets.progress.audit import AuditEntry, record
    from incload_assets.recovery.planning import pending_untouched, plan_loads
    from resources.lake import Lake
    from resources.settings import Settings
    from resources.spark.resource import SparkResource

    verbose: bool = ctx.obj
    with open_project() as project:
        wanted, lake = project.table(table), Lake.of(Settings())
        if partitions is not None:
            keys = chosen(wanted, partitions)
        else:
            keys = pending_untouched(project.instance, wanted, lake)
        with screen.apart(verbose=verbose) as console, screen.progress_bar(console) as progress:
            bar = progress.add_task(f"{wanted.name}: planning", total=len(keys))
            with SparkResource().session(wanted.name) as spark:
                found = plan_loads(
                    spark,
                    project.instance,
                    wanted,
                    lake,
                    keys,
                    tables=project.tables.values(),
                    values=values,
                    rewrite_compacted=rewrite_compacted,
                    done=partial(_advance, progress, bar),
                )
        if values:
            record(lake, AuditEntry(action="read", table=wanted.name, partitions=keys, details={"by": "incload plan"}))
    if out is not None:
        out.write_text(found.without_values().as_json() + "\n")
    if as_json:
        screen.print_json(found.as_json())
    else:
        show(found)
        if out is not None:
            screen.say(f"Load it: incload load {wanted.name} --plan {out}")
    raise typer.Exit(found.exit_code)
