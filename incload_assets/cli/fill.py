"""``incload fill``: columns that are declared now get the values that were rescued before."""

from typing import Annotated

import typer


def fill(
    ctx: typer.Context,
    table: Annotated[str, typer.Argument(help="Name of the table, for example `orders`.")],
    partitions: Annotated[
        str | None,
        typer.Option("--partitions", "-p", help="Partition keys and ranges; default: all with rescued values."),
    ] = None,
    because: Annotated[str, typer.Option("--because", help="Why; kept in the audit.")] = "",
) -> None:
    """Fill columns that the contract declares now from the fields that the log rescued before.

    The source is not read, so this works also after it has lost the data. The rows become what a load of the same
    records would make of them; values that do not fit go to quarantine. Partitions whose rows never had the field are
    counted, and left as they are.

    - **Writes:** the table and its log in the lake, and the audit. The source is not read.
    - **Spark:** started if it is not up.
    - **Dagster's instance:** needed; fills are runs there, and their partitions stay green in the UI.

    Example: `incload fill orders`
    """
    from incload_assets.change_log.log import ChangeLog
    from incload_assets.cli import screen
    from incload_assets.cli.loads import run_loads
    from incload_assets.cli.partition_keys import chosen
    from incload_assets.cli.project import open_project
    from incload_assets.load.fill import refuse_unfillable, windows_to_fill
    from incload_assets.platform.lake import Lake
    from incload_assets.platform.settings import Settings
    from incload_assets.platform.wording import several
    from incload_assets.progress.request import Request

    with open_project() as project:
        wanted, lake = project.table(table), Lake.of(Settings())
        refuse_unfillable(wanted)
        found, records = windows_to_fill(wanted, lake), ChangeLog(wanted, lake).controls()
        among = [*records] if partitions is None else chosen(wanted, partitions)
        keys = [key for key in found if key in among]
        names = ", ".join(sorted({name for key in keys for name in found[key]}))
        others = len([key for key in among if key in records and key not in found])
        if not keys:
            screen.say(f"{wanted.name}: no rescued field that a column lacks.")
            return
        have = "has" if len(keys) == 1 else "have"
        rest = f"{others} have none to fill" if others != 1 else "1 has none to fill"
        screen.say(f"{wanted.name}: {several(len(keys), 'partition')} {have} rescued values of {names}; {rest}")
        if run_loads(project, wanted, keys, Request(action="fill", because=because), verbose=bool(ctx.obj)):
            raise typer.Exit(1)
