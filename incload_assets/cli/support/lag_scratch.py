"""The scratch table of ``incload game-day --faults`` that lags behind its source, a stream of Debezium's events.

``python -m incload_assets.cli.support.lag_scratch ROOT STORAGE DAY`` is one run in the instance in the folder STORAGE.
With ``hangs`` as a further argument its process stops amid the load, with all that it holds, as if its machine hung.
"""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import dagster as dg
import pandera.pyspark as pa
import psutil
import pyspark.sql.types as T
from pyspark.sql import DataFrame

from incload_assets.assets.incremental import incremental_asset
from incload_assets.automation.orphans import fail_orphans
from incload_assets.cli.support.fault_scratch import POOLS, FaultScratch
from incload_assets.code_location import load_job_name
from incload_assets.declaration.slo import Slo
from incload_assets.monitoring.drill.faults import Record
from incload_assets.monitoring.drill.lag_faults import PROMISED, prepare
from incload_assets.platform.settings import Settings
from incload_assets.progress.request import Request
from incload_assets.progress.run_tags import PROCESS_TAG, own_tag
from incload_assets.sources.debezium.debezium import Debezium
from incload_assets.sources.files.files import Files

DAYS = 9
KEYS = 4999
"""The number of keys of the database's table; no multiple of how often a row is deleted."""
POOL = "drill_readings"
_HANGS = "hangs"
_SECONDS, _POLL_SECONDS = 300.0, 0.1


class Reading(pa.DataFrameModel):  # type: ignore[type-arg]
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
        """Inserts, updates and deletes rows, and yields Debezium's events of it.

        Example:
            >>> [event["op"] for event in Database().change(2)]
            ['c', 'c']
        """
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
class LagScratch(FaultScratch):
    """A table of change events, with a database that makes them; see :class:`FaultScratch`."""

    database: Database = field(default_factory=Database)
    _events: Counter[str] = field(default_factory=Counter)

    def declared(self) -> dg.AssetsDefinition:
        """The table's asset."""
        return lag_asset(self.root)

    def prepare(self) -> None:
        """Loads the windows with the usual number of events."""
        prepare(self)

    @property
    def windows(self) -> Sequence[str]:
        """The last nine days, oldest first."""
        return self.table.partitions_def.get_partition_keys()[:DAYS]

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
        return _execute(self, tags=tags, asset_selection=[self.table.key])

    def hang(self, window: str) -> None:
        """Starts a run that loads a window, takes the pool's slot, and then hangs."""
        process = self._run(window, _HANGS)
        stopped = psutil.Process(process.pid)
        _wait(lambda: process.poll() is not None or stopped.status() == psutil.STATUS_STOPPED)
        if process.poll() is not None:
            raise AssertionError(f"the load of {window} ended with {process.returncode} instead of hanging")

    def wait_for_slot(self, window: str) -> None:
        """Starts a run that loads a window and has to wait for the pool's slot."""
        process = self._run(window)
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
        """Runs a tick of the table's sensor, which requests nothing.

        The first tick of a sensor looks at all windows, later ones mostly at the newest; so each is of a new sensor.
        """
        self.define()
        self._tick()

    def _run(self, window: str, *how: str) -> "subprocess.Popen[str]":
        return self._process(__name__, self.root, self.instance.root_directory, window, *how)

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
    """The scratch table: its windows are the nine days before today.

    Args:
        root: Root of its files.
        hangs: Whether its function stops the process.
    """
    first = datetime.now(UTC).date() - timedelta(days=DAYS)
    events = Debezium(
        Files(f"{root}/landing/{{window:%Y-%m-%d}}/*.json"), table="public.readings", keys=["id"], keys_change=False
    )

    @incremental_asset(
        partitions_def=dg.DailyPartitionsDefinition(f"{first:%Y-%m-%d}"),
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


def _execute(scratch: LagScratch, **how: Any) -> bool:
    job = scratch.definitions.resolve_job_def(load_job_name(scratch.table))
    return job.execute_in_process(instance=scratch.instance, raise_on_error=False, **how).success


def _wait(until: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _SECONDS
    while not until():
        if time.monotonic() > deadline:
            raise AssertionError(f"it did not come so far within {_SECONDS:.0f} s")
        time.sleep(_POLL_SECONDS)


def _main(root: str, storage: str, day: str, how: str = "") -> int:
    kind = HangingScratch if how == _HANGS else LagScratch
    with dg.DagsterInstance.local_temp(storage, POOLS) as instance:
        return 0 if _execute(kind(Settings(), root, instance), partition_key=day) else 1


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
