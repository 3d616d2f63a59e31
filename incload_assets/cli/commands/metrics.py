"""``incload metrics``: the metrics of all tables, for Prometheus."""

from typing import Annotated

import typer

PORT = 9464


def metrics(
    host: Annotated[str, typer.Option(help="Address to listen at; 0.0.0.0 for all.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen at.", min=1, max=65535)] = PORT,
    once: Annotated[bool, typer.Option("--once", help="Print the metrics and end.")] = False,
) -> None:
    """Serve the metrics of all tables to Prometheus, until it is interrupted.

    Each scrape of `http://HOST:PORT/metrics` gathers them anew from the lake and Dagster, without reading a source. If
    these do not answer, `incload_up` is 0 and the series of tables are left out; it goes on serving. A table
    that cannot be read has `incload_readable` 0, and all its other series; `--once` then names it, and the exit code is
    1. Restart it after a deployment: it knows the tables that were declared when it started.

    - **Writes:** finished loads to the lake's table `_loads`, as the sensor `collect_loads` does.
    - **Spark:** not started.
    - **Dagster's instance:** needed, to read runs, sensors and check results.

    Example: `incload metrics --port 9464`
    """
    import signal
    import sys
    import threading

    from incload_assets.cli.support import screen
    from incload_assets.cli.support.project import open_project
    from incload_assets.monitoring.prometheus.exporter import Exporter, served
    from resources.errors import IncrementalLoadError
    from resources.failures import masked
    from resources.lake import Lake
    from resources.settings import Settings

    def report(error: Exception | None) -> None:
        if error is None:
            screen.say("Metrics are gathered again.")
        else:
            screen.complain(f"metrics could not be gathered: {type(error).__name__}: {masked(str(error))}")

    with open_project() as project:
        exporter = Exporter(project.instance, project.tables.values(), Lake.of(Settings()), report)
        if once:
            sys.stdout.write(exporter.text())
            screen.complain_of(exporter.unreadable)
            return
        ended = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: ended.set())
        try:
            with served(exporter, host, port):
                screen.say(f"Metrics: http://{host}:{port}/metrics (Ctrl-C ends)")
                ended.wait()
        except OSError as error:
            raise IncrementalLoadError(
                f"port {port} of {host} is not available: {error.strerror or error}",
                rule="the metrics need a port of their own",
                remedy=f"end the program that uses it, or choose another: incload metrics --port {port + 1}",
            ) from None
