"""``incload compact``: the log of a table, now."""

from typing import Annotated

import typer

from incload_assets.cli.support.confirm import Yes, confirm
from resources.errors import IncrementalLoadError


def compact(
    ctx: typer.Context,
    table: Annotated[str, typer.Argument(help="Name of the table, for example `orders`.")],
    yes: Yes = False,
) -> None:
    """Remove from the log of a table with a `log_retention` what no longer decides; a schedule does so every night.

    Partitions older than the retention are then replaced only by choice, with `incload load --rewrite-compacted`. If
    anything would be removed, it shows how much, and goes on when the table's name is typed.

    - **Writes:** the table's log in the lake, which cannot be undone. The table does not change.
    - **Spark:** started if it is not up.
    - **Dagster's instance:** needed; partitions that a run has in hand are left alone.

    Example: `incload compact customers`
    """
    from incload_assets.change_log.context import LoadContext
    from incload_assets.cli.support import screen
    from incload_assets.cli.support.project import open_project
    from incload_assets.cli.support.runs import free_from_killed_runs, run_compaction
    from incload_assets.declaration.window import now
    from incload_assets.maintenance.compact_logs import at_rest_in, plan_compaction
    from resources.lake import Lake
    from resources.settings import Settings
    from resources.spark.resource import SparkResource
    from resources.wording import several

    verbose: bool = ctx.obj
    with open_project() as project:
        wanted = project.table(table)
        if wanted.log_retention is None:
            raise IncrementalLoadError(
                f"{wanted.name} declares no log_retention",
                rule="without one its log keeps every change, so that every partition can be rewritten",
                remedy="write for example log_retention=timedelta(days=90) in its @incremental_asset",
            )
        free_from_killed_runs(project, screen.say)
        older_than = now() - wanted.log_retention

        def gone() -> list[str]:
            with screen.apart(verbose=verbose), SparkResource().session(wanted.name) as spark:
                load = LoadContext(spark, wanted, Lake.of(Settings()))
                found = plan_compaction(load, older_than, at_rest_in(project.instance, wanted))
            if not (found.added or found.removed):
                return []
            return [
                f"{wanted.name}: {found.removed} of {several(found.before, 'change')} in "
                f"{several(found.windows, 'partition')} will be gone from the log; {found.added} of these partitions "
                "will from now on be replaced only by choice, and can no longer be undone"
            ]

        confirm("incload compact", wanted.name, "the table's name", gone, yes=yes)
        with screen.apart(verbose=verbose) as console, console.status(f"compacting the log of {wanted.name}"):
            found = run_compaction(project, wanted, verbose=verbose)
        screen.say(
            f"{wanted.name}: compacted {several(found['log_windows_compacted'], 'partition')}, "
            f"{found['log_windows_added']} of them for the first time; removed {found['log_changes_removed']} of "
            f"{several(found['log_changes_before'], 'change')} from the log; left alone: {found['log_windows_busy']}"
        )
