"""The scratch tables of the drill: real runs in a Dagster instance of their own.

Faults are injected into a table of files; a table of Debezium's events lags behind its source.
``python -m tests.drill.scratch ROOT STORAGE DAY HOW`` is one run in the Dagster instance in the folder STORAGE. HOW is
``killed``: it prints a line when it begins, to be killed; ``lag``: it loads the table that lags; ``hangs``: it stops
amid this load, with all that it holds, as if its machine hung.
"""

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import dagster as dg
import pandera.pyspark as pa
import psutil
import pyspark.sql.types as T
from dagster._core.definitions.run_request import InstigatorType  # these have no public names
from dagster._core.remote_origin import InProcessCodeLocationOrigin, RemoteInstigatorOrigin, RemoteRepositoryOrigin
from dagster._core.scheduler.instigation import InstigatorState, InstigatorStatus, SensorInstigatorData
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster._daemon.types import DaemonHeartbeat
from pyspark.sql import DataFrame

from incload_assets.assets.incremental import incremental_asset, table_of
from incload_assets.automation.orphans import fail_orphans
from incload_assets.change_log.context import LoadContext
from incload_assets.code_location import incremental_definitions
from incload_assets.declaration.changes import Changes
from incload_assets.declaration.slo import Slo
from incload_assets.declaration.table import Freshness, Quarantine, Table
from incload_assets.declaration.window import now, window_of
from incload_assets.load.load import load_window
from incload_assets.monitoring.prometheus.exporter import Exporter, served
from incload_assets.platform.lake import Lake
from incload_assets.platform.settings import Settings
from incload_assets.platform.spark.resource import open_session
from incload_assets.progress.observed import SENSOR
from incload_assets.progress.request import Request
from incload_assets.progress.run_tags import PROCESS_TAG, own_tag
from incload_assets.restore.rebuild import rebuild
from incload_assets.sources.debezium.debezium import Debezium
from incload_assets.sources.files.files import Files
from incload_assets.sources.files.storage import store_of

CHECK_JOBS = ("check_tables", "check_uniqueness", "check_reconciliation")
POOLS: Any = {"concurrency": {"pools": {"granularity": "op", "default_limit": 1}}}
"""As in the project's ``dagster.yaml``: one load at a time of a table whose loads may touch any of its rows."""
PROMISED = timedelta(seconds=10)
"""The time within which the table that lags promises changes."""
KEYS = 4999
"""The number of keys of the database's table; no multiple of how often a row is deleted."""
POOL = "drill_readings"
USUAL = 100
"""The usual number of events of a window of the table that lags."""
_BEGINS, _KILLED, _LAG, _HANGS = "begins", "killed", "lag", "hangs"
_SECONDS, _POLL_SECONDS = 300.0, 0.1

Record = Mapping[str, Any]


class Guest(pa.DataFrameModel):
    """A row of the table of files."""

    id: T.StringType = pa.Field(nullable=False)
    name: T.StringType = pa.Field(nullable=False)
    seq: T.TimestampType = pa.Field(nullable=False)


