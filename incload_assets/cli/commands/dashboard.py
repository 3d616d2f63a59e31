"""``incload dashboard``: the dashboards as a page on this machine, without Grafana."""

import webbrowser
from contextlib import suppress
from typing import Annotated

import typer

from incload_assets.cli.support import screen
from incload_assets.cli.support.dev_steps import require_free
from incload_assets.cli.support.project import open_project
from incload_assets.history.loads_table import LoadsTable
from incload_assets.monitoring.dashboard.drawing import Links
from incload_assets.monitoring.dashboard.page_server import PageServer, looks
from incload_assets.platform.errors import IncrementalLoadError


def dashboard(
    port: Annotated[int, typer.Option("--port", "-p", min=1, max=65535, help="Port of the page.")] = 3070,
    host: Annotated[str, typer.Option("--host", help="Address that the page listens on.")] = "127.0.0.1",
    dagster_url: Annotated[
        str, typer.Option("--dagster-url", help="Address of the Dagster UI, for links; empty: no links.")
    ] = "http://127.0.0.1:3000",
    open_: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in the browser.")] = False,
) -> None:
    """Serve the three dashboards as a page: what is late, what fails, where time goes.

    The page needs neither Grafana nor Prometheus nor the internet. It also has a page for each table, with a form that
    traces a row, and for each run, and serves the documentation below `/docs/`. Nobody has to log in: with another
    `--host` than this machine's own, everybody who reaches the port can read it. Ctrl-C ends it.

    - **Writes:** loads that ended meanwhile, into the lake's table `_loads`.
    - **Spark:** not started.
    - **Dagster's instance:** needed, to read runs, checks and sensors.

    Example: `incload dashboard --port 3071`
    """
    links = Links(_address(dagster_url))
    require_free(host, port, "dashboard")
    with open_project() as project:
        found = looks(project.instance, project.tables, project.lake)
        with PageServer((host, port), found, LoadsTable(project.lake), links) as server:
            address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
            screen.say(f"The dashboards are at {address}. Ctrl-C ends them.")
            if open_:
                webbrowser.open(address)
            with suppress(KeyboardInterrupt):
                server.begin()
                server.serve_forever()


def _address(url: str) -> str:
    """The address of a UI without a trailing slash; an error if it is no address of a web page."""
    if url and not url.startswith(("http://", "https://")):
        raise IncrementalLoadError(
            f"--dagster-url is {url!r}",
            rule="it is an address that begins with http:// or https://, or empty",
            remedy="write --dagster-url http://127.0.0.1:3000",
        )
    return url.rstrip("/")
