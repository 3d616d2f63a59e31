"""Loads in forked processes that are killed, and what Dagster's daemon makes of it: nothing is mocked."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import dagster as dg
import pytest
import yaml
from dagster._core.launcher import WorkerStatus
from dagster._core.storage.tags import PARENT_RUN_ID_TAG
from dagster._core.workspace.load_target import ModuleTarget

from incload_assets.platform.lake import Lake
from incload_assets.platform.settings import Settings
from incload_assets.runs.warm_servers import stop_warm_servers
from tests.integration.loader import POINTS
from tests.runs.crashing import TABLES
from tests.runs.workplace import Workplace, beside, process_of, workplace_in
from tests.support.guest_table import guest, key
from tests.support.project_copy import PROJECT
from tests.support.sampling import NIGHT

pytestmark = pytest.mark.integration

TRIED = list(POINTS) if NIGHT else ["after landing", "merging", "before the checkpoint"]
"""The points that are tried every day; a night run tries them all."""
LAST = TABLES[-1]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, spark_url: str) -> Iterator[Workplace]:
    """The code location with the product's own instance, which finds dead processes sooner than it does there."""
    folder = tmp_path_factory.mktemp("crashes")
    config = yaml.safe_load((PROJECT / ".dagster_home" / "dagster.yaml").read_text())
    config["run_monitoring"] |= {"poll_interval_seconds": 1, "free_slots_after_run_end_seconds": 1}
    (folder / "landing").mkdir()
    code = ModuleTarget("tests.runs.crashing", None, str(PROJECT), "crashing")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INCLOAD_SPARK", spark_url)
        patch.setenv("INCLOAD_HOME", str(folder / "home"))
        patch.setenv("INCLOAD_LANDING", str(folder / "landing"))
        patch.setenv("PYTHONPATH", str(PROJECT))
        with workplace_in(folder, partial(beside, folder, code), **config) as home:
            yield home
            stop_warm_servers(Settings())


class Daemon:
    """Dagster's, which launches runs, looks for those whose process is gone, and repeats them."""

    def __init__(self, home: Workplace) -> None:
        self.home = home
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "dagster._daemon", "run", "-w", "workspace.yaml"]
        environment = {**os.environ, "DAGSTER_HOME": str(self.home.folder / "dagster")}
        with (self.home.folder / "daemon.log").open("a") as log:
            self.process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="module")
def daemon(home: Workplace) -> Iterator[Daemon]:
    """It is up, or will be soon."""
    daemon = Daemon(home)
    yield daemon
    daemon.kill()


@pytest.fixture
def served(home: Workplace, daemon: Daemon) -> Workplace:
    """The code location with a daemon."""
    return home


def deliver(home: Workplace, table: str, number: int, *records: dict[str, Any]) -> None:
    file = home.folder / "landing" / table / key(number) / "a.json"
    file.parent.mkdir(parents=True)
    file.write_text("".join(json.dumps(record) + "\n" for record in records))


def load(home: Workplace, table: str, number: int, told: str | None = None) -> str:
    """The id of a run that loads a day of a table, and does what it is told when it comes to a point."""
    if told:
        (home.folder / table).write_text(told)
    return home.submit(f"load_{table}", {"dagster/partition": key(number)})


def repetition(home: Workplace, run_id: str) -> dg.DagsterRun:
    """The run by which the daemon repeated a run, to its end."""

    def repeated() -> list[dg.DagsterRun]:
        return list(home.instance.get_runs(dg.RunsFilter(tags={PARENT_RUN_ID_TAG: run_id})))

    home.wait(lambda: any(run.is_finished for run in repeated()))
    [run] = repeated()
    return run


def rows(home: Workplace, table: str) -> set[str]:
    lake = Lake.of(Settings())
    delta = lake.delta(lake.table_uri((table,)))
    return {row["id"] for row in delta.to_pyarrow_table(columns=["id"]).to_pylist()} if delta else set()


def loaded(home: Workplace, table: str) -> set[str]:
    return home.instance.get_materialized_partitions(dg.AssetKey(table))


def test_a_run_whose_process_is_killed_at_any_point_is_repeated_and_its_table_is_right(served: Workplace) -> None:
    tables = dict(zip(TRIED, TABLES, strict=False))
    for table in tables.values():
        deliver(served, table, 1, guest("a"), guest("b"))
    killed = {point: load(served, table, 1, f"{point}: die") for point, table in tables.items()}
    for point, table in tables.items():
        assert repetition(served, killed[point]).status == dg.DagsterRunStatus.SUCCESS, point
        run = served.of(killed[point])
        assert run.status == dg.DagsterRunStatus.FAILURE
        assert f"process {process_of(run)} was terminated by signal 9 (SIGKILL)" in served.messages(run.run_id)
        assert rows(served, table) == {"a", "b"}
        assert loaded(served, table) == {key(1)}


def test_a_run_goes_on_when_the_process_that_it_was_forked_from_is_killed_and_is_repeated_when_both_are(
    served: Workplace,
) -> None:
    deliver(served, LAST, 1, guest("one"))
    deliver(served, LAST, 2, guest("two", day=2))
    orphan = load(served, LAST, 1, "before merging: end_the_server")
    served.wait(lambda: served.of(orphan).is_finished)
    assert served.of(orphan).status == dg.DagsterRunStatus.SUCCESS
    both = load(served, LAST, 2, "before merging: end_both")
    assert repetition(served, both).status == dg.DagsterRunStatus.SUCCESS
    assert "is gone" in served.messages(both)
    assert rows(served, LAST) == {"one", "two"}


def test_two_runs_of_one_table_load_one_after_the_other(served: Workplace) -> None:
    for number in (3, 4):
        deliver(served, LAST, number, guest(f"day {number}", day=number))
    runs = [load(served, LAST, number) for number in (3, 4)]
    served.wait(lambda: all(served.of(run).is_finished for run in runs))
    assert [served.of(run).status for run in runs] == [dg.DagsterRunStatus.SUCCESS] * 2
    [steps] = zip(*[served.instance.get_run_step_stats(run, [LAST]) for run in runs], strict=True)
    times = sorted((step.start_time, step.end_time) for step in steps)
    assert all(ended <= began for (_, ended), (began, _) in pairwise(times))
    assert rows(served, LAST) >= {"day 3", "day 4"}


def test_a_daemon_that_is_started_again_finds_the_run_that_another_has_launched(
    served: Workplace, daemon: Daemon
) -> None:
    deliver(served, LAST, 5, guest("day 5", day=5))
    deliver(served, TABLES[0], 5, guest("day 5", day=5))
    run_id = load(served, LAST, 5, "before merging: wait")
    served.wait((served.folder / "waiting").exists)
    daemon.kill()
    daemon.start()
    other = load(served, TABLES[0], 5)
    served.wait(lambda: served.of(other).is_finished)  # by now the daemon has looked at all runs
    assert served.of(other).status == dg.DagsterRunStatus.SUCCESS
    assert served.health(run_id) == WorkerStatus.RUNNING
    assert served.instance.run_launcher.terminate(run_id)
    served.wait(lambda: served.of(run_id).is_finished)
    assert served.of(run_id).status == dg.DagsterRunStatus.CANCELED
    assert key(5) not in loaded(served, LAST)
