"""Collects what Dagster and the logs know about loads into the table ``_loads``, each load once.

Loads record nothing there themselves, so it costs them nothing and no crash can leave a gap: what a collection misses,
the next one finds. Successful loads are found by the storage id of their event, failed ones by the update of their run.
Each code location collects the loads of its tables, from the last one of these that ``_loads`` has: another location on
the same instance may be ahead of it.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc

from incload_assets.change_log.log import ChangeLog
from incload_assets.change_log.window_records import WindowRecord
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import Window
from incload_assets.history.load_row import COUNTS, PHASES, LoadRow, Trigger
from incload_assets.history.loads_table import LoadsTable
from incload_assets.history.manual_actions import marked, runs_by_hand, wiped
from incload_assets.load.faults import Faults
from incload_assets.platform.dagster_private import (
    BACKFILL_ID_TAG,
    SCHEDULE_NAME_TAG,
    SENSOR_NAME_TAG,
    USER_TAG,
    RunsFilter,
)
from incload_assets.platform.lake import Lake
from incload_assets.progress.audit import DAMAGED, AuditEntry, record_once
from incload_assets.progress.checkpoint import (
    DATA_VERSION_TAG,
    ERROR_CLASSES,
)
from incload_assets.progress.request import REPAIR_PREFIX, Request
from incload_assets.progress.run_tags import FAILURE_TAG, LOADS_NOTHING, STARTED_BY_TAG, own_tag

PAGE = 1000
OVERLAP = timedelta(hours=1)
"""How far back failed runs are looked at again, because a run's end may be recorded late."""
ATTEMPTS = 5

Emit = Callable[[Sequence[LoadRow]], object]


def collect(instance: dg.DagsterInstance, tables: Iterable[Table], lake: Lake, emit: Emit = lambda _: None) -> int:
    """Appends the loads of tables that ended since the last collection to ``_loads``; returns the number of rows.

    ``emit`` gets the new rows before they are appended: what it does may be repeated, but is never left out. Nothing is
    appended while the audit is damaged, where people's runs are recorded first.
    """
    loads, known = LoadsTable(lake), {table.key: table for table in tables}
    for _ in range(ATTEMPTS):
        commits, collector = loads.commits(), _Collector(instance, known, lake)
        rows = collector.rows(loads)
        try:
            record_once(lake, [*runs_by_hand(rows, collector.reasons), *collector.statuses])
        except DAMAGED:  # the audit is damaged: its entries are made of the same events when it is whole again
            return 0
        if not rows:
            return 0
        emit(rows)
        if loads.append(rows, after=commits):
            loads.compact()
            return len(rows)
    return 0  # others have collected meanwhile, again and again


