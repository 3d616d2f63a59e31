"""``incload monitoring``: the configuration of Prometheus, Alertmanager and Grafana."""

from pathlib import Path
from typing import Annotated

import typer

monitoring = typer.Typer(no_args_is_help=True, help="Alert rules, routes and dashboards for other programs.")


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
    from incload_assets.cli import screen
    from incload_assets.cli.project import open_project
    from incload_assets.monitoring.dashboard.page_server import HERE, RUNBOOKS
    from incload_assets.monitoring.prometheus.alertmanager import Channels, alertmanager
    from incload_assets.monitoring.prometheus.rendered import as_yaml, write
    from incload_assets.monitoring.prometheus.rules import prometheus, rules
    from incload_assets.platform.settings import Settings

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
        tables = [project.tables[name] for name in sorted(project.tables)]
    contents = {
        "rules.yaml": rules(tables, runbooks or f"{(Settings().dashboard_url or HERE).rstrip('/')}{RUNBOOKS}"),
        "alertmanager.yaml": alertmanager(tables, channels),
        "prometheus.yaml": prometheus(target),
    }
    files = {name: as_yaml(content) for name, content in contents.items()} | boards
    changed = write(here / folder, files)
    for name in files:
        screen.say(f"{folder / name}: {'written' if name in changed else 'unchanged'}")


def _dashboards() -> dict[str, str]:
    """The dashboards as JSON by path."""
    from incload_assets.monitoring.panels import DASHBOARDS
    from incload_assets.platform.errors import IncrementalLoadError

    try:
        from incload_assets.monitoring.prometheus.grafana import as_grafana
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("grafana_foundation_sdk"):
            raise
        raise IncrementalLoadError(
            "Grafana's dashboards cannot be made",
            rule="they need the package grafana-foundation-sdk",
            remedy="install the extra `observability`, or write --no-dashboards",
        ) from None
    return {f"dashboards/{board.name}.json": as_grafana(board) for board in DASHBOARDS}
