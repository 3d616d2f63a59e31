"""A scratch table of ``incload game-day --faults``: real runs in a Dagster instance of its own.

``python -m incload_assets.cli.support.fault_scratch ROOT DAY`` is one load; it prints a line when it begins.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import dagster as dg
import pandera.pyspark as pa
import pyspark.sql.types as T
from dagster._core.definitions.run_request import InstigatorType  # these have no public names
from dagster._core.scheduler.instigation import InstigatorState, InstigatorStatus, SensorInstigatorData
from dagster._daemon.types import DaemonHeartbeat
from pyspark.sql import DataFrame

from incload_assets.assets.incremental import incremental_asset, table_of
from incload_assets.change_log.context import LoadContext
from incload_assets.cli.support.drill import FOLDER
from incload_assets.code_location import incremental_definitions, load_job_name
from incload_assets.declaration.changes import Changes
from incload_assets.declaration.table import Freshness, Quarantine, Table
from incload_assets.declaration.window import now, window_of
from incload_assets.load.load import load_window
from incload_assets.monitoring.drill.faults import Record, prepare
from incload_assets.monitoring.prometheus.exporter import Exporter, served
from incload_assets.platform.lake import Lake
from incload_assets.platform.settings import Settings
from incload_assets.platform.spark.resource import open_session
from incload_assets.progress.observed import source_sensor_name
from incload_assets.restore.rebuild import rebuild
from incload_assets.sources.files.files import Files
from incload_assets.sources.files.storage import store_of

CHECK_JOBS = ("check_tables", "check_uniqueness", "check_reconciliation")
POOLS: Any = {"concurrency": {"pools": {"granularity": "op", "default_limit": 1}}}
"""As in the project's ``dagster.yaml``: one load at a time of a table whose loads may touch any of its rows."""
DAYS = 3
_BEGINS = "begins"


class Guest(pa.DataFrameModel):  # type: ignore[type-arg]
    """A row of the scratch table."""

    id: T.StringType = pa.Field(nullable=False)
    name: T.StringType = pa.Field(nullable=False)
    seq: T.TimestampType = pa.Field(nullable=False)


@dataclass
class FaultScratch:
    """A table in a folder of its own in the lake, with what a code location has: jobs, checks, sensor, metrics.

    Args:
        settings: Settings with the Spark and the lake.
        root: Root of the files and of a separate lake.
        instance: The Dagster instance of its runs.
        target: Host and port of its metrics.
        lost: Whether a fault was not noticed or not recovered, so that everything is kept for inspection.
    """

    settings: Settings
    root: str
    instance: dg.DagsterInstance
    target: str = ""
    lost: bool = False
    asset: dg.AssetsDefinition = field(init=False)
    definitions: dg.Definitions = field(init=False)
    _processes: list["subprocess.Popen[str]"] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.asset = self.declared()
        self.define()

    def define(self) -> None:
        """Makes the definitions, as a process does that starts."""
        own = self.settings.model_copy(update={"lake": f"{self.root}/lake"})
        self.definitions = incremental_definitions([self.asset], own)

    def declared(self) -> dg.AssetsDefinition:
        """The table's asset."""
        return scratch_asset(self.root)

    def prepare(self) -> None:
        """Loads what the faults need.

        Raises:
            AssertionError: It cannot be loaded.
        """
        prepare(self)

    def end(self) -> None:
        """Ends the processes that it has started."""
        for process in self._processes:
            process.kill()
            process.wait()

    @property
    def kept(self) -> str:
        """The place of its files, tables and runs, for people."""
        return f"files and tables in {self.root}, Dagster's storage in {self.instance.root_directory}"

    @property
    def table(self) -> Table:
        """The declaration."""
        table = table_of(self.asset)
        assert table is not None
        return table

    @property
    def lake(self) -> Lake:
        """The lake with the table."""
        return Lake(f"{self.root}/lake")

    @property
    def windows(self) -> Sequence[str]:
        """The last three days, oldest first."""
        return self.table.partitions_def.get_partition_keys()[:DAYS]

    def deliver(self, window: str, file: str, records: Sequence[Record]) -> None:
        """Writes a file of a window, or writes it anew."""
        self._write(window, file, [{**record, "seq": _as_time(record["seq"])} for record in records])

    def _write(self, window: str, file: str, records: Sequence[Record]) -> None:
        lines = map(json.dumps, records)
        path = f"{self.root}/landing/{window}/{file}.json"
        store = store_of(path)
        store.makedirs(path.rpartition("/")[0], exist_ok=True)
        store.pipe_file(path, "\n".join(lines).encode())

    def load(self, *windows: str) -> bool:
        """Loads windows, each in a run with the checks that follow a load; whether all were loaded."""
        job = self.definitions.resolve_job_def(load_job_name(self.table))
        done = [
            job.execute_in_process(instance=self.instance, partition_key=window, raise_on_error=False)
            for window in windows
        ]
        return all(run.success for run in done)

    def start(self, window: str) -> "subprocess.Popen[str]":
        """A process that has begun to load a window."""
        process = self._process(__name__, self.root, window, stdout=subprocess.PIPE)
        assert process.stdout is not None
        for line in process.stdout:
            if line.strip() == _BEGINS:
                return process
        raise AssertionError(f"a load of {window} ended with {process.wait()} before it began")

    def _process(self, *module: str, stdout: int = subprocess.DEVNULL) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", *module]
        process = subprocess.Popen(command, stdout=stdout, stderr=subprocess.DEVNULL, text=True)
        self._processes.append(process)
        return process

    def forget(self) -> None:
        """Removes the materializations of the table from the instance."""
        self.instance.wipe_assets([self.table.key])

    def rebuild(self) -> None:
        """Does what ``incload rebuild`` does."""
        with open_session(self.settings, "game day") as spark:
            rebuild(LoadContext(spark, self.table, self.lake), self.instance)

    def forgotten(self) -> bool:
        """True if Dagster has no materialization of one of the windows."""
        return not {*self.windows} <= set(self.instance.get_materialized_partitions(self.table.key))

    def look(self) -> None:
        """Runs all checks of the table, and a tick of its sensor that requests nothing, as a daemon that is alive."""
        for name in CHECK_JOBS:
            self.definitions.resolve_job_def(name).execute_in_process(instance=self.instance, raise_on_error=False)
        self._tick()

    def _tick(self) -> None:
        """Keeps what the sensor sees, as Dagster's daemon does; loads are left to the runbook."""
        repository = self.definitions.get_repository_def()
        sensor = repository.get_sensor_def(source_sensor_name(self.table))
        context = dg.build_sensor_context(
            self.instance, repository_def=repository, resources={"lake": self.lake}, sensor_name=sensor.name
        )
        sensor.evaluate_tick(context)
        at = now().timestamp()
        for daemon in self.instance.get_required_daemon_types():
            self.instance.add_daemon_heartbeat(DaemonHeartbeat(at, daemon, self.root))
        data = SensorInstigatorData(last_tick_timestamp=at, cursor=context.cursor, last_tick_success_timestamp=at)
        self._store(sensor.name, data)

    def _store(self, sensor: str, data: SensorInstigatorData) -> None:
        known = [
            state
            for state in self.instance.all_instigator_state(instigator_type=InstigatorType.SENSOR)
            if state.instigator_name == sensor
        ]
        if known:
            self.instance.update_instigator_state(known[0].with_data(data))
        else:
            self.instance.add_instigator_state(_state(self.definitions, sensor, data))