class _Collector:
    """One collection: the loads that ``_loads`` lacks."""

    def __init__(self, instance: dg.DagsterInstance, tables: Mapping[dg.AssetKey, Table], lake: Lake) -> None:
        self.instance, self.tables, self.lake = instance, tables, lake
        self.identity = identity_of(instance)
        self.windows: dict[tuple[dg.AssetKey, str], Window | None] = {}
        self.statuses: list[AuditEntry] = []
        self.reasons: dict[str, str] = {}
        """The reasons that people gave for their runs, by run."""

    def rows(self, loads: LoadsTable) -> list[LoadRow]:
        """The loads that the table lacks, oldest first."""
        seen = loads.columns(["table", "window", "instance", "event", "run_id", "outcome", "ended_at"])
        names = {key: table.name for key, table in self.tables.items()}
        own = pc.field("table").isin(pa.array([*names.values()], pa.string())) & (pc.field("instance") == self.identity)
        here = seen.filter(own)
        since = pc.max(here["ended_at"]).as_py()
        found = [*self._loaded(after=pc.max(here["event"]).as_py() or 0), *self._failed(since)]
        self.statuses += wiped(self.instance, names, self.identity)
        told = {*pc.unique(seen["table"]).to_pylist()}
        if bare := [table for table in self.tables.values() if table.name not in told]:
            found += self._logged(bare, {(row.table, row.window) for row in found if row.outcome == "loaded"})
        return sorted(_without(seen, found), key=lambda row: (row.ended_at, row.event))

    def _loaded(self, after: int) -> Iterator[LoadRow]:
        """The materializations since an event."""
        while True:
            wanted = dg.EventRecordsFilter(dg.DagsterEventType.ASSET_MATERIALIZATION, after_cursor=after)
            records = self.instance.event_log_storage.get_event_records(wanted, limit=PAGE, ascending=True)
            runs = self._runs({record.run_id for record in records if record.asset_key in self.tables})
            for record in records:
                if (row := self._of_materialization(record, runs.get(record.run_id))) is not None:
                    yield row
            if len(records) < PAGE:
                return
            after = records[-1].storage_id
            if not runs and self._newest() <= after:  # the others are of another location
                return

    def _newest(self) -> int:
        """The storage id of the last materialization of the tables."""
        told = [record.asset_entry for record in self.instance.get_asset_records([*self.tables])]
        return max((entry.last_materialization_storage_id or 0 for entry in told), default=0)

    def _of_materialization(self, record: dg.EventLogRecord, run: dg.RunRecord | None) -> LoadRow | None:
        table, found = self.tables.get(record.asset_key) if record.asset_key else None, record.asset_materialization
        if table is None or found is None or record.partition_key is None:
            return None
        window, metadata = self._window(table, record.partition_key), found.metadata
        if window is None or "rows_read" not in metadata:  # a person marked it, or another version of the code
            if not record.run_id and "rebuilt" not in metadata:
                self.statuses.append(marked(table.name, record, self.identity))
            return None
        values: dict[str, Any] = {name: getattr(value, "value", None) for name, value in metadata.items()}
        numbers: dict[str, Any] = {
            name: values[name] for name in (*COUNTS, "bytes") if isinstance(values.get(name), int)
        }
        numbers |= {name: float((values.get("phases") or {}).get(name, 0)) for name in PHASES}
        return LoadRow(
            **self._about(table, window, run, record.run_id),
            outcome="loaded",
            ended_at=datetime.fromtimestamp(record.timestamp, UTC),
            event=record.storage_id,
            seconds=float(values.get("seconds") or 0),
            timeline=json.dumps(values.get("timeline") or []),
            **numbers,
            position=str(values.get("source_position") or ""),
            fingerprint=str((found.tags or {}).get(DATA_VERSION_TAG, "")),
            code_version=str((found.tags or {}).get("dagster/code_version", "")) or table.code_version,
            table_version=values.get("delta_version"),
            log_version=values.get("log_version"),
            commit=str(values.get("commit") or ""),
            proof=json.dumps(values.get("proof") or {}),
        )

    def _failed(self, since: datetime | None) -> Iterator[LoadRow]:
        """The failed attempts of runs that ended since the last load that is known."""
        statuses = [dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]
        wanted = RunsFilter(statuses=statuses, updated_after=None if since is None else since - OVERLAP)
        cursor = None
        while records := self.instance.get_run_records(wanted, limit=PAGE, cursor=cursor):
            for record in records:
                run = record.dagster_run
                of_others = run.asset_selection and run.asset_selection.isdisjoint(self.tables)
                if not of_others and not LOADS_NOTHING.items() <= run.tags.items():
                    yield from self._of_failed_run(record)
            cursor = records[-1].dagster_run.run_id

    def _of_failed_run(self, record: dg.RunRecord) -> Iterator[LoadRow]:
        run = record.dagster_run
        logged = self.instance.all_logs(run.run_id, of_type=_TOLD)
        events = [e for log in logged if (e := log.dagster_event) is not None]
        errors, classes = _errors_in(events)
        cancelled = run.status is dg.DagsterRunStatus.CANCELED
        cause = own_tag(run, FAILURE_TAG)
        for key in {e.asset_materialization_planned_data.asset_key for e in events if e.event_type is _PLANNED}:
            if (table := self.tables.get(key)) is None:
                continue
            done = {e.partition for e in events if e.event_type is _MATERIALIZED and e.asset_key == key}
            for partition in errors or [k for k in partitions_of(table, run) if k not in done]:
                if (window := self._window(table, partition)) is None:
                    continue
                yield LoadRow(
                    **self._about(table, window, record, run.run_id),
                    outcome="cancelled" if cancelled else "failed",
                    ended_at=datetime.fromtimestamp(record.end_time or record.update_timestamp.timestamp(), UTC),
                    error_class="" if cancelled else classes.get(partition) or (cause or "Killed"),
                    error=errors.get(partition, ""),
                    code_version=table.code_version,
                )

    def _logged(self, bare: Iterable[Table], known: set[tuple[str, str]]) -> Iterator[LoadRow]:
        """The windows of the logs that no event reports, for tables without rows in ``_loads`` (any more).

        Landings of runs of this instance are left out, as a run records its load itself when it has ended. Unreadable
        logs are read by a later collection.
        """
        faults = Faults(self.lake)
        for table in bare:
            records: Mapping[str, WindowRecord] = {}
            with faults.of(table):
                records = ChangeLog(table, self.lake).records()
            here = self._runs({record.run_id for record in records.values()})
            for key, record in records.items():
                is_told = (table.name, key) in known or record.run_id in here
                window = None if is_told else self._window(table, key)
                if window is not None:
                    yield LoadRow(
                        **self._about(table, window, None, record.run_id),
                        outcome="loaded",
                        ended_at=record.landed_at,
                        rows_read=record.rows_read,
                        quarantined=record.rejected,
                        position=record.summary,
                        fingerprint=record.fingerprint,
                        code_version=record.code_version,
                    )

    def _about(self, table: Table, window: Window, record: dg.RunRecord | None, run_id: str) -> dict[str, Any]:
        """The fields of every row: window and run, and the reason and origin of the run."""
        tags = record.dagster_run.tags if record else {}
        trigger, by = _asked_by(tags)
        request = Request.from_tags(tags)
        self.reasons[run_id] = request.because
        return {
            "table": table.name,
            "window": window.key,
            "window_start": window.start,
            "window_end": window.end,
            "due_at": window.end + table.due_after,
            "asked_at": record.create_timestamp.replace(tzinfo=UTC) if record else None,
            "instance": self.identity,
            "run_id": run_id,
            "trigger": trigger if record else "unknown",
            "asked_by": by,
            "why": reason_of(tags, window.key) if record else "",
            "attempt": request.attempt,
        }

    def _window(self, table: Table, key: str) -> Window | None:
        at = (table.key, key)
        if at not in self.windows:
            self.windows[at] = next(iter(table.known_windows([key])), None)
        return self.windows[at]

    def _runs(self, run_ids: set[str]) -> dict[str, dg.RunRecord]:
        chosen, found = sorted(run_ids), dict[str, dg.RunRecord]()
        for start in range(0, len(chosen), 100):
            records = self.instance.get_run_records(dg.RunsFilter(run_ids=chosen[start : start + 100]))
            found |= {record.dagster_run.run_id: record for record in records}
        return found


