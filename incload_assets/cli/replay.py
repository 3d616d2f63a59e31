"""``incload replay``: rejected rows are judged again."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from incload_assets.cli.project import Project
    from incload_assets.declaration.table import Table


def replay(
    ctx: typer.Context,
    table: Annotated[str, typer.Argument(help="Name of the table, for example `orders`.")],
    partitions: Annotated[
        str | None,
        typer.Option("--partitions", "-p", help="Partition keys and ranges; default: all with rejected rows."),
    ] = None,
    because: Annotated[str, typer.Option("--because", help="Why, for the audit.")] = "",
) -> None:
    """Judge the rejected rows of a table again, by the present contract and function, without reading the source.

    The log keeps the whole record of each rejected row, so this works also after its file is gone. Rows that now pass
    become changes of their partitions, at their old places; the others stay rejected. After a change of the contract
    this happens by itself.

    - **Writes:** the table and its log in the lake, and the audit. The source is not read.
    - **Spark:** started if it is not up.
    - **Dagster's instance:** needed; replays are runs there, and their partitions stay green in the UI.

    Example: `incload replay orders --because "status 'returned' is allowed now"`
    """
    from incload_assets.change_log.log import ChangeLog
    from incload_assets.cli import screen
    from incload_assets.cli.partition_keys import chosen
    from incload_assets.cli.project import open_project
    from incload_assets.load.replay import refuse_unreplayable
    from incload_assets.progress.decisions import corrected_at
    from resources.lake import Lake
    from resources.settings import Settings

    verbose: bool = ctx.obj
    with open_project() as project:
        wanted, lake = project.table(table), Lake.of(Settings())
        refuse_unreplayable(wanted)
        records, corrected = ChangeLog(wanted, lake).controls(), corrected_at(lake, wanted)
        among = records if partitions is None else chosen(wanted, partitions)
        keys = [key for key in among if key in records and (records[key].rejected or key in corrected)]
        if not keys:
            screen.say(f"{wanted.name}: no rejected rows.")
            return
        replay_partitions(project, wanted, keys, because, verbose=verbose)


def replay_partitions(project: "Project", table: "Table", keys: Sequence[str], because: str, *, verbose: bool) -> None:
    """Replays partitions, oldest first, and tells how many rows pass; ends the command with 1 if a replay fails."""
    from incload_assets.change_log.log import ChangeLog
    from incload_assets.cli import screen
    from incload_assets.cli.loads import Loads
    from incload_assets.cli.runs import free_from_killed_runs
    from incload_assets.declaration.window import known_windows
    from incload_assets.load.replay import NO_REASON, REPLAY_TAG
    from resources.lake import Lake
    from resources.settings import Settings

    free_from_killed_runs(project, screen.say)
    ordered = [window.key for window in known_windows(table.partitions_def, list(keys))]

    def rejected() -> int:
        return sum(one.rejected for one in ChangeLog(table, Lake.of(Settings())).controls(only=ordered).values())

    before, tags = rejected(), {REPLAY_TAG: because or NO_REASON}
    with screen.apart(verbose=verbose) as console, screen.progress_bar(console) as progress:
        loads = Loads(project, console, progress, len(ordered), verbose=verbose, tags=tags)
        loads.run(table, ordered)
    after = rejected()
    judged = f"{table.name}: judged {before} rejected rows again; "
    screen.say(judged + (f"{before - after} pass, " if before >= after else "") + f"{after} stay rejected.")
    if loads.failed:
        screen.complain(f"{table.name}: {len(loads.failed)} of {len(ordered)} partitions not replayed")
        raise typer.Exit(1)
