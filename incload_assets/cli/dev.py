"""``incload dev``: everything a first look needs, then ``dagster dev``."""

import os
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from resources.settings import Settings

FIRST_DAYS = 2
KNOWN_WARNINGS = (
    "Function `dev_command` is superseded",  # its successor `dg dev` wants another layout of the project
    "Parameter `backfill_policy` of function `asset` is currently in beta",
)


def dev(
    port: Annotated[int, typer.Option("--port", "-p", min=1, max=65535, help="Port of the UI.")] = 3000,
    host: Annotated[str, typer.Option("--host", help="Address the UI listens on.")] = "127.0.0.1",
) -> None:
    """Start the Dagster UI and daemon, with Spark warm and the sample shop trading.

    Java, the port and access to Maven are checked first.
    """
    from incload_assets.cli import screen
    from incload_assets.cli.project import enter_project
    from resources.settings import Settings

    root = enter_project()
    settings = Settings()
    require_free(host, port)
    if settings.spark_mode != "remote":
        _prepare_spark(settings)
    if settings.samples:
        open_shop(settings)
    if settings.warm_runs and sys.platform == "linux":
        _in_background("incload_assets.runs")
    screen.say(f"Starting Dagster on http://{host}:{port}; it is up in about 15 seconds. Ctrl-C ends it.")
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell starts what is in the background deaf to Ctrl-C
    sys.stdout.flush()
    os.environ.setdefault("PYTHONWARNINGS", ",".join(f"ignore:{start}" for start in KNOWN_WARNINGS))
    os.execv(
        sys.executable,
        [sys.executable, "-m", "dagster", "dev", "-w", str(root / "workspace.yaml"), "-h", host, "-p", str(port)],
    )


def require_free(host: str, port: int) -> None:
    """Check that nobody listens on a port.

    Raises:
        IncrementalLoadError: Somebody does, or the address is not this machine's.
    """
    from incload_assets.loading.errors import IncrementalLoadError

    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port that was just given up is free
        try:
            probe.bind((host, port))
        except OSError as error:
            raise IncrementalLoadError(
                f"port {port} of {host} cannot be had: {error.strerror or error}",
                rule="the UI needs a port of its own",
                remedy=f"end the program that uses it, or choose another: incload dev --port {port + 1}",
            ) from None


def _prepare_spark(settings: "Settings") -> None:
    """Java and jars now, so that their absence is told here; the server meanwhile, so that the first load is quick."""
    from rich.console import Console

    from resources.jars import jar_paths
    from resources.java import java_home

    java = java_home()
    with Console().status("Looking for Spark's jars; fetching them from Maven, once, takes about half a minute"):
        jar_paths(settings, java)
    if settings.spark_mode == "local":
        _in_background("incload_assets.cli", "spark", "start")


def _in_background(*module: str) -> None:
    """Start what runs need, so that the first is quick; a run that does not find it says why."""
    subprocess.Popen(
        [sys.executable, "-m", *module],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def open_shop(settings: "Settings") -> None:
    """Let the sample shop trade for its first days, unless it has traded before."""
    from rich.markup import escape

    from incload_assets.cli import screen
    from incload_assets.shop import Shop
    from incload_assets.shop.calendar import midnight

    shop = Shop(settings)
    if shop.now == midnight(shop.opened):
        advance = shop.advance(days=FIRST_DAYS)
        screen.say(
            f"The sample shop opened: {len(advance.files)} files of {FIRST_DAYS} days in {settings.landing_root}"
            + (f", {advance.prices} prices in its database" if advance.prices else "")
        )
        if advance.database_failure:
            screen.say(f"[yellow]Its prices are missing, all else works:[/] {escape(advance.database_failure)}")