_PLANNED, _MATERIALIZED = dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED, dg.DagsterEventType.ASSET_MATERIALIZATION
_TOLD = {_PLANNED, _MATERIALIZED, dg.DagsterEventType.STEP_FAILURE}
"""The events with the outcome of each partition of a failed run."""


def _errors_in(events: Iterable[dg.DagsterEvent]) -> tuple[dict[str, str], dict[str, str]]:
    """Messages and kinds of errors by partition key; empty if the process left none."""
    for event in events:
        failure = event.step_failure_data.user_failure_data if event.is_step_failure else None
        if failure is not None and (kinds := failure.metadata.get(ERROR_CLASSES)) is not None:
            texts = {name: str(value.value) for name, value in failure.metadata.items() if name != ERROR_CLASSES}
            return texts, dict(getattr(kinds, "data", None) or {})
    return {}, {}


def _without(seen: pa.Table, found: Sequence[LoadRow]) -> list[LoadRow]:
    """The loads that the table lacks, by their runs, whose identifiers no two instances share.

    Not by the identity of an instance: processes that ask a new instance for it at once may get different ones.
    """
    runs = pa.array({row.run_id for row in found}, pa.string())
    known = seen.filter(pc.is_in(seen["run_id"], value_set=runs)).select(["run_id", "table", "window", "event"])
    have = {tuple(row.values()) for row in known.to_pylist()}
    return [row for row in found if (row.run_id, row.table, row.window, row.event) not in have]


def identity_of(instance: dg.DagsterInstance) -> str:
    """The identity of an instance's storage: another one numbers its events from 1 again."""
    return str(instance.run_storage.get_run_storage_id())  # type: ignore[attr-defined]  # every SQL storage has one


def _asked_by(tags: Mapping[str, str]) -> tuple[Trigger, str]:
    """The kind of the requester of a run, and the requester's name."""
    user = tags.get(USER_TAG, "")
    for trigger, tag in _TRIGGERS:
        if tag in tags:
            return trigger, user or tags[tag]
    return "person", user


_TRIGGERS: tuple[tuple[Trigger, str], ...] = (
    ("backfill", BACKFILL_ID_TAG),
    ("sensor", SENSOR_NAME_TAG),
    ("schedule", SCHEDULE_NAME_TAG),
    ("terminal", STARTED_BY_TAG),
)


def reason_of(tags: Mapping[str, str], key: str) -> str:
    """Why a window was loaded, by the tags of the run: the ``why`` of a :class:`LoadRow`."""
    request = Request.from_tags(tags)
    if request.action != "load":
        return request.action
    if not request.attempt:
        return "asked"
    if request.fingerprints.get(key, "").startswith(REPAIR_PREFIX):
        return "repair"
    return "retry" if request.attempt > 1 else "new"


def partitions_of(table: Table, run: dg.DagsterRun) -> list[str]:
    """The partition keys that a run was to load, by its tags."""
    request = Request.from_tags(run.tags)
    if request.only:
        return [request.only]
    bounds = (request.first, request.last)
    if "" in bounds:
        return []
    if all(key in table.closed for key in bounds):
        start, end = (table.closed[key].start for key in bounds)
        return [key for key, window in table.closed.items() if start <= window.start <= end]
    return list(table.partitions_def.get_partition_keys_in_range(dg.PartitionKeyRange(*bounds)))
