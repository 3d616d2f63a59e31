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
    from incload_assets.change_log.decisions import decided_at
    from incload_assets.change_log.log import ChangeLog
    from incload_assets.cli import screen
    from incload_assets.cli.partition_keys import chosen
    from incload_assets.cli.project import open_project
    from incload_assets.cli.replays import replay_partitions
    from incload_assets.load.replay import refuse_unreplayable
    from incload_assets.platform.lake import Lake
    from incload_assets.platform.settings import Settings

    verbose: bool = ctx.obj
    with open_project() as project:
        wanted, lake = project.table(table), Lake.of(Settings())
        refuse_unreplayable(wanted)
        records, decided = ChangeLog(wanted, lake).controls(), decided_at(lake, wanted)
        among = records if partitions is None else chosen(wanted, partitions)
        keys = [key for key in among if key in records and (records[key].rejected or key in decided)]
        if not keys:
            screen.say(f"{wanted.name}: no rejected rows.")
            return
        replay_partitions(project, wanted, keys, because, verbose=verbose)
