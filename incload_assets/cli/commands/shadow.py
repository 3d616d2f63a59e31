"""``incload shadow``: a change of a table's code, tried beside the table."""

from typing import Annotated

import typer

from resources.wording import several


def shadow(
    ctx: typer.Context,
    table: Annotated[str, typer.Argument(help="Name of the table, for example `orders`.")],
    drop: Annotated[bool, typer.Option("--drop", help="Only remove the shadow.")] = False,
    promote: Annotated[
        bool,
        typer.Option(
            "--promote", help="Then load the partitions that other code validated, compare again, remove the shadow."
        ),
    ] = False,
) -> None:
    """Fold the log of a table by the code of this folder into a table beside it, and compare the two.

    Windows that other code validated are read from the source again, if it still holds the same; the output says for
    which it does not. The exit code is 0 if table and shadow are equal, and 2 if they differ. With `--promote` it is
    that of the second comparison, and a shadow that differs then stays.

    - **Writes:** the folder `_shadow` in the lake; with `--promote` the table and its log, otherwise neither.
    - **Spark:** started if it is not up.
    - **Dagster's instance:** used for `--promote` only; its loads are runs there.

    Example: `incload shadow orders`
    """
    if drop and promote:
        raise typer.BadParameter("give either --drop or --promote")
    from incload_assets.change_log.context import LoadContext
    from incload_assets.cli.support import screen
    from incload_assets.cli.support.loads import run_loads
    from incload_assets.cli.support.project import open_project
    from incload_assets.recovery.shadow import compare_again
    from incload_assets.recovery.shadow import drop as dropped
    from incload_assets.recovery.shadow import shadow as made
    from resources.lake import Lake
    from resources.settings import Settings
    from resources.spark.resource import SparkResource

    verbose: bool = ctx.obj
    with open_project() as project:
        wanted = project.table(table)
        with screen.apart(verbose=verbose) as console, SparkResource().session(wanted.name) as spark:
            load = LoadContext(spark, wanted, Lake.of(Settings()).followed())
            if drop:
                there = dropped(load)
                console.print(f"{wanted.name}: {'removed the shadow' if there else 'there is no shadow'}", markup=False)
                return
            with console.status(f"folding the log of {wanted.name}"):
                found = made(load)
            for line in found.lines(wanted.name):
                console.print(line, markup=False)
        equal = found.comparison.equal
        if promote:
            keys = list(found.judged)
            if run_loads(project, wanted, keys, verbose=verbose):
                raise typer.Exit(1)
            with screen.apart(verbose=verbose), SparkResource().session(wanted.name) as spark:
                load = LoadContext(spark, wanted, Lake.of(Settings()).followed())
                if equal := compare_again(load, found).equal:
                    dropped(load)
            told = "table and shadow are equal" if equal else "table and shadow still differ, see incload plan"
            screen.say(f"{wanted.name}: loaded {len(keys)} of {several(len(keys), 'partition')} by this code; {told}")
    if not equal:
        raise typer.Exit(2)
