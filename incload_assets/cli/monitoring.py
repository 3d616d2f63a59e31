"""``incload monitoring``: the configuration of Prometheus, Alertmanager and Grafana."""

import typer

monitoring = typer.Typer(no_args_is_help=True, help="Alert rules, routes and dashboards for other programs.")
