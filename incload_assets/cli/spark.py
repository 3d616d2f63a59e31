"""``incload spark``: the Spark server that the runs on this machine share."""

from typing import Annotated

import typer

spark = typer.Typer(no_args_is_help=True, help="The Spark server that the loads on this machine share.")


@spark.command()
def start(
    warm: Annotated[
        bool, typer.Option("--warm-up", help="Load a small table of no use, so that the next is quick.")
    ] = False,
) -> None:
    """Start it, if it is not up; loads do so themselves when they need it."""
    from incload_assets.cli import screen
    from incload_assets.cli.project import enter_project
    from resources.settings import Settings
    from resources.spark.server import find_or_start

    enter_project()
    settings = Settings()
    if settings.spark_mode != "local":
        screen.say("INCLOAD_SPARK selects another Spark; no local server is used.")
        return
    find_or_start(settings)
    screen.say("The Spark server is up.")
    if warm:
        from incload_assets.runs.warm_up import warm_up  # imports all that loads need

        warm_up(settings)
        screen.say("The Spark server is warm.")


@spark.command()
def stop() -> None:
    """End it, whoever uses it; a load that does is tried again with a new one."""
    from incload_assets.cli import screen
    from incload_assets.cli.project import enter_project
    from resources.settings import Settings
    from resources.spark import server as connect_server

    enter_project()
    ended = connect_server.stop(Settings())
    screen.say("The Spark server has ended." if ended else "There was no Spark server.")


@spark.command()
def status() -> None:
    """Say whether it is up, and how many loads use it."""
    from incload_assets.cli import screen
    from incload_assets.cli.project import enter_project
    from resources.local_servers.locks import is_held
    from resources.settings import Settings
    from resources.spark.server_files import ServerFiles

    enter_project()
    settings = Settings()
    files = ServerFiles.of(settings.home_root)
    server = files.read() if is_held(files.lock) else None
    if server is None:
        screen.say("There is no Spark server; the first load starts one.")
        return
    screen.say(
        f"Up on port {server.port} (process {server.pid}), {server.connections()} connections; "
        f"it ends after {settings.spark_idle_minutes:g} minutes without any. Its log: {files.log}"
    )
