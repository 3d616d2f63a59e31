"""``incload dev``: prepares Java, Spark and the sample shop, starts Dagster, and reports its loads in short lines."""

import sys
import time
from typing import Annotated

import typer

from incload_assets.cli.support import screen
from incload_assets.cli.support.dagster_process import DagsterProcess
from incload_assets.cli.support.dev_steps import attend, in_background, prepare_spark, require_free
from incload_assets.cli.support.folder import enter_project
from incload_assets.platform.settings import Settings


def dev(
    ctx: typer.Context,
    port: Annotated[int, typer.Option("--port", "-p", min=1, max=65535, help="Port of the UI.")] = 3000,
    host: Annotated[str, typer.Option("--host", help="Address the UI listens on.")] = "127.0.0.1",
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show all that Dagster logs.")] = False,
) -> None:
    """Start the Dagster UI and daemon, Spark in the background, and the sample shop.

    Java, the port and access to Maven are checked first; where there is no Java, one is offered. Loads and failures
    are reported in short lines; Dagster's own log is in a file. Ctrl-C ends it.

    - **Writes:** files, tables and logs of the sample shop below `INCLOAD_HOME` (`.incload`), and once Spark's jars in
      `~/.cache`. Sensors then load your tables, too, in the lake of `INCLOAD_ENVIRONMENT`.
    - **Spark:** the local server is started; with `INCLOAD_SPARK=in-process` or an `sc://…` address none is.
    - **Dagster's instance:** the one in `DAGSTER_HOME` (`.dagster_home`); loads are recorded there.

    Example: `incload dev --port 3001`
    """
    began = time.monotonic()
    project = enter_project()
    settings = Settings()
    require_free(host, port)
    screen.say_environment(settings.environment, settings.lake_root)
    with screen.under_way():
        spark = prepare_spark(settings) if settings.spark_mode != "remote" else None
        if settings.warm_runs and sys.platform == "linux":
            in_background("incload_assets.runs")
    log = None if verbose or ctx.obj else settings.environment_root / "dev" / "dagster.log"
    if log:
        screen.say(f"Dagster is starting; its log is {log}")
    # the shop trades while Dagster starts, because each takes as long as a first load
    attend(DagsterProcess(project, host, port, log), spark, began, settings)
