"""Made-up histories of loads, for tests of what is made of them: no Spark, no source, no runs."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa

from incload_assets.declaration.table import Table
from incload_assets.history.collect import identity_of
from incload_assets.history.load_row import SCHEMA, LoadRow, as_arrow
from incload_assets.history.loads_table import WRITER, LoadsTable
from incload_assets.platform.lake import Lake
from incload_assets.progress.observed import SENSOR, Observed, Pass, folder_of, keep_observed, keep_watched, pass_in

DAY = timedelta(days=1)


def named(table: Table, name: str, **changed: Any) -> Table:
    """The same declaration for a table of another name."""
    return replace(table, key=dg.AssetKey(name.split("/")), **changed)


def load(table: Table, start: datetime, instance: str = "here", **changed: Any) -> LoadRow:
    """The load of a day's window, a minute after its end."""
    end = start + DAY
    told: dict[str, Any] = {
        "table": table.name,
        "window": f"{start:%Y-%m-%d}",
        "window_start": start,
        "window_end": end,
        "due_at": end + table.due_after,
        "outcome": "loaded",
        "ended_at": end + timedelta(minutes=1),
        "instance": instance,
        "event": 1,
        "run_id": "00000000-0000-4000-8000-000000000000",
        "trigger": "sensor",
        "seconds": 2.5,
        "prepare": 0.1, "detect": 0.1, "ingest": 1.0, "merge": 1.0, "reconcile": 0.3,
        "rows_read": 10, "inserted": 5, "updated": 2, "applied": 7, "stale": 1, "duplicate": 1, "quarantined": 1,
        "bytes": 1000,
    }  # fmt: skip
    return LoadRow(**told | changed)


def record(lake: Lake, rows: Sequence[LoadRow]) -> None:
    """Append loads to ``_loads``."""
    loads = LoadsTable(lake)
    assert loads.append(rows, after=loads.commits())


def fill(lake: Lake, tables: Iterable[Table], windows: int, until: datetime, instance: dg.DagsterInstance) -> int:
    """Give many tables the same history of daily loads, in one commit; the number of rows."""
    tables = list(tables)
    here, first = identity_of(instance), until.replace(hour=0, minute=0, second=0, microsecond=0) - windows * DAY
    rows = [load(tables[0], first + n * DAY, here, event=n + 1) for n in range(windows)]
    return give(lake, rows, [table.name for table in tables])


def give(lake: Lake, rows: Sequence[LoadRow], tables: Sequence[str]) -> int:
    """Give many tables the same loads, in one commit; the number of rows."""
    of_one, place = as_arrow(rows), SCHEMA.get_field_index("table")
    parts = [of_one.set_column(place, "table", pa.array([name] * len(rows))) for name in tables]
    assert lake.append(LoadsTable(lake).uri, pa.concat_tables(parts), WRITER, 1)
    return len(rows) * len(tables)


def seen(at: datetime, **changed: Any) -> Observed:
    """What a sensor saw that has nothing to do."""
    counts = {"loaded": 3, "missing": 0, "failed": 0, "drifted": 0, "in_progress": 0, "waiting": 1}
    return Observed(**{"at": at.isoformat(), "windows": counts, "verdict": "fresh", "waiting_records": 0} | changed)


def tick(instance: dg.DagsterInstance, table: Table, observed: Observed, *, running: bool = True) -> None:
    """Record a successful look of the sensor at a table."""
    keep_observed(instance, table, observed)
    known = next((each for each in instance.all_instigator_state() if each.instigator_name == SENSOR), None)
    before = pass_in(known.sensor_instigator_data.cursor) if known and known.sensor_instigator_data else None
    looked = Pass(observed.at, {**(before.behind if before else {}), table.name: observed.at})
    keep_cursor(instance, looked.as_text(), observed.time, running=running)


def keep_cursor(
    instance: dg.DagsterInstance, cursor: str | None, at: datetime, location: str = "tables.py", *, running: bool = True
) -> None:
    """Record a tick of the sensor of a code location."""
    from dagster._core.definitions.run_request import InstigatorType
    from dagster._core.remote_origin import (
        InProcessCodeLocationOrigin,
        RemoteInstigatorOrigin,
        RemoteRepositoryOrigin,
    )
    from dagster._core.scheduler.instigation import InstigatorState, InstigatorStatus, SensorInstigatorData
    from dagster._core.types.loadable_target_origin import LoadableTargetOrigin

    target = LoadableTargetOrigin(python_file="tables.py")
    code = InProcessCodeLocationOrigin(target, location_name=location)
    origin = RemoteInstigatorOrigin(RemoteRepositoryOrigin(code, "tables"), SENSOR)
    seconds = at.timestamp()
    data = SensorInstigatorData(last_tick_timestamp=seconds, cursor=cursor, last_tick_success_timestamp=seconds)
    status = InstigatorStatus.RUNNING if running else InstigatorStatus.STOPPED
    state = InstigatorState(origin, InstigatorType.SENSOR, status, data)
    known = instance.get_instigator_state(state.instigator_origin_id, state.selector_id)
    (instance.update_instigator_state if known else instance.add_instigator_state)(state)


def look_now(instance: dg.DagsterInstance, names: Iterable[str], folder: Path) -> None:
    """Have the sensor of a project's folder just have looked at its tables, and found nothing new."""
    at, newest = datetime.now(UTC), instance.event_log_storage.get_maximum_record_id() or 0
    keep_watched(instance, "tables.py", names, folder_of(folder))
    keep_cursor(instance, Pass(at.isoformat(), marks=[(newest, at.isoformat())] * 2).as_text(), at)


def evaluated(
    instance: dg.DagsterInstance, table: Table, name: str, passed: bool = True, error: bool = False, **values: float
) -> None:
    """Record the result of a check."""
    severity = dg.AssetCheckSeverity.ERROR if error else dg.AssetCheckSeverity.WARN
    told = dg.AssetCheckEvaluation(
        asset_key=table.key, check_name=name, passed=passed, severity=severity,
        metadata={key: dg.MetadataValue.float(float(value)) for key, value in values.items()},
    )  # fmt: skip
    instance.report_runless_asset_event(told)


def midnight(at: datetime | None = None) -> datetime:
    """The beginning of today, or of another day."""
    return (at or datetime.now(UTC)).replace(hour=0, minute=0, second=0, microsecond=0)


def days_before(at: datetime, count: int) -> Iterator[datetime]:
    """The beginnings of the days before an instant, oldest first."""
    return (midnight(at) - n * DAY for n in range(count, 0, -1))
