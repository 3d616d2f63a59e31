"""``incload metrics`` and ``incload monitoring``: metrics for Prometheus, and the configuration of what uses them."""

import signal
import sys
import threading
from pathlib import Path
from typing import Annotated

import typer

from incload_assets.cli.support import screen
from incload_assets.cli.support.dev_steps import require_free
from incload_assets.cli.support.project import open_project
from incload_assets.monitoring.dashboard.page_server import HERE, RUNBOOKS
from incload_assets.monitoring.panels import DASHBOARDS
from incload_assets.monitoring.prometheus.alertmanager import Channels, alertmanager
from incload_assets.monitoring.prometheus.exporter import Exporter, served
from incload_assets.monitoring.prometheus.rendered import as_yaml, write
from incload_assets.monitoring.prometheus.rules import prometheus, rules
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.failures import masked

PORT = 9464
monitoring = typer.Typer(no_args_is_help=True, help="Alert rules, routes and dashboards for other programs.")


def metrics(
    host: Annotated[str, typer.Option(help="Address to listen at; 0.0.0.0 for all.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen at.", min=1, max=65535)] = PORT,
    once: Annotated[bool, typer.Option("--once", help="Print the metrics and end.")] = False,
) -> None:
    """Serve the metrics of all tables to Prometheus, until it is interrupted.

    Each scrape of `http://HOST:PORT/metrics` gathers them again from the lake and Dagster, without reading a source. If
    these do not answer, `incload_up` is 0 and the series of tables are left out; it goes on serving. A table
    that cannot be read has `incload_readable` 0, and all its other series; `--once` then names it, and the exit code is
    1. Restart it after a deployment: it knows the tables that were declared when it started.

    - **Writes:** finished loads to the lake's table `_loads`, as the sensor `collect_loads` does.
    - **Spark:** not started.
    - **Dagster's instance:** needed, to read runs, sensors and check results.

    Example: `incload metrics --port 9464`
    """

    def report(error: Exception | None) -> None:
        if error is None:
            screen.say("Metrics are gathered again.")
        else:
            screen.complain(f"metrics could not be gathered: {type(error).__name__}: {masked(str(error))}")

    if not once:
        require_free(host, port, "metrics")
    with open_project() as project:
        exporter = Exporter(project.instance, project.tables.values(), project.lake, report)
        if once:
            sys.stdout.write(exporter.text())
            screen.complain_of(exporter.unreadable)
            return
        ended = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: ended.set())
        with served(exporter, host, port):
            screen.say(f"Metrics: http://{host}:{port}/metrics (Ctrl-C ends)")
            ended.wait()


@monitoring.callback()
def _several() -> None:
    """Alert rules, routes and dashboards for other programs."""


@monitoring.command()
def render(
    folder: Annotated[Path, typer.Argument(help="Folder for the files.")],
    target: Annotated[str, typer.Option(help="Host and port of `incload metrics`.")] = "127.0.0.1:9464",
    runbooks: Annotated[
        str | None,
        typer.Option(help="Address of the page of runbooks; default: that of `incload dashboard`."),
    ] = None,
    slack_file: Annotated[
        str, typer.Option(help="File with the address of a Slack-compatible webhook, as Alertmanager finds it.")
    ] = "/etc/alertmanager/slack_api_url",
    page_channel: Annotated[str, typer.Option(help="Channel for pages.")] = "#incload-page",
    ticket_channel: Annotated[str, typer.Option(help="Channel for tickets without an owner.")] = "#incload-ticket",
    smarthost: Annotated[str, typer.Option(help="Host and port of the mail server.")] = "localhost:25",
    email_from: Annotated[str, typer.Option(help="Sender of e-mail.")] = "incload@localhost",
    dead_man_url: Annotated[
        str | None, typer.Option(help="What the dead man's switch calls; without a secret.")
    ] = None,
    dashboards: Annotated[bool, typer.Option(help="Write Grafana's dashboards, too.")] = True,
) -> None:
    """Write alert rules, routes and dashboards, made from the declarations of the tables.

    `rules.yaml` and `prometheus.yaml` are for Prometheus, `alertmanager.yaml` is for Alertmanager, and `dashboards/`
    for Grafana. A file is replaced only if it changes. No secret is written: Alertmanager reads it from a file.

    - **Writes:** these files; other files of the folder are left alone.
    - **Spark:** not started.
    - **Dagster's instance:** not used.

    Example: `incload monitoring render /etc/incload --runbooks https://wiki.example.org/runbooks`
    """
    here = Path.cwd()
    channels = Channels(
        slack_api_url_file=slack_file,
        page=page_channel,
        ticket=ticket_channel,
        smarthost=smarthost,
        email_from=email_from,
        dead_man_url=dead_man_url,
    )
    boards = _dashboards() if dashboards else {}
    with open_project() as project:
        tables, dashboard_url = project.named(None), project.settings.dashboard_url
    contents = {
        "rules.yaml": rules(tables, runbooks or f"{(dashboard_url or HERE).rstrip('/')}{RUNBOOKS}"),
        "alertmanager.yaml": alertmanager(tables, channels),
        "prometheus.yaml": prometheus(target),
    }
    files = {name: as_yaml(content) for name, content in contents.items()} | boards
    changed = write(here / folder, files)
    for name in files:
        screen.say(f"{folder / name}: {'written' if name in changed else 'unchanged'}")


def _dashboards() -> dict[str, str]:
    """The dashboards as JSON by path."""
    try:
        from incload_assets.monitoring.prometheus.grafana import as_grafana  # here: its package is an extra
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("grafana_foundation_sdk"):
            raise
        raise IncrementalLoadError(
            "Grafana's dashboards cannot be made",
            rule="they need the package grafana-foundation-sdk",
            remedy="install the extra `observability`, or write --no-dashboards",
        ) from None
    return {f"dashboards/{board.name}.json": as_grafana(board) for board in DASHBOARDS}
