"""Two code locations over one lake and one Dagster instance in PostgreSQL, as the documentation sets them up."""

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from dagster._cli.job import _create_run
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import WorkspaceFileTarget
from dagster_graphql.test.utils import execute_dagster_graphql
from deltalake import DeltaTable

from incload_assets.cli.support.scaffold import make_project
from incload_assets.platform.dagster_private import CODE_LOCATION_TAG
from incload_assets.platform.lake import Lake
from incload_assets.progress.run_tags import TABLE_TAG
from tests.integration.test_dagster_in_postgres import WORKSPACE, home_of
from tests.servers.postgres import PostgresServer
from tests.support.documents import PROJECT, documented_block
from tests.support.project_copy import Clone

WAIT = 400
LOCATIONS = {"shop_lake": ["orders", "payments"], "stock_lake": ["articles"]}
"""The tables of each location."""
TODAY = datetime.now(UTC).date()
DAYS = [str(TODAY - timedelta(days=back)) for back in (3, 2, 1)]
UNDER_WAY = [dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED]

TABLE = '''"""Rows of {name}."""

from datetime import timedelta

import dagster as dg
import pandera.pyspark as pa
import pyspark.sql.types as T
from pyspark.sql import DataFrame

from incload_assets.assets import Changes, Files, incremental_asset


class Row(pa.DataFrameModel):
    """A row."""

    id: T.LongType = pa.Field(nullable=False)
    seq: T.LongType = pa.Field(nullable=False)


@incremental_asset(
    partitions_def=dg.DailyPartitionsDefinition("{day}"),
    source=Files("{{landing}}/{name}/{{window:%Y-%m-%d}}.csv"),
    contract=Row,
    changes=Changes(keys=["id"], sequence_by=["seq"]),
    quarantine_retention=timedelta(days=30),
)
def {name}(changes: DataFrame) -> DataFrame:
    """One row per key, as last changed."""
    return changes
'''


@dataclass(frozen=True)
class Platform:
    """The folder with both projects, the configuration that they share, and Dagster's folder.

    Args:
        root: With ``workspace.yaml`` and ``.env``.
        home: Dagster's.
    """

    root: Path
    home: Path
    spark: str

    @property
    def lake(self) -> Lake:
        """The lake of both."""
        return Lake(str(self.root / "lake"))

    def project(self, location: str) -> Clone:
        """One of the projects, for its commands."""
        return Clone(self.root / location, self.spark)

    def deliver(self, table: str, day: str, *rows: tuple[int, int]) -> None:
        """A file of a day."""
        file = self.root / "landing" / table / f"{day}.csv"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("id,seq\n" + "".join(f"{key},{seq}\n" for key, seq in rows))

    def declare(self, location: str, name: str) -> Path:
        """A table of a location."""
        file = self.root / location / location / "tables" / f"{name}.py"
        file.write_text(TABLE.format(name=name, day=DAYS[0]))
        return file

    def environment(self) -> dict[str, str]:
        """Variables of Dagster's processes, which begin in the folder of the workspace."""
        return self.project("shop_lake").environment() | {"PYTHONPATH": str(PROJECT), "PWD": str(self.root)}


def platform_in(root: Path, postgres: PostgresServer, spark: str) -> Platform:
    """Both projects, with the files that the documentation shows."""
    root.mkdir()
    postgres.database("two_locations")
    home = home_of(root, postgres, "two_locations")
    config = yaml.safe_load(WORKSPACE.read_text()) | yaml.safe_load((home / "dagster.yaml").read_text())
    (home / "dagster.yaml").write_text(yaml.safe_dump(config))
    platform = Platform(root, home, spark)
    (root / "workspace.yaml").write_text(documented_block("yaml", "location_name: shop_lake"))
    shown = documented_block("text", "DAGSTER_HOME=/srv/dagster")
    shared = re.sub(r"/srv/(\w+)", lambda found: str(home if found[1] == "dagster" else root / found[1]), shown)
    for location, names in LOCATIONS.items():
        make_project(root / location, sample=False)
        (root / location / ".env").write_text(shared)
        for name in names:
            platform.declare(location, name)
    (root / ".env").write_text(shared)
    return platform


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory, postgres: PostgresServer, spark_url: str) -> Iterator[Platform]:
    """The platform with its daemon, once every table is loaded."""
    made = platform_in(tmp_path_factory.mktemp("platform") / "srv", postgres, spark_url)
    for names in LOCATIONS.values():
        for name in names:
            for number, day in enumerate(DAYS):
                made.deliver(name, day, (number, 1), (number + 1, 2))
    log = made.root / "daemon.log"
    with log.open("wb") as out:
        command = [sys.executable, "-m", "dagster._daemon", "run"]
        daemon = subprocess.Popen(command, cwd=made.root, env=made.environment(), stdout=out, stderr=out)
    try:
        wait_until(lambda: loaded(made) == {name: DAYS for names in LOCATIONS.values() for name in names}, log)
        yield made
    finally:
        daemon.send_signal(signal.SIGINT)
        daemon.wait(120)
        made.project("shop_lake").incload("stop")


