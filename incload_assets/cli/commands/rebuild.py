"""``incload rebuild``: what Dagster has lost is proven from the tables."""

from functools import partial
from typing import Annotated

import typer
from rich.progress import Progress, TaskID


def _advance(progress: Progress, bar: TaskID, done: int, total: int) -> None:
    progress.update(bar, completed=done, total=total)


def rebuild(
    ctx: typer.Context,
    table: Annotated[list[str] | None, typer.Argument(help="Names of tables; default: all.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what could be proven.")] = False,
) -> None:
    """Turn partitions green again after Dagster's storage was lost, without reading the sources.

    A partition is reported as loaded if the full fold of its keys from the log finds nothing to do in the table. The
    others stay as they are, with the reason; a load repairs them. It can be repeated at any time. The exit code is 1 if
    a partition could not be proven, or a table or its log cannot be read; the other tables are proven all the same.

    - **Writes:** nothing to tables and logs; an entry in the audit; checkpoints to Dagster's instance.
    - **Spark:** started if it is not up.
    - **Dagster's instance:** needed; it may be empty.

    Example: `incload rebuild --dry-run`
    """
    from incload_assets.change_log.context import LoadContext
    from incload_assets.cli.support import screen
    from incload_assets.cli.support.partition_keys import shown
    from incload_assets.cli.support.project import open_project
    from incload_assets.declaration.window import now
    from incload_assets.load.faults import Faults, expect_readable
    from incload_assets.progress.audit import AuditEntry, record
    from incload_assets.recovery.rebuild import rebuild as rebuilt
    from resources.lake import Lake
    from resources.settings import Settings
    from resources.spark.resource import SparkResource

    verbose: bool = ctx.obj
    refused = False
    with open_project() as project:
        lake = Lake.of(Settings())
        faults = Faults(lake)
        wanted = [project.table(name) for name in table or sorted(project.tables)]
        with screen.apart(verbose=verbose) as console, screen.progress_bar(console) as progress:
            for one in wanted:
                bar, found = progress.add_task(one.name, total=None), None
                with faults.of(one):
                    expect_readable(one, lake)
                    if lake.delta(lake.log_uri(one.key.path)) is not None:
                        with SparkResource().session(one.name) as spark:
                            found = rebuilt(
                                LoadContext(spark, one, lake),
                                project.instance,
                                dry_run=dry_run,
                                done=partial(_advance, progress, bar),
                            )
                progress.remove_task(bar)
                if found is None:
                    continue
                if found.proven and not dry_run:
                    record(lake, AuditEntry(action="rebuild", table=one.name, partitions=sorted(found.proven)))
                keys = one.partitions_def.get_partition_keys(current_time=now())
                console.print(found.summary(one.name, dry_run=dry_run), markup=False)
                for why in dict.fromkeys(found.refused.values()):
                    those = [key for key, reason in found.refused.items() if reason == why]
                    console.print(f"  {shown(those, keys)}: {why}", markup=False)
                refused = refused or bool(found.refused)
    screen.complain_of(faults.found.values())
    if refused:
        raise typer.Exit(1)
