"""``incload adopt``: a Delta table that no load has made becomes a table of the loader."""

from typing import Annotated

import typer


def adopt(
    ctx: typer.Context,
    table: Annotated[str, typer.Argument(help="Name of the table, for example `orders`.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only examine the table.")] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Begin anew if the table has changed since an interrupted adoption.")
    ] = False,
    because: Annotated[str, typer.Option(help="The reason, for the audit.")] = "",
) -> None:
    """Adopt a Delta table that no load has made: its rows become the oldest changes of its log.

    The rows stay where they are. Keys, columns, layout and features of the table are examined first, and recent other
    writers are named. Loads of the table are refused until its adoption is complete. An adoption that was interrupted
    goes on when it is repeated.

    - **Writes:** the table's log in the lake, and properties of the table; with `--dry-run` nothing.
    - **Spark:** started if it is not up.
    - **Dagster's instance:** not used.

    Example: `incload adopt orders --dry-run`
    """
    from incload_assets.change_log.context import LoadContext
    from incload_assets.cli.support import screen
    from incload_assets.cli.support.project import open_project
    from incload_assets.recovery.adopt import adopt as adopted
    from resources.lake import Lake
    from resources.settings import Settings
    from resources.spark.resource import SparkResource

    verbose: bool = ctx.obj
    with open_project() as project:
        wanted = project.table(table)
        with screen.apart(verbose=verbose) as console, screen.progress_bar(console) as progress:
            bar = progress.add_task(wanted.name, total=None)
            with SparkResource().session(wanted.name) as spark:
                done = adopted(
                    LoadContext(spark, wanted, Lake.of(Settings()).followed()),
                    dry_run=dry_run,
                    again=again,
                    because=because,
                    done=lambda done, total: progress.update(bar, completed=done, total=total),
                )
            progress.remove_task(bar)
            console.print(done.summary(wanted.name), markup=False)
            for note in done.notes:
                console.print(f"  {note}", markup=False)
