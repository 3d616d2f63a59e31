"""``incload spark``: the Spark server that the runs on this machine share."""

from typing import Annotated

import typer

from incload_assets.cli.support import screen
from incload_assets.cli.support.folder import enter_project
from incload_assets.platform.local_servers.locks import is_held
from incload_assets.platform.settings import Settings
from incload_assets.platform.spark import server as connect_server
from incload_assets.platform.spark.server_files import ServerFiles

spark = typer.Typer(no_args_is_help=True, help="The Spark server that the loads on this machine share.")


@spark.command()
def start(
    warm: Annotated[
        bool, typer.Option("--warm-up", help="Load a small table of no use, so that the next is quick.")
    ] = False,
) -> None:
    """Start the server, if it is not up; loads start it themselves when they need it.

    - **Writes:** the server's files below `INCLOAD_HOME`, and once Spark's jars in `~/.cache`.
    - **Spark:** started, unless `INCLOAD_SPARK` names another one.
    - **Dagster's instance:** not used.

    Example: `incload spark start --warm-up`
    """
    enter_project()
    settings = Settings()
    if settings.spark_mode != "local":
        screen.say("INCLOAD_SPARK selects another Spark; no local server is used.")
        return
    connect_server.find_or_start(settings)
    screen.say("The Spark server is up.")
    if warm:
        from incload_assets.runs.warm_up import warm_up  # here: it imports all that loads need, which takes seconds

        warm_up(settings)
        screen.say("The Spark server is warm.")


@spark.command()
def stop() -> None:
    """End the server, even if a load uses it; that load is tried again with a new one.

    - **Writes:** nothing; tables stay as they are.
    - **Spark:** ended.
    - **Dagster's instance:** not used.

    Example: `incload spark stop`
    """
    enter_project()
    ended = connect_server.stop(Settings())
    screen.say("The Spark server has ended." if ended else "There was no Spark server.")


@spark.command()
def status() -> None:
    """Show whether the server is up, how many connections it has, and where its log is.

    - **Writes:** nothing.
    - **Spark:** not started.
    - **Dagster's instance:** not used.

    Example: `incload spark status`
    """
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
