"""``incload silence``: planned work, during which nobody is told that tables are late or fail."""

from typing import Annotated

import typer


def silence(
    tables: Annotated[list[str] | None, typer.Argument(help="Names of tables; default: all.")] = None,
    until: Annotated[
        str, typer.Option("--until", help="A time such as `2026-01-06T12:00`, in UTC, or a duration such as `2h`.")
    ] = "",
    because: Annotated[str, typer.Option("--because", help="Why; `incload status` and the audit say it.")] = (
        "planned work"
    ),
    off: Annotated[bool, typer.Option("--off", help="End the silence.")] = False,
) -> None:
    """Send no messages and alerts for a time, for a deployment or other planned work. Loads and checks go on.

    Notifications are not sent, and Alertmanager with the rendered rules tells nobody: of the named tables, or, without
    names, of all tables, the daemon, Spark and the exporter. What is still wrong at the end is told then. A silence
    ends by itself, or with `--off`.

    - **Writes:** an entry in the audit for each table, or one for all.
    - **Spark:** not started.
    - **Dagster's instance:** not used.

    Example: `incload silence --until 1h --because "deployment of 2.4"`
    """
    from rich.markup import escape

    from incload_assets.cli.support import screen
    from incload_assets.cli.support.project import open_project
    from incload_assets.declaration.window import now
    from incload_assets.progress import silence as silences
    from incload_assets.progress.pause import parse_until
    from resources.lake import Lake
    from resources.settings import Settings

    if bool(until) == off:
        raise typer.BadParameter("write either --until, for example --until 1h, or --off")
    with open_project() as project:
        names = [project.table(name).name for name in tables or ()]
        lake = Lake.of(Settings())
        found = (
            silences.unsilence(lake, names)
            if off
            else silences.silence(lake, names, parse_until(until, now()), because)
        )
    for one in found:
        about = one.table or "every table"
        screen.say(escape(f"{about} is told about again; it was {one}" if off else f"{about} is {one}"))