def wait_until(done: Callable[[], bool], log: Path) -> None:
    deadline = time.monotonic() + WAIT
    while not done():
        assert time.monotonic() < deadline, log.read_text()[-4000:]
        time.sleep(1)


def opened(platform: Platform) -> dg.DagsterInstance:
    return dg.DagsterInstance.from_config(str(platform.home))


def loaded(platform: Platform) -> Mapping[str, Sequence[str]]:
    """The partitions of each table that are materialized."""
    with opened(platform) as instance:
        names = [name for tables in LOCATIONS.values() for name in tables]
        return {name: sorted(instance.get_materialized_partitions(dg.AssetKey(name))) for name in names}


def recorded(platform: Platform) -> set[tuple[str, str, str, int]]:
    """The loads that ``_loads`` has."""
    return {(row["table"], row["window"], row["run_id"], row["event"]) for row in loads(platform)}


def loads(platform: Platform) -> list[dict[str, Any]]:
    uri = f"{platform.lake.root}/_loads"
    return list(DeltaTable(uri).to_pyarrow_table().to_pylist()) if DeltaTable.is_deltatable(uri) else []


def files_of(*folders: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for folder in folders for path in folder.rglob("*") if path.is_file()}


def run_jobs(platform: Platform, location: str, *jobs: str) -> None:
    """Have the daemon run jobs of a location, and wait for their end."""
    with (
        opened(platform) as instance,
        WorkspaceProcessContext(instance, WorkspaceFileTarget([str(platform.root / "workspace.yaml")])) as process,
    ):
        workspace = process.create_request_context()
        of = workspace.get_code_location(location)
        [repository] = of.get_repositories().values()
        runs = list[str]()
        for name in jobs:
            job = repository.get_full_job(name)
            tags = {"dagster/schedule_name": f"{name}_schedule"}
            run = _create_run(instance, of, repository, job, {}, tags, None, None)
            instance.submit_run(run.run_id, workspace)
            runs.append(run.run_id)

        def ended() -> bool:
            found = [instance.get_run_by_id(run_id) for run_id in runs]
            return all(run is None or run.is_finished for run in found)  # the expiry removes runs

        wait_until(ended, platform.root / "daemon.log")
        found = {run.job_name: run.status.value for run in instance.get_runs(dg.RunsFilter(run_ids=runs))}
        assert set(found.values()) <= {"SUCCESS"}, found


@pytest.mark.slow
@pytest.mark.integration
@pytest.mark.timeout(900)
def test_each_location_loads_its_own_tables_and_knows_nothing_of_the_others(platform: Platform) -> None:
    with opened(platform) as instance:
        runs = [run for run in instance.get_runs() if TABLE_TAG in run.tags]
        sensors = [state for state in instance.all_instigator_state() if state.instigator_name == "watch_sources"]
    of = {name: location for location, names in LOCATIONS.items() for name in names}
    assert {run.tags[TABLE_TAG] for run in runs} == set(of)
    assert all(run.tags[CODE_LOCATION_TAG] == of[run.tags[TABLE_TAG]] for run in runs)
    assert len(sensors) == 2
    for location, names in LOCATIONS.items():
        project = platform.project(location)
        done = project.incload("status", "--json")
        assert done.returncode == 0, done.stdout + done.stderr
        assert {each["table"]: each["loaded"] for each in json.loads(done.stdout)} == {name: DAYS for name in names}
        done = project.incload("doctor")
        assert done.returncode == 0, done.stdout + done.stderr
        done = project.incload("metrics", "--once")
        assert {*re.findall(r'incload_table_info\{.*table="(\w+)"', done.stdout)} == set(names)
        running = re.findall(r'incload_sensor_running\{table="(\w+)"\} (\S+)', done.stdout)
        assert dict(running) == {name: "1.0" for name in names}


