"""Weeks of loads that never happened, for what shows loads: rows of ``_loads``, sensors, checks, runs and a daemon."""

import json
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import dagster as dg
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.remote_origin import (
    InProcessCodeLocationOrigin,
    RemoteInstigatorOrigin,
    RemoteJobOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.scheduler.instigation import (
    InstigatorState,
    InstigatorStatus,
    SensorInstigatorData,
)
from dagster._core.test_utils import create_run_for_test
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster._daemon.types import DaemonHeartbeat

from incload_assets.checks.observation import records
from incload_assets.checks.registry import check_names
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import Window, window_of
from incload_assets.history.load_row import LoadRow
from incload_assets.history.loads_table import LoadsTable
from incload_assets.monitoring.dashboard.evaluate import Reading
from incload_assets.monitoring.metrics import Sample
from incload_assets.platform.lake import Lake
from incload_assets.progress.observed import SENSOR, Observed, Pass, keep_observed
from incload_assets.progress.run_tags import TABLE_TAG
from incload_assets.progress.verdicts import AT

SHARES = (0.04, 0.06, 0.42, 0.33, 0.12)
"""The share of each phase in a load's time; the rest belongs to none."""
NEWEST = timedelta(days=15)
REPOSITORY = RemoteRepositoryOrigin(
    InProcessCodeLocationOrigin(LoadableTargetOrigin(module_name="made_up"), location_name="made_up"), "made_up"
)
"""Of sensors and runs; nothing is loaded from it."""


def reading(samples: Iterable[Sample]) -> Reading:
    """Literal samples by the metric's name."""
    found: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        found[sample.metric].append(sample)
    return dict(found)


@dataclass
class MadeUp:
    """Tables, and what is told about them.

    Args:
        instance: With sensors, checks, runs and a daemon.
        lake: With ``_loads``.
        tables: By name.
        at: The present instant.
    """

    instance: dg.DagsterInstance
    lake: Lake
    tables: Mapping[str, Table]
    at: datetime
    rows: list[LoadRow] = field(default_factory=list)
    looked: dict[str, str] = field(default_factory=dict)

    def append(self, *rows: LoadRow) -> None:
        """Tell of more loads."""
        loads = LoadsTable(self.lake)
        assert loads.append(rows, after=loads.commits())
        self.rows += rows

    def sensor(self, name: str, seen: Observed, *, trouble: str = "") -> None:
        """Tell what the sensor last saw of a table, and why it has not seen anything since."""
        keep_observed(self.instance, self.tables[name], replace(seen, trouble=trouble))
        self.looked[name] = self.at.isoformat() if trouble else seen.at
        origin, at = RemoteInstigatorOrigin(REPOSITORY, SENSOR), self.at.timestamp()
        cursor = Pass(self.at.isoformat(), self.looked).as_text()
        told = SensorInstigatorData(last_tick_timestamp=at, last_tick_success_timestamp=at, cursor=cursor)
        state = InstigatorState(origin, InstigatorType.SENSOR, InstigatorStatus.RUNNING, told)
        known = self.instance.get_instigator_state(state.instigator_origin_id, state.selector_id)
        (self.instance.update_instigator_state if known else self.instance.add_instigator_state)(state)

    def check(
        self, name: str, check: str, passed: bool = True, description: str = "As it should be.", **metadata: object
    ) -> None:
        """Tell what a check found."""
        evaluation = dg.AssetCheckEvaluation(
            asset_key=self.tables[name].key,
            check_name=check,
            passed=passed,
            severity=dg.AssetCheckSeverity.WARN if check in ("gaps", "quarantine") else dg.AssetCheckSeverity.ERROR,
            description=description,
            metadata={AT: self.at.isoformat(), **metadata},  # type: ignore[dict-item]
        )
        self.instance.report_runless_asset_event(evaluation)

    def run(self, name: str, status: dg.DagsterRunStatus) -> None:
        """Tell of a run that is under way."""
        job = f"load_{name}"
        origin = RemoteJobOrigin(REPOSITORY, job)
        create_run_for_test(
            self.instance, job_name=job, status=status, tags={TABLE_TAG: name}, remote_job_origin=origin
        )

    def beat(self) -> None:
        """Tell that Dagster's daemon is alive."""
        self.instance.add_daemon_heartbeat(DaemonHeartbeat(self.at.timestamp(), "SENSOR", "made up"))


@contextmanager
def made_up(root: Path, tables: Mapping[str, Table], at: datetime) -> Iterator[MadeUp]:
    """Nothing but tables, a lake and an instance.

    Args:
        root: A folder.
        tables: By name.
        at: The present instant, aware.
    """
    root.mkdir(parents=True, exist_ok=True)
    with dg.DagsterInstance.local_temp(str(root)) as instance:
        yield MadeUp(instance, Lake(str(root / "lake")), tables, at)


def row(table: Table, window: Window, ended_at: datetime, run: int = 0, **values: object) -> LoadRow:
    """A load of a window.

    Args:
        table: The table.
        window: The window.
        ended_at: When it ended.
        run: Makes the identifier of the run.
        values: Of other columns.
    """
    given: dict[str, object] = {
        "table": table.name, "window": window.key, "window_start": window.start, "window_end": window.end,
        "due_at": window.end + table.due_after, "outcome": "loaded", "ended_at": ended_at, "instance": "made up",
        "asked_at": ended_at - timedelta(seconds=9), "event": 0,
        "run_id": str(UUID(int=random.Random(run).getrandbits(128), version=4)),
        "trigger": "sensor", "why": "new", "attempt": 1,
    }  # fmt: skip
    return LoadRow(**{**given, **values})  # type: ignore[arg-type]


def timed(one: LoadRow, seconds: float) -> LoadRow:
    """A load that took so long, with its phases."""
    took = [round(share * seconds, 3) for share in SHARES]
    start, parts = one.ended_at.timestamp() - seconds, []
    for name, length in zip(("prepare", "detect", "ingest", "merge", "reconcile"), took, strict=True):
        parts.append({"phase": name, "start": start, "seconds": length})
        start += length
    phases = {part["phase"]: part["seconds"] for part in parts}
    return replace(one, seconds=seconds, timeline=json.dumps(parts), **phases)  # type: ignore[arg-type]


def counted(one: LoadRow, read: int, fate: random.Random) -> LoadRow:
    """A load that read so many rows, with what became of them."""
    quarantined = fate.choice((0, 0, 0, read // 90))
    duplicate, stale = read // 50, read // 70
    applied = read - quarantined - duplicate - stale
    deleted, updated = applied // 20, applied // 3
    number = fate.getrandbits(63)
    return replace(
        one, rows_read=read, quarantined=quarantined, duplicate=duplicate, stale=stale, applied=applied,
        deleted=deleted, updated=updated, inserted=applied - deleted - updated, bytes=read * 87,
        position=f"{1 + read // 900} files, {read * 210:,} bytes", fingerprint=f"{number:016x}", commit="merge",
        code_version="1", table_version=fate.randrange(400), log_version=fate.randrange(400),
        proof=json.dumps({"keys": applied, "pending": 0, "present": applied, "log_hash": number, "table_hash": number}),
    )  # fmt: skip


ERRORS = (
    ("SourceUnavailable", "the database does not answer: connection refused. Remedy: it is tried again."),
    ("ContractViolation", "38 of 120 rows break the contract: 38 x amount: is not above 0 (first in b.csv row 7)."),
    ("ConcurrentLoad", "another load won three times. Remedy: it is tried again."),
)


def weeks(world: MadeUp, names: Sequence[str], seed: int = 7) -> None:
    """Tell of two weeks of loads of tables, most of which went well, and of what is watched now.

    The first table is late, the second one's source does not answer, the third has rows in quarantine, the fourth has
    lost rows that a reconciliation found, the fifth one's sensor is stopped with a window that waits for a person.
    """
    fate, run, rows = random.Random(seed), 0, []
    for number, name in enumerate(names):
        table = world.tables[name]
        keys = table.partitions_def.get_partition_keys(current_time=world.at)
        windows = [window_of(table.partitions_def, key, name) for key in keys]
        windows = [w for w in windows if world.at - NEWEST < w.end <= world.at][: -1 if number == 0 else None]
        usual = fate.choice((240, 900, 4_000, 18_000))
        for window in windows:
            end = min(window.end + timedelta(seconds=fate.uniform(20, 200)), world.at)
            run += 1
            if fate.random() < 0.03 + 0.1 * (number == 1):
                kind, message = ERRORS[number % len(ERRORS)]
                rows.append(row(table, window, end, run, outcome="failed", error_class=kind, error=message))
                run, end = run + 1, min(end + timedelta(minutes=5), world.at)
            read = int(usual * fate.uniform(0.6, 1.4)) // (24 if "hour" in repr(table.partitions_def).lower() else 1)
            loaded = counted(timed(row(table, window, end, run), fate.uniform(2, 9)), read, fate)
            rows.append(loaded)
            if fate.random() < 0.08 and end + timedelta(hours=30) < world.at:
                run += 1
                again = row(table, window, end + timedelta(hours=fate.uniform(2, 30)), run, why="changed")
                rows.append(counted(timed(again, fate.uniform(2, 6)), max(read // 20, 1), fate))
    world.append(*sorted(rows, key=lambda one: one.ended_at))
    for number, name in enumerate(names):
        _watch(world, name, number, fate)
    world.run(names[0], dg.DagsterRunStatus.QUEUED)
    world.run(names[2], dg.DagsterRunStatus.STARTED)
    world.beat()


def _watch(world: MadeUp, name: str, number: int, fate: random.Random) -> None:
    """Tell of the sensor and the checks of one table."""
    table, keys = world.tables[name], world.tables[name].partitions_def.get_partition_keys(current_time=world.at)
    seen = world.at - timedelta(seconds=fate.uniform(2, 14))
    windows = [window_of(table.partitions_def, key, name) for key in keys]
    ended = [window for window in windows if window.end + table.due_after <= world.at][-1]
    late, stuck, newest = number == 0, number == 4, ended.key
    world.sensor(
        name,
        Observed(
            at=seen.isoformat(),
            windows={
                "loaded": len(keys) - late - stuck, "missing": int(late), "failed": int(stuck), "drifted": 0,
                "in_progress": 0, "waiting": 0,
            },
            verdict="late" if late else "fresh",
            overdue=(seen - ended.end - table.due_after).total_seconds() if late else 0.0,
            pending={newest: (ended.end + timedelta(minutes=14)).isoformat()} if late else {},
            waiting_bytes=1_340_000 if late else 0,
            waiting_records=12_400 if late else 0,
            stopped={newest: "it differed again right after two loads"} if stuck else {},
            failing={newest: "contract"} if stuck else {},
        ),
        trouble=f"{name}: the source is down. Remedy: look after it." if number == 1 else "",
    )  # fmt: skip
    for check in check_names(table):
        if check == "reconciliation":
            lost = number == 3
            world.check(
                name, check, not lost, "Rows of 2 windows differ." if lost else "Source, log and table agree.",
                windows_differing=2 * lost, windows_drifted=int(lost), keys_pending=14 * lost,
            )  # fmt: skip
        elif check == "quarantine" and number == 2:
            found = records(
                ["reason", "rows", "for example"],
                [
                    ("amount: is not above 0", 31, f"{newest}: b.csv row 7"),
                    ("payer: must not be null", 4, f"{newest}: a.csv row 2"),
                ],
            )
            world.check(name, check, False, "35 rows of 3,100 (1.1%) in quarantine.", reasons=found)
        elif check == "headroom":
            world.check(
                name, check, number != 5, "How much of the retention is left.", share_left=0.2 if number == 5 else 0.93
            )
        else:
            overdue = late and check == "freshness"
            told = f"Partition {newest} is overdue." if overdue else "As it should be."
            world.check(name, check, not overdue, told)


def now() -> datetime:
    """The present instant, to the second."""
    return datetime.now(UTC).replace(microsecond=0)
