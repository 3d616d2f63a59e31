"""``incload load``: partitions of a table, now."""

from pathlib import Path
from typing import Annotated

import typer

from incload_assets.cli.support.confirm import Yes, confirm


def load(
    ctx: typer.Context,
    table: Annotated[str, typer.Argument(help="Name of the table, for example `orders`.")],
    partitions: Annotated[
        str | None,
        typer.Option(
            "--partitions", "-p", help="Partition keys and ranges, for example `2026-01-01..2026-01-07,2026-01-10`."
        ),
    ] = None,
    all_missing: Annotated[
        bool,
        typer.Option(
            "--all-missing",
            help="Every partition that is not loaded as its source is now: missing, failed, drifted, or whose undo or "
            "replay was killed.",
        ),
    ] = False,
    outdated: Annotated[
        bool,
        typer.Option("--outdated", help="Every partition that other code has validated, whose source still has it."),
    ] = False,
    plan: Annotated[
        Path | None,
        typer.Option("--plan", help="What this file plans, from `incload plan --out`; refused if it is outdated."),
    ] = None,
    rewrite_compacted: Annotated[
        bool,
        typer.Option(
            "--rewrite-compacted",
            help="Replace partitions older than the table's log_retention, too, by what their source holds now. This "
            "cannot be undone, so the table's name has to be typed first.",
        ),
    ] = False,
    yes: Yes = False,
) -> None:
    """Load partitions of a table, oldest first, up to 32 adjacent ones in one Dagster run (`max_partitions_per_run`).

    Each partition is loaded and checkpointed by itself. One that fails does not stop the others; the exit code is 1
    then, and also if a run fails after its partitions were loaded. A partition that is loaded already is checked, and
    written only where it is wrong. A table whose loads are paused is not loaded. The load is recorded in the audit.

    - **Writes:** the table and its log in the lake. The source is only read.
    - **Spark:** started if it is not up.
    - **Dagster's instance:** needed; loads are runs there, and the partitions turn green in the UI.

    Example: `incload load orders --partitions 2026-01-01..2026-01-07`
    """
    if sum((partitions is not None, all_missing, outdated, plan is not None)) != 1:
        raise typer.BadParameter("give one of --partitions A..B, --all-missing, --outdated and --plan plan.json")
    from incload_assets.change_log.log import ChangeLog
    from incload_assets.cli.support import screen
    from incload_assets.cli.support.loads import Loads, complaints, pending, summary
    from incload_assets.cli.support.partition_keys import chosen
    from incload_assets.cli.support.planned import planned
    from incload_assets.cli.support.project import open_project
    from incload_assets.cli.support.runs import free_from_killed_runs
    from incload_assets.load.pending import outdated_windows
    from incload_assets.progress.lake_identity import expect_known_lake
    from incload_assets.progress.pause import expect_not_paused
    from incload_assets.progress.request import Request
    from resources.lake import Lake
    from resources.settings import Settings
    from resources.wording import several, some

    verbose: bool = ctx.obj
    with open_project() as project:
        wanted, lake = project.table(table), Lake.of(Settings())
        expect_not_paused(lake, wanted.name)
        expect_known_lake(project.instance, wanted, lake)
        free_from_killed_runs(project, screen.say)
        if plan is not None:
            keys = planned(wanted, plan)
        elif outdated:
            keys, left = outdated_windows(project.instance, wanted, lake)
            if left:
                gone = f"{several(len(left), 'partition')} not loaded again (held, compacted, or gone from the source)"
                screen.say(f"{wanted.name}: {gone}: {some(left)}")
            if not keys:
                screen.say(f"{wanted.name}: this code has validated every other partition.")
                return
        else:
            keys = chosen(wanted, partitions) if partitions is not None else pending(project, wanted)
        if not keys:
            screen.say(f"{wanted.name}: every partition is up to date with its source.")
            return
        request = Request(rewrite_compacted=rewrite_compacted)
        if rewrite_compacted:

            def replaced() -> list[str]:
                records = ChangeLog(wanted, lake).controls()
                old = [key for key in keys if key in records and records[key].compacted_at is not None]
                count = sum(records[key].rows_read - records[key].rejected - records[key].removed for key in old)
                rows = f"their {several(count, 'change')} in the log will be gone where the source holds others now"
                return (
                    [f"{wanted.name}: {several(len(old), 'compacted partition')} ({some(old)}): {rows}"] if old else []
                )

            confirm("incload load --rewrite-compacted", wanted.name, "the table's name", replaced, yes=yes)
        with screen.apart(verbose=verbose) as console, screen.progress_bar(console) as progress:
            loads = Loads(project, console, progress, len(keys), verbose=verbose, request=request)
            loads.run(wanted, keys)
        if len(keys) > 1:
            screen.print_grid(summary(loads.outcomes))
        for line in complaints(loads.outcomes):
            screen.say(line)
        if loads.failed:
            not_loaded = [outcome for outcome in loads.failed if not outcome.counts]
            after = len(loads.failed) - len(not_loaded)
            said = [f"{len(not_loaded)} of {several(len(keys), 'partition')} not loaded"] if not_loaded else []
            said += (
                [f"{after} of {several(len(keys), 'partition')} loaded by runs that failed afterwards"] if after else []
            )
            screen.complain(f"{wanted.name}: {', '.join(said)}")
            raise typer.Exit(1)
