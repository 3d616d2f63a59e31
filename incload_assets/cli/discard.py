"""``incload discard``: rejected rows that nobody will correct."""

from typing import Annotated

import typer


def discard(
    ctx: typer.Context,
    table: Annotated[str, typer.Argument(help="Name of the table, for example `orders`.")],
    because: Annotated[str, typer.Option("--because", help="Why, for the audit.")],
    partitions: Annotated[
        str | None,
        typer.Option("--partitions", "-p", help="Partition keys and ranges; default: all with rejected rows."),
    ] = None,
    reason: Annotated[str, typer.Option("--reason", help="Only rows with a reason that contains this.")] = "",
    undo: Annotated[
        int | None, typer.Option("--undo", help="Undo the discard that has this number in the audit.")
    ] = None,
) -> None:
    """Say that rejected rows need no correction: they stay in the log, and are no longer open.

    The decision holds after their partitions are loaded again, as long as the file has the same record. `--undo` takes
    a discard back. If a row is right as it is, correct the contract instead: its rows are then replayed.

    - **Writes:** the lake's table `_decisions`, and the audit. Table and log do not change.
    - **Spark:** started if it is not up.
    - **Dagster's instance:** not used.

    Example: `incload discard orders --reason "amount:" --because "test orders of the supplier"`
    """
    from incload_assets.cli import screen
    from incload_assets.cli.partition_keys import chosen
    from incload_assets.cli.project import open_project
    from incload_assets.monitoring.rows.discard import discard_where, take_back
    from resources.lake import Lake
    from resources.settings import Settings
    from resources.spark.resource import SparkResource

    verbose: bool = ctx.obj
    with open_project() as project:
        lake, wanted = Lake.of(Settings()), project.table(table)
        if undo is not None:
            count = take_back(wanted, lake, undo, because)
            screen.say(f"{wanted.name}: {count} rows are open again.")
            return
        only = None if partitions is None else chosen(wanted, partitions)
        with screen.apart(verbose=verbose), SparkResource().session(wanted.name) as spark:
            entry, count = discard_where(spark, wanted, lake, because, only=only, text=reason)
        if entry is None:
            screen.say(f"{wanted.name}: no open rejected row matches.")
            return
        screen.say(
            f"{wanted.name}: discarded {count} rows. To take it back: "
            f"incload discard {wanted.name} --undo {entry.number} --because WHY"
        )