@pytest.mark.slow
@pytest.mark.integration
@pytest.mark.timeout(900)
def test_both_write_to_the_shared_tables_without_loss(platform: Platform) -> None:
    names = {name for tables in LOCATIONS.values() for name in tables}
    expected = {(name, day) for name in names for day in DAYS}
    wait_until(lambda: {load[:2] for load in recorded(platform)} >= expected, platform.root / "daemon.log")
    assert len(recorded(platform)) == len(loads(platform))
    commands = [
        subprocess.Popen(
            project.command("pause", table, "--until", "1h", "--because", f"{table} {number}"),
            cwd=project.root, env=project.environment(), stdout=subprocess.DEVNULL,
        )
        for number in range(2)
        for location, (table, *_) in LOCATIONS.items()
        if (project := platform.project(location))
    ]  # fmt: skip
    assert [command.wait(WAIT) for command in commands] == [0] * 4
    for location, (table, *_) in LOCATIONS.items():
        project = platform.project(location)
        told = project.incload("audit", "--json")
        assert told.returncode == 0, told.stderr
        entries = [entry for entry in json.loads(told.stdout)["entries"] if entry["action"] == "pause"]
        assert sorted(entry["because"] for entry in entries) == sorted(
            f"{tables[0]} {number}" for tables in LOCATIONS.values() for number in range(2)
        )
        assert project.incload("resume", table).returncode == 0


@pytest.mark.slow
@pytest.mark.integration
@pytest.mark.timeout(900)
def test_the_nightly_jobs_of_one_leave_the_other_alone(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(platform.root)  # the workspace's folders are relative
    lake = Path(platform.lake.root)
    others = [lake / name for name in LOCATIONS["shop_lake"]] + [lake / "_changes" / n for n in LOCATIONS["shop_lake"]]
    for_all = {(name, day) for names in LOCATIONS.values() for name in names for day in DAYS}
    wait_until(lambda: {load[:2] for load in recorded(platform)} >= for_all, platform.root / "daemon.log")
    before, history, known = files_of(*others), loaded(platform), recorded(platform)
    assert before
    nightly = ("compact_files", "expire_payloads", "vacuum_tables", "expire_history")
    run_jobs(platform, "stock_lake", *nightly)
    assert files_of(*others) == before
    assert (loaded(platform), recorded(platform) >= known) == (history, True)
    for location in LOCATIONS:
        assert platform.project(location).incload("doctor").returncode == 0


LAUNCH = """mutation ($of: ExecutionParams!) { launchPipelineExecution(executionParams: $of) {
    ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }"""


@pytest.mark.slow
def test_a_run_of_a_table_that_both_declare_is_failed_and_others_are_not(
    tmp_path: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform = platform_in(tmp_path / "srv", postgres, "sc://localhost:1")
    platform.declare("stock_lake", "orders")
    monkeypatch.chdir(platform.root)
    for name, value in platform.environment().items():
        monkeypatch.setenv(name, value)
    with (
        opened(platform) as instance,
        pytest.warns(UserWarning, match="asset keys in multiple code locations"),
        WorkspaceProcessContext(instance, WorkspaceFileTarget([str(platform.root / "workspace.yaml")])) as process,
    ):
        context = process.create_request_context()

        def launched(table: str) -> dg.DagsterRun:
            selector = {
                "repositoryLocationName": "shop_lake", "repositoryName": "__repository__", "jobName": "__ASSET_JOB",
                "assetSelection": [{"path": [table]}],
            }  # fmt: skip
            tags = [{"key": "dagster/partition", "value": DAYS[0]}]
            of = {"selector": selector, "runConfigData": {}, "executionMetadata": {"tags": tags}}
            [done] = execute_dagster_graphql(context, LAUNCH, {"of": of}).data.values()
            run = instance.get_run_by_id(done["run"]["runId"])
            assert run is not None
            return run

        assert launched("payments").status is dg.DagsterRunStatus.QUEUED
        refused = launched("orders")
        assert refused.status is dg.DagsterRunStatus.FAILURE
        [why] = [log.message for log in instance.all_logs(refused.run_id, of_type=dg.DagsterEventType.RUN_FAILURE)]
        assert "orders is declared in the code locations shop_lake and stock_lake" in why