@dataclass
class Scratch:
    """A table in a folder of its own in the lake, with what a code location has: jobs, checks, sensor, metrics.

    Its key is ``id`` (string), its sequence ``seq`` (a time, given in seconds since 1970), and it has a ``name``
    (string). Its windows are over. Its quarantine tolerates at most half of a window's rows.

    Args:
        settings: Settings with the Spark and the lake.
        root: Root of the files and of a separate lake.
        instance: The Dagster instance of its runs.
        target: Host and port of its metrics.
    """

    settings: Settings
    root: str
    instance: dg.DagsterInstance
    target: str = ""
    days: ClassVar[int] = 3
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
        """Delivers and loads the rows that the faults need."""
        for number, window in enumerate(self.windows, 1):
            self.deliver(window, "a", [record(f"{name} {number}", number) for name in ("first", "second", "third")])
        assert self.load(*self.windows), "the scratch table could not be loaded"

    def end(self) -> None:
        """Ends the processes that it has started."""
        for process in self._processes:
            process.kill()
            process.wait()

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
        """Its days, oldest first."""
        return self.table.partitions_def.get_partition_keys()[: self.days]

    def deliver(self, window: str, file: str, records: Sequence[Record]) -> None:
        """Writes a file of a window, or writes it again."""
        self._write(window, file, [{**record, "seq": _as_time(record["seq"])} for record in records])

    def _write(self, window: str, file: str, records: Sequence[Record]) -> None:
        lines = map(json.dumps, records)
        path = f"{self.root}/landing/{window}/{file}.json"
        store = store_of(path)
        store.makedirs(path.rpartition("/")[0], exist_ok=True)
        store.pipe_file(path, "\n".join(lines).encode())

    def load(self, *windows: str) -> bool:
        """Loads windows, each in a run with the checks that follow a load; whether all were loaded."""
        return all([self.run(partition_key=window) for window in windows])

    def run(self, **how: Any) -> bool:
        """Runs the job that loads the table; true if it succeeded."""
        job = self.definitions.resolve_implicit_global_asset_job_def()
        done = job.execute_in_process(
            asset_selection=[self.table.key], instance=self.instance, raise_on_error=False, **how
        )
        return done.success

    def start(self, window: str) -> "subprocess.Popen[str]":
        """A process that has begun to load a window."""
        process = self._process(window, _KILLED)
        assert process.stdout is not None
        for line in process.stdout:
            if line.strip() == _BEGINS:
                return process
        raise AssertionError(f"a load of {window} ended with {process.wait()} before it began")

    def _process(self, window: str, how: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", __name__, self.root, self.instance.root_directory, window, how]
        stdout = subprocess.PIPE if how == _KILLED else subprocess.DEVNULL
        process = subprocess.Popen(command, stdout=stdout, stderr=subprocess.DEVNULL, text=True)
        self._processes.append(process)
        return process

    def forget(self) -> None:
        """Removes the materializations of the table from the instance."""
        self.instance.wipe_assets([self.table.key])

    def rebuild(self) -> None:
        """Does what ``incload rebuild`` does."""
        with open_session(self.settings, "drill") as spark:
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
        sensor = repository.get_sensor_def(SENSOR)
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
    location = InProcessCodeLocationOrigin(LoadableTargetOrigin(module_name=__name__), location_name="drill")
    origin = RemoteInstigatorOrigin(RemoteRepositoryOrigin(location, "drill"), sensor)
    return InstigatorState(origin, InstigatorType.SENSOR, InstigatorStatus.RUNNING, data)


def record(id: str, seq: int, name: str = "x") -> Record:
    """A record of the table of files."""
    return {"id": id, "name": name, "seq": seq}


def _as_time(seconds: object) -> object:
    """A sequence as a time; what is no number stays as it is, and breaks the contract."""
    return datetime.fromtimestamp(seconds, UTC).isoformat() if isinstance(seconds, int) else seconds


def scratch_asset(root: str) -> dg.AssetsDefinition:
    """The table of files: its windows are the three days before today."""

    @incremental_asset(
        partitions_def=_days(Scratch),
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


class Reading(pa.DataFrameModel):
    """A row of the database's table."""

    id: T.StringType = pa.Field(nullable=False)
    name: T.StringType = pa.Field(nullable=True)
    cdc_sequence: T.StringType = pa.Field(nullable=False)


@dataclass
class Database:
    """Rows by key, and the number of their last change."""

    rows: dict[str, str] = field(default_factory=dict)
    position: int = 0

    def change(self, number: int) -> Iterator[Record]:
        """Inserts, updates and deletes rows, and yields Debezium's events of it."""
        for _ in range(number):
            self.position += 1
            id = str(self.position * 31 % KEYS)
            before = {"id": id, "name": None}
            if id in self.rows and self.position % 5 == 0:
                del self.rows[id]
                yield _event("d", self.position, before, None)
                continue
            op = "u" if id in self.rows else "c"
            self.rows[id] = f"as of {self.position}"
            yield _event(op, self.position, None, {"id": id, "name": self.rows[id]})


def _event(op: str, position: int, before: object, after: object) -> Record:
    source = {"schema": "public", "table": "readings", "lsn": position, "sequence": None, "ts_us": 0}
    return {"op": op, "before": before, "after": after, "source": source}


@dataclass
class LagScratch(Scratch):
    """A table of change events, with a database that makes them.

    One of its runs loads at a time, because its pool has one slot.
    """

    days: ClassVar[int] = 9
    database: Database = field(default_factory=Database)
    _events: Counter[str] = field(default_factory=Counter)

    def declared(self) -> dg.AssetsDefinition:
        """The table's asset."""
        return lag_asset(self.root)

    def prepare(self) -> None:
        """Loads three windows with the usual number of events."""
        for window in self.windows[:3]:
            self.change(window, USUAL)
        assert self.load_together(*self.windows[:3]), "the scratch table could not be loaded"

    def change(self, window: str, number: int) -> None:
        """Changes rows of the database; the events are a file of a window."""
        self._events[window] += number
        self._write(window, "events", list(self.database.change(number)))

    def backlog(self, *windows: str) -> int:
        """The number of events of windows."""
        return sum(self._events[window] for window in windows)

    def load_together(self, *windows: str) -> bool:
        """Loads adjacent windows in one run; whether all were loaded."""
        tags = Request(first=windows[0], last=windows[-1]).as_tags()
        return self.run(tags=tags)

    def hang(self, window: str) -> None:
        """Starts a run that loads a window, takes the pool's slot, and then hangs."""
        process = self._process(window, _HANGS)
        stopped = psutil.Process(process.pid)
        _wait(lambda: process.poll() is not None or stopped.status() == psutil.STATUS_STOPPED)
        if process.poll() is not None:
            raise AssertionError(f"the load of {window} ended with {process.returncode} instead of hanging")

    def wait_for_slot(self, window: str) -> None:
        """Starts a run that loads a window and has to wait for the pool's slot."""
        process = self._process(window, _LAG)
        _wait(lambda: process.poll() is not None or bool(self._slot().pending_run_ids))
        if process.poll() is not None:
            raise AssertionError(f"the load of {window} ended with {process.returncode} instead of waiting")

    def free_slot(self) -> None:
        """Ends the process that holds the pool's slot, and fails its run; returns when the waiting run has ended."""
        for run_id in self._slot().active_run_ids:
            run = self.instance.get_run_by_id(run_id)
            mark = own_tag(run, PROCESS_TAG) if run else None
            [holder] = [each for each in self._processes if mark and f":{each.pid}:" in mark]
            holder.kill()
            holder.wait()
        fail_orphans(self.instance)
        if any([process.wait(_SECONDS) > 0 for process in self._processes]):
            raise AssertionError("the load that waited for the slot failed")

    def is_right(self) -> bool:
        """True if the table's rows are the database's."""
        delta = self.lake.delta(self.lake.table_uri(self.table.key.path))
        rows = delta.to_pyarrow_table(columns=["id", "name"]).to_pylist() if delta else []
        return sorted((row["id"], row["name"]) for row in rows) == sorted(self.database.rows.items())

    def look(self) -> None:
        """Runs a tick of the sensor, which requests nothing.

        The first tick of a sensor looks at all windows, later ones mostly at the newest; so each is of a new sensor.
        """
        self.define()
        self._tick()

    def _slot(self) -> Any:
        """The runs that hold the slot of the table's pool, and the runs that wait for it."""
        return self.instance.event_log_storage.get_concurrency_info(POOL)


@dataclass
class HangingScratch(LagScratch):
    """The same table in a process that hangs amid its load."""

    def declared(self) -> dg.AssetsDefinition:
        """The table's asset, whose function stops the process."""
        return lag_asset(self.root, hangs=True)


def lag_asset(root: str, *, hangs: bool = False) -> dg.AssetsDefinition:
    """The table that lags: its windows are the nine days before today. ``hangs``: its function stops the process."""
    events = Debezium(
        Files(f"{root}/landing/{{window:%Y-%m-%d}}/*.json"), table="public.readings", keys=["id"], keys_change=False
    )

    @incremental_asset(
        partitions_def=_days(LagScratch),
        source=events,
        contract=Reading,
        changes=events.changes(truncates=False),
        slo=Slo(freshness=PROMISED),
        criticality="high",
        owners=["team:drill"],
        pool=POOL,
    )
    def readings(changes: DataFrame) -> DataFrame:
        if hangs:
            os.kill(os.getpid(), signal.SIGSTOP)
        return changes

    return readings


def _days(kind: type[Scratch]) -> dg.DailyPartitionsDefinition:
    return dg.DailyPartitionsDefinition(f"{datetime.now(UTC).date() - timedelta(days=kind.days):%Y-%m-%d}")


def _wait(until: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _SECONDS
    while not until():
        if time.monotonic() > deadline:
            raise AssertionError(f"it did not come so far within {_SECONDS:.0f} s")
        time.sleep(_POLL_SECONDS)


S = TypeVar("S", bound=Scratch)


@contextmanager
def scratch_of(kind: type[S], settings: Settings, folder: Path) -> Iterator[S]:
    """A scratch table of a kind, prepared, whose metrics are served for the block.

    Args:
        kind: The kind.
        settings: Settings with the Spark and the lake.
        folder: A folder for its Dagster instance.
    """
    root = f"{Lake.of(settings).root}/_drill/{uuid.uuid4().hex[:8]}"
    with dg.DagsterInstance.local_temp(str(folder), POOLS) as own:
        scratch = kind(settings, root, own)
        try:
            scratch.prepare()
            with served(Exporter(own, [scratch.table], scratch.lake), "127.0.0.1", 0) as port:
                scratch.target = f"127.0.0.1:{port}"
                yield scratch
        finally:
            scratch.end()


def _main(root: str, storage: str, day: str, how: str) -> int:
    if how == _KILLED:
        table = table_of(scratch_asset(root))
        assert table is not None
        with open_session(Settings(), f"drill {day}") as spark:
            print(_BEGINS, flush=True)
            load_window(LoadContext(spark, table, Lake(f"{root}/lake")), window_of(table.partitions_def, day))
        return 0
    kind = HangingScratch if how == _HANGS else LagScratch
    with dg.DagsterInstance.local_temp(storage, POOLS) as instance:
        return 0 if kind(Settings(), root, instance).run(partition_key=day) else 1


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
