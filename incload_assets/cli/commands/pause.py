"""``incload pause`` and ``incload resume``: the loads of a table, stopped for a time."""

from typing import Annotated

import typer


def pause(
    table: Annotated[str, typer.Argument(help="Name of the table, for example `orders`.")],
    until: Annotated[
        str,
        typer.Option("--until", help="A time such as `2026-01-06T12:00`, in UTC, or a duration such as `2h`."),
    ],
    because: Annotated[str, typer.Option("--because", help="Why; everybody who looks at the table sees it.")],
) -> None:
    """Stop the loads of a table for a time. Detection and checks go on.

    The table's sensor requests nothing, and loads by hand, backfills and queued runs are refused; a load that runs
    already ends as usual. `incload status`, checks, metrics and dashboards say who paused the table, why and until
    when. The pause ends by itself, or with `incload resume`.

    - **Writes:** an entry in the audit.
    - **Spark:** not started.
    - **Dagster's instance:** not used.

    Example: `incload pause orders --until 2h --because migration`
    """
    from rich.markup import escape

    from incload_assets.cli.support import screen
    from incload_assets.cli.support.project import open_project
    from incload_assets.declaration.window import now
    from incload_assets.progress.pause import parse_until
    from incload_assets.progress.pause import pause as paused
    from resources.lake import Lake
    from resources.settings import Settings

    with open_project() as project:
        wanted = project.table(table)
        made = paused(Lake.of(Settings()), wanted.name, parse_until(until, now()), because)
    screen.say(escape(f"{wanted.name} is {made}"))


def resume(
    table: Annotated[str, typer.Argument(help="Name of the table, for example `orders`.")],
    because: Annotated[str, typer.Option("--because", help="Why.")] = "",
) -> None:
    """End the pause of a table: its sensor requests what has arrived meanwhile.

    - **Writes:** an entry in the audit.
    - **Spark:** not started.
    - **Dagster's instance:** not used.

    Example: `incload resume orders`
    """
    from rich.markup import escape

    from incload_assets.cli.support import screen
    from incload_assets.cli.support.project import open_project
    from incload_assets.progress.pause import resume as resumed
    from resources.lake import Lake
    from resources.settings import Settings

    with open_project() as project:
        wanted = project.table(table)
        ended = resumed(Lake.of(Settings()), wanted.name, because)
    screen.say(escape(f"{wanted.name} is loaded again; it was {ended}"))