def _state(definitions: dg.Definitions, sensor: str, data: SensorInstigatorData) -> InstigatorState:
    from dagster._core.remote_origin import (  # these have no public names
        InProcessCodeLocationOrigin,
        RemoteInstigatorOrigin,
        RemoteRepositoryOrigin,
    )
    from dagster._core.types.loadable_target_origin import LoadableTargetOrigin

    location = InProcessCodeLocationOrigin(LoadableTargetOrigin(module_name=__name__), location_name="drill")
    origin = RemoteInstigatorOrigin(RemoteRepositoryOrigin(location, "drill"), sensor)
    return InstigatorState(origin, InstigatorType.SENSOR, InstigatorStatus.RUNNING, data)


def _as_time(seconds: object) -> object:
    """A sequence as a time; what is no number stays as it is, and breaks the contract."""
    return datetime.fromtimestamp(seconds, UTC).isoformat() if isinstance(seconds, int) else seconds


def scratch_asset(root: str) -> dg.AssetsDefinition:
    """The scratch table: its windows are the three days before today.

    Args:
        root: Root of its files.
    """
    first = datetime.now(UTC).date() - timedelta(days=DAYS)

    @incremental_asset(
        partitions_def=dg.DailyPartitionsDefinition(f"{first:%Y-%m-%d}"),
        source=Files(f"{root}/landing/{{window:%Y-%m-%d}}/*.json"),
        contract=Guest,
        changes=Changes(keys=["id"], sequence_by=["seq"]),
        quarantine=Quarantine(max_share=0.5),
        freshness=Freshness(within=timedelta(days=2)),
        criticality="high",
        owners=["team:drill"],
    )
    def guests(changes: DataFrame) -> DataFrame:
        return changes

    return guests


S = TypeVar("S", bound=FaultScratch)


@contextmanager
def fault_scratch(kind: type[S], settings: Settings) -> Iterator[S]:
    """A scratch table of a kind, prepared, whose metrics are served for the block.

    It is removed afterwards, with its Dagster instance, unless it was marked as lost.

    Raises:
        AssertionError: Its windows cannot be loaded.
    """
    root = f"{Lake.of(settings).root}/{FOLDER}/{uuid.uuid4().hex[:8]}"
    folder = tempfile.mkdtemp(prefix="incload-drill-")
    with dg.DagsterInstance.local_temp(folder, POOLS) as own:
        scratch = kind(settings, root, own)
        try:
            scratch.prepare()
            with served(Exporter(own, [scratch.table], scratch.lake), "127.0.0.1", 0) as port:
                scratch.target = f"127.0.0.1:{port}"
                yield scratch
        finally:
            scratch.end()
            if not scratch.lost:
                store_of(root).rm(root, recursive=True)
                shutil.rmtree(folder)


def _main(root: str, day: str) -> None:
    table = table_of(scratch_asset(root))
    assert table is not None
    with open_session(Settings(), f"game day {day}") as spark:
        print(_BEGINS, flush=True)
        load_window(LoadContext(spark, table, Lake(f"{root}/lake")), window_of(table.partitions_def, day))


if __name__ == "__main__":
    _main(*sys.argv[1:])
