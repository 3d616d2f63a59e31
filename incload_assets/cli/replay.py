"""``incload replay``: rejected rows are judged again."""

from typing import Annotated

import typer


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
    from incload_assets.cli.loads import Loads
    from incload_assets.cli.partition_keys import chosen
    from incload_assets.cli.project import open_project
    from incload_assets.cli.runs import free_from_killed_runs
    from incload_assets.declaration.window import known_windows
    from incload_assets.load.replay import NO_REASON, REPLAY_TAG, refuse_unreplayable
    from resources.lake import Lake
    from resources.settings import Settings

    verbose: bool = ctx.obj
    with open_project() as project:
        wanted = project.table(table)
        refuse_unreplayable(wanted)
        free_from_killed_runs(project, screen.say)
        records = ChangeLog(wanted, Lake.of(Settings())).controls()
        among = records if partitions is None else chosen(wanted, partitions)
        dirty = [key for key in among if key in records and records[key].rejected]
        keys = [window.key for window in known_windows(wanted.partitions_def, dirty)]
        if not keys:
            screen.say(f"{wanted.name}: no rejected rows.")
            return
        before = sum(records[key].rejected for key in keys)
        with screen.apart(verbose=verbose) as console, screen.progress_bar(console) as progress:
            loads = Loads(project, console, progress, len(keys), verbose=verbose)
            loads.tags = {REPLAY_TAG: because or NO_REASON}
            loads.run(wanted, keys)
        left = ChangeLog(wanted, Lake.of(Settings())).controls(only=keys)
        after = sum(record.rejected for record in left.values())
        screen.say(f"{wanted.name}: judged {before} rejected rows again; {before - after} pass, {after} stay rejected.")
        if loads.failed:
            screen.complain(f"{wanted.name}: {len(loads.failed)} of {len(keys)} partitions not replayed")
            raise typer.Exit(1)
