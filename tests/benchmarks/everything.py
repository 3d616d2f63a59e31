"""What goes through all tables of a project, in a process of its own: ``python -m tests.benchmarks.everything WHAT``.

To be run in the project's folder. Prints JSON: seconds and CPU seconds of what was asked for, the most memory that the
process had, in bytes, and what else there is to count.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg

from tests.benchmarks.child import peak_of
from tests.support.load_history import look_now

Told = dict[str, float]


def location() -> Told:
    """The code location, and the snapshot of it that Dagster's processes pass to each other."""
    from dagster._core.remote_representation.external_data import RepositorySnap
    from dagster._serdes import serialize_value

    from incload_assets.cli.support.folder import enter_project
    from incload_assets.cli.support.project import _definitions

    def load() -> dg.RepositoryDefinition:
        return _definitions(enter_project()).get_repository_def()

    loaded, repository = _timed(load)
    made, text = _timed(lambda: serialize_value(RepositorySnap.from_def(repository)))
    jobs = len(repository.get_all_jobs())
    return {**loaded, "jobs": jobs, "snapshot": len(text.encode()), "snapshot CPU": made["cpu"]}


def metrics() -> Told:
    """A scrape by an exporter that has been scraped before."""
    from incload_assets.cli.support.project import open_project
    from incload_assets.monitoring.prometheus.exporter import Exporter

    with open_project() as project:
        exporter = Exporter(project.instance, project.tables.values(), project.lake)
        first, _ = _timed(exporter.text)
        again, text = _timed(exporter.text)
    assert "incload_up 1.0" in text
    return {**again, "first": first["seconds"]}


def dashboard() -> Told:
    """The first page of the dashboards."""
    from incload_assets.cli.support.project import open_project
    from incload_assets.history.loads_table import LoadsTable
    from incload_assets.monitoring.dashboard.drawing import Links
    from incload_assets.monitoring.dashboard.page_server import PageServer, looks

    with open_project() as project:
        found = looks(project.instance, project.tables, project.lake)
        with PageServer(("127.0.0.1", 0), found, LoadsTable(project.lake), Links()) as server:
            page, (status, _) = _timed(lambda: server.page("/"))
    assert status == 200
    return page


def status() -> Told:
    """The overview of all tables while the sensor looks at them."""
    names = [path.stem for path in Path.cwd().glob("*/tables/t*.py")]
    with dg.DagsterInstance.get() as instance:
        look_now(instance, names, Path.cwd())
    return command("status")


def command(name: str) -> Told:
    """A command of ``incload``, which finds nothing wrong."""
    from incload_assets.cli.program import program

    try:
        program([name])
    except SystemExit as ended:
        assert not ended.code
    return {}


def _timed(do: Callable[[], Any]) -> tuple[Told, Any]:
    began, used = time.perf_counter(), time.process_time()
    done = do()
    return {"seconds": time.perf_counter() - began, "cpu": time.process_time() - used}, done


WHAT: dict[str, Callable[[], Told]] = {
    "location": location,
    "metrics": metrics,
    "dashboard": dashboard,
    "status": status,
    "doctor": lambda: command("doctor"),
}

if __name__ == "__main__":
    told = WHAT[sys.argv[1]]()
    print(json.dumps(told | {"memory": peak_of(os.getpid())}))
