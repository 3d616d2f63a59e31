"""``incload load``: partitions of a table, now."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from incload_assets.change_log.log import ChangeLog
from incload_assets.cli.support import screen
from incload_assets.cli.support.loads import Loads, complaints, pending, run_loads, summary
from incload_assets.cli.support.options import TableName, Yes, confirm
from incload_assets.cli.support.project import Project, open_project
from incload_assets.cli.support.runs import free_from_killed_runs
from incload_assets.declaration.partition_keys import chosen
from incload_assets.declaration.table import Table
from incload_assets.load.pending import outdated_windows
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.wording import several, some
from incload_assets.progress.lake_identity import expect_known_lake
from incload_assets.progress.pause import expect_not_paused
from incload_assets.progress.request import Request
from incload_assets.what_if.planned import CHANGES, STOPS, Plan
from incload_assets.what_if.planning import check_plan

_PARTITIONS = typer.Option(
    "--partitions", "-p", help="Partition keys and ranges, for example `2026-01-01..2026-01-07,2026-01-10`."
)
_ALL_MISSING = typer.Option(
    "--all-missing",
    help="Every partition that is not loaded as its source is now: missing, failed, drifted, or whose undo or replay "
    "was killed.",
)
_OUTDATED = typer.Option("--outdated", help="Every partition that other code has validated, whose source still has it.")
_PLAN = typer.Option("--plan", help="What this file plans, from `incload plan --out`; refused if it is outdated.")
_REWRITE_COMPACTED = typer.Option(
    "--rewrite-compacted",
    help="Replace partitions older than the table's log_retention, too, by what their source holds now. This cannot be "
    "undone, so the table's name has to be typed first.",
)


def load(
    ctx: typer.Context,
    table: TableName,
    partitions: Annotated[str | None, _PARTITIONS] = None,
    all_missing: Annotated[bool, _ALL_MISSING] = False,
    outdated: Annotated[bool, _OUTDATED] = False,
    plan: Annotated[Path | None, _PLAN] = None,
    rewrite_compacted: Annotated[bool, _REWRITE_COMPACTED] = False,
    yes: Yes = False,
) -> None:
    """Load partitions of a table, oldest first, adjacent ones in one Dagster run.

    One run loads up to 32 (`max_partitions_per_run`), each checkpointed by itself. One that fails does not stop the
    others; the exit code is 1 then, and also if a run fails after its partitions were loaded. A partition that is
    loaded already is checked, and written only where it is wrong. A table whose loads are paused is not loaded. Before
    more than 500 partitions it asks, with the time that they may take. The load is recorded in the audit.

    - **Writes:** the table and its log in the lake. The source is only read.
    - **Spark:** started if it is not up.
    - **Dagster's instance:** needed; loads are runs there, and the partitions turn green in the UI.

    Example: `incload load orders --partitions 2026-01-01..2026-01-07`
    """
    if sum((partitions is not None, all_missing, outdated, plan is not None)) != 1:
        raise typer.BadParameter("give one of --partitions A..B, --all-missing, --outdated and --plan plan.json")
    with open_project(verbose=ctx.obj) as project:
        wanted = project.table(table)
        expect_not_paused(project.lake, wanted.name)
        expect_known_lake(project.instance, wanted, project.lake)
        free_from_killed_runs(project)
        none = "every partition is up to date with its source."
        if plan is not None:
            keys = _planned(project, wanted, plan)
        elif outdated:
            keys, none = _outdated(project, wanted), "this code has validated every other partition."
        else:
            keys = chosen(wanted, partitions) if partitions is not None else pending(project, wanted)
        if not keys:
            screen.say(f"{wanted.name}: {none}")
            return
        if rewrite_compacted:
            command, replaced = "incload load --rewrite-compacted", lambda: _replaced(project, wanted, keys)
            confirm(command, wanted.name, "the table's name", replaced, yes=yes)
        loads = run_loads(project, wanted, keys, Request(rewrite_compacted=rewrite_compacted), yes=yes)
    _report(loads, wanted, len(keys))


def _planned(project: Project, table: Table, place: Path) -> list[str]:
    """The partitions that the plan in a file would change, oldest first.

    Raises:
        IncrementalLoadError: The plan is of another table, is outdated, or contains a load that would stop.
    """
    try:
        text = place.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise IncrementalLoadError(
            f"{place} cannot be read: {type(error).__name__}",
            rule="a plan is a file written by incload plan --out",
            remedy=f"incload plan {table.name} --partitions … --out {place}",
        ) from None
    plan = Plan.of_json(text, str(place))
    if plan.table != table.name:
        raise IncrementalLoadError(
            f"{place} is a plan of {plan.table}, not of {table.name}",
            rule="a plan is of the loads of one table",
            remedy=f"incload load {plan.table} --plan {place}",
        )
    stops = [window.partition for window in plan.windows if window.outcome == STOPS]
    if stops:
        raise IncrementalLoadError(
            f"{table.name}: by the plan in {place} the load of {', '.join(stops)} would stop",
            rule="a load by plan does what the plan says, and nothing was loaded",
            remedy="correct the cause, which the plan names, and plan again; or plan the other partitions",
        )
    with project.spark(table.name) as spark:
        check_plan(spark, table, project.lake, plan)
    return [window.partition for window in plan.windows if window.outcome == CHANGES]


def _outdated(project: Project, table: Table) -> list[str]:
    """The partitions that other code has validated; names those that cannot be loaded again."""
    keys, left = outdated_windows(project.instance, table, project.lake)
    if left:
        gone = f"{several(len(left), 'partition')} not loaded again (held, compacted, or gone from the source)"
        screen.say(f"{table.name}: {gone}: {some(left)}")
    return keys


def _replaced(project: Project, table: Table, keys: Sequence[str]) -> list[str]:
    """The changes that a load of compacted partitions would remove for good, in a line; nothing if none is."""
    records = ChangeLog(table, project.lake).records()
    old = [key for key in keys if key in records and records[key].compacted_at is not None]
    count = sum(records[key].rows_read - records[key].rejected - records[key].removed for key in old)
    rows = f"their {several(count, 'change')} in the log will be gone where the source holds others now"
    return [f"{table.name}: {several(len(old), 'compacted partition')} ({some(old)}): {rows}"] if old else []


def _report(loads: Loads, table: Table, number: int) -> None:
    """Prints the sums of several loads, and ends the command with exit code 1 if one failed."""
    if number > 1:
        screen.print_grid(summary(loads.outcomes))
    for line in complaints(loads.outcomes):
        screen.say(line)
    if loads.failed:
        partitions = several(number, "partition")
        not_loaded = sum(not outcome.counts for outcome in loads.failed)
        after = len(loads.failed) - not_loaded
        said = [f"{not_loaded} of {partitions} not loaded"] if not_loaded else []
        said += [f"{after} of {partitions} loaded by runs that failed afterwards"] if after else []
        screen.complain(f"{table.name}: {', '.join(said)}")
        raise typer.Exit(1)
