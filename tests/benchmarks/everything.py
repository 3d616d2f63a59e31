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
import psutil

from tests.benchmarks.child import peak_of
from tests.support.load_history import look_now
from tests.support.many_tables import FIRST, write_row

Told = dict[str, float]


def location() -> Told:
    """The code location, since the process began, and the snapshot of it that Dagster's processes pass to each other.

    Jobs are left out of the snapshot, as Dagster fetches each when it is needed.
    """
    from dagster._core.remote_representation.external_data import RepositorySnap
    from dagster._serdes import serialize_value

    from incload_assets.cli.support.folder import enter_project
    from incload_assets.cli.support.project import _definitions

    def load() -> dg.RepositoryDefinition:
        return _definitions(enter_project()).get_repository_def()

    repository = load()
    loaded = time.time() - psutil.Process().create_time()
    made, text = _timed(lambda: serialize_value(RepositorySnap.from_def(repository, defer_snapshots=True)))
    jobs = len(repository.get_all_jobs())
    return {"loaded": loaded, "jobs": jobs, "snapshot": len(text.encode()), "snapshot CPU": made["cpu"]}


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


def look() -> Told:
    """Whole looks of the sensor at the only table, with what it decides: the process's first one, and the next."""
    from incload_assets.automation.looks import Look, Watched, take
    from incload_assets.automation.window_requests import decided
    from incload_assets.cli.support.project import open_project

    with open_project() as project:
        [table] = project.tables.values()

        def looked() -> Look:
            found, one = Look(wholly=True), Watched(table=table, partitions_per_run=1, checked=0.0)
            take(one, found, project.lake)
            assert found.state is not None, found.error
            decided(project.instance, table, found.state, found.at)
            return found

        first, _ = _timed(looked)
        following, _ = _timed(looked)
    return {"first": first["seconds"], "next": following["seconds"]}


def load() -> Told:
    """A load of one partition of the only table, with its checks, by a process that has loaded another one before."""
    from incload_assets.cli.support.project import open_project
    from incload_assets.cli.support.runs import load_partitions
    from incload_assets.declaration.window import now
    from incload_assets.platform.spark import server as connect_server

    with open_project() as project:
        [table] = project.tables.values()
        windows = table.known_windows(table.keys_at(now())[-2:])
        try:
            for number, window in enumerate(windows, 2):
                write_row(Path(project.settings.landing_root), window, hourly=True, number=number)
                took, [outcome] = _timed(lambda key=window.key: load_partitions(project, table, [key], say=_unheard))
                assert not outcome.failure, outcome.failure
        finally:
            connect_server.stop(project.settings)
    return took


def _unheard(_: str) -> None: ...


def command(*words: str) -> Told:
    """A command of ``incload``, which finds nothing wrong."""
    from incload_assets.cli.program import program

    try:
        program([*words])
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
    "look": look,
    "load": load,
    "status": status,
    "status of the first": lambda: command("status", FIRST),
    "doctor": lambda: command("doctor"),
}

if __name__ == "__main__":
    told = WHAT[sys.argv[1]]()
    print(json.dumps(told | {"memory": peak_of(os.getpid())}))
