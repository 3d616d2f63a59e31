"""Everything that metrics are made of, gathered from storage: no source is read, and no Spark is needed."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from incload_assets.checks.registry import LIGHT_CHECKS, check_names
from incload_assets.declaration.table import Table
from incload_assets.history.load_row import LoadRow
from incload_assets.history.loads_table import LoadsTable
from incload_assets.history.sums import Sums, sums_at
from incload_assets.load.faults import unreadable_of_lake, unreadable_tables
from incload_assets.monitoring.due_windows import window_length
from incload_assets.platform.dagster_private import (
    IN_PROGRESS_RUN_STATUSES,
    BulkActionsFilter,
    BulkActionStatus,
    InstigatorState,
)
from incload_assets.platform.failures import masked
from incload_assets.platform.lake import Lake
from incload_assets.platform.settings import current_settings
from incload_assets.progress.observed import NEVER, Observed, observed_tables, pass_in, sensors
from incload_assets.progress.pause import Pause, pauses
from incload_assets.progress.request import Request
from incload_assets.progress.silence import ALL, silence_of, silences
from incload_assets.progress.verdicts import last_verdicts, verdict_at

OF_PERIODS = (
    "table", "window", "window_start", "window_end", "due_at", "outcome", "asked_at", "ended_at", "instance", "event",
    "run_id", "trigger", "why", "error_class", "seconds", "inserted", "updated", "deleted", "bytes",
)  # fmt: skip
"""The columns of recent loads that the indicators of a period depend on."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """The last result of a check.

    Args:
        severity: ``ERROR`` or ``WARN``.
        at: When the table was observed, aware.
        values: Its numbers, texts and JSON, by name.
    """

    passed: bool
    severity: str
    at: datetime
    description: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Watch:
    """The sensor's looks at a table.

    Args:
        running: Whether the sensor is on; a person may have stopped it.
        tick: When it last looked at the table, aware; None if never.
        success: When it last did so without an error.
        seen: What its last successful look saw.
        trouble: Why its last look failed, with the remedy; empty if it did not, or that is unknown.
    """

    running: bool = True
    tick: datetime | None = None
    success: datetime | None = None
    seen: Observed | None = None
    trouble: str = ""

    @property
    def failed(self) -> bool:
        """True if its last look did not end well."""
        return self.tick is not None and (self.success is None or self.success < self.tick)


@dataclass(frozen=True, kw_only=True)
class TableFacts:
    """The facts that storage has about one table.

    Args:
        loads: Number of attempts by outcome and kind of error (empty for loaded), of all time.
        totals: Sums over all attempts by column: the counts, ``bytes``, the phases and ``seconds``.
        late_rows, late_bytes: Changed rows, and bytes, of loads of windows that had been loaded after their end before.
        on_time: Number of windows that were loaded when they were due.
        first, newest: When the table was loaded for the first and the last time; None if never.
        newest_window: End of the newest window that is loaded.
        recent: The attempts that the last two periods of the objectives depend on, oldest first.
        under_way: Number of runs of the table by status, ``queued`` or ``started``.
        backfills: Number of Dagster's backfills of the table that are not finished.
        pause, silence: The pause of its loads and the silence of messages about it that are in force.
        unreadable: Why the table or its log cannot be read; None if they can be.
    """

    table: Table
    loads: Mapping[tuple[str, str], int] = field(default_factory=dict)
    totals: Mapping[str, float] = field(default_factory=dict)
    late_rows: int = 0
    late_bytes: int = 0
    on_time: int = 0
    first: datetime | None = None
    newest: datetime | None = None
    newest_window: datetime | None = None
    recent: Sequence[LoadRow] = ()
    watch: Watch = Watch(running=False)
    checks: Mapping[str, Check] = field(default_factory=dict)
    under_way: Mapping[str, int] = field(default_factory=dict)
    backfills: int = 0
    pause: Pause | None = None
    unreadable: str | None = None
    silence: Pause | None = None


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The facts that storage has about all tables at an instant.

    Args:
        heartbeats: When each of Dagster's daemons last gave a sign of life, by type.
        price_per_hour: Price of an hour of the computing that a load occupies; 0: unknown.
        silenced: Whether messages about all tables and the machinery are silenced.
        unreadable: Why the audit or the decisions about rows cannot be read, a line for each.
        shared: What was computed from the facts of a table and is needed again, by table name.
    """

    at: datetime
    tables: Mapping[str, TableFacts]
    heartbeats: Mapping[str, datetime] = field(default_factory=dict)
    price_per_hour: float = 0.0
    silenced: bool = False
    unreadable: Sequence[str] = ()
    shared: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)


def gather(
    instance: dg.DagsterInstance,
    tables: Iterable[Table],
    lake: Lake,
    at: datetime,
    *,
    sums: Mapping[str, Sums] | None = None,
    whole: bool = False,
) -> Facts:
    """The facts at an instant, from ``_loads`` and Dagster; a past instant takes only loads until then.

    Args:
        instance: The Dagster instance.
        tables: What the facts are about.
        lake: Its ``_loads`` is up to date.
        at: Aware.
        sums: The sums of the tables at the instant; None: they are computed.
        whole: Whether recent loads have all their columns, for pages, or only those that indicators depend on.
    """
    tables = list(tables)
    names = [table.name for table in tables]
    loads = LoadsTable(lake.followed())
    if sums is None:
        [sums] = sums_at(loads, names, [at])
    since = min((_relevant_since(table, at) for table in tables), default=at)
    recent: dict[str, list[LoadRow]] = defaultdict(list)
    for row in loads.rows(None if whole else OF_PERIODS, since=since, tables=names):
        if row.ended_at <= at:
            recent[row.table].append(row)
    sensors, checks, under_way = watches(instance, tables), checks_now(instance, tables), _under_way(instance)
    under_backfill, paused, silenced = backfills(instance), pauses(lake, at), silences(lake, at)
    unreadable = unreadable_tables(tables, lake)
    return Facts(
        at=at,
        tables={
            table.name: TableFacts(
                table=table,
                recent=recent.get(table.name, ()),
                watch=(watch := sensors.get(table.name, Watch(running=False))),
                checks=_as_last_seen(checks.get(table.name, {}), watch.seen),
                under_way=under_way.get(table.name, {}),
                backfills=under_backfill[table.key],
                pause=paused.get(table.name),
                unreadable=unreadable.get(table.name),
                silence=silence_of(silenced, table.name),
                **vars(sums[table.name]),
            )
            for table in tables
        },
        heartbeats={
            kind: datetime.fromtimestamp(beat.timestamp, UTC) for kind, beat in instance.get_daemon_heartbeats().items()
        },
        price_per_hour=current_settings().price_per_hour,
        silenced=any(one.table == ALL for one in silenced),
        unreadable=[str(error) for error in unreadable_of_lake(lake).values()],
    )


def _relevant_since(table: Table, at: datetime) -> datetime:
    """The start of the period before the present one, earlier by the time in which its first window may be loaded."""
    return at - 2 * table.slo.period - table.due_after - window_length(table, at)


def watches(instance: dg.DagsterInstance, tables: Sequence[Table]) -> dict[str, Watch]:
    """The looks at tables by name; where several code locations have such a sensor, each table's own says it.

    A table that no sensor has looked at yet is taken to be of the location of the others.
    """
    seen, found = observed_tables(instance, tables), dict[str, Watch]()
    of_all = {one.location for one in seen.values()}
    for location, state, data in sensors(instance):
        last, at = pass_in(data.cursor), _instant(data.last_tick_timestamp)
        failed = at is not None and (data.last_tick_success_timestamp or 0) < at.timestamp()
        for table in tables:
            known = seen.get(table.name)
            own = {known.location} if known is not None else of_all
            if own and own.isdisjoint(("", location)):
                continue
            tick = last.last_look(table.name) if last is not None else None
            watch = Watch(running=state.is_running) if tick is None else _watch(state.is_running, tick, known)
            found[table.name] = replace(watch, tick=at, trouble=_trouble(instance, state)) if failed else watch
    return found


def _watch(running: bool, tick: datetime, seen: Observed | None) -> Watch:
    """The looks at a table; the last one ended at ``tick``."""
    if seen is None:
        return Watch(running=running, tick=tick)
    if not seen.trouble:
        return Watch(running=running, tick=tick, success=tick, seen=seen.seen_at(tick))
    never = seen.at == NEVER
    return Watch(
        running=running,
        tick=tick,
        success=None if never else seen.time,
        seen=None if never else seen,
        trouble=seen.trouble,
    )


def _trouble(instance: dg.DagsterInstance, state: InstigatorState) -> str:
    """The innermost cause of the failure of a sensor's last tick."""
    ticks = instance.get_ticks(state.instigator_origin_id, state.selector_id, limit=1)
    error = ticks[0].error if ticks else None
    while error is not None and error.cause is not None:
        error = error.cause
    return "" if error is None else masked(re.sub(r"^[\w.]+: ", "", error.message.strip(), count=1))


def _instant(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def checks_now(
    instance: dg.DagsterInstance, tables: Sequence[Table], wanted: Callable[[str], bool] = lambda _: True
) -> dict[str, dict[str, Check]]:
    """The last results of checks, by table and name: one query, and one more for each that has no result now."""
    keys = {
        dg.AssetCheckKey(table.key, name): table.name for table in tables for name in check_names(table) if wanted(name)
    }
    found: dict[str, dict[str, Check]] = defaultdict(dict)
    for key, verdict in last_verdicts(instance, keys).items():
        found[keys[key]][key.name] = _check_of(*verdict)
    return found


def _as_last_seen(checks: Mapping[str, Check], seen: Observed | None) -> dict[str, Check]:
    """The checks with the time of the sensor's last look, if it is later: their results are recorded only when new."""
    return {
        name: replace(check, at=max(check.at, seen.time)) if seen is not None and name in LIGHT_CHECKS else check
        for name, check in checks.items()
    }


def checks_at(instance: dg.DagsterInstance, table: Table, names: Iterable[str], at: datetime) -> dict[str, Check]:
    """The results that checks of a table had at an instant in the past, by name."""
    found = {name: verdict_at(instance, dg.AssetCheckKey(table.key, name), at) for name in names}
    return {name: _check_of(*verdict) for name, verdict in found.items() if verdict is not None}


def _check_of(at: datetime, result: dg.AssetCheckResult) -> Check:
    metadata = result.metadata or {}
    return Check(
        passed=result.passed,
        severity=result.severity.value,
        at=at,
        description=result.description or "",
        values={name: getattr(value, "value", getattr(value, "data", None)) for name, value in metadata.items()},
    )


def _under_way(instance: dg.DagsterInstance) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    statuses = [dg.DagsterRunStatus.QUEUED, *IN_PROGRESS_RUN_STATUSES]
    for run in instance.get_runs(dg.RunsFilter(statuses=statuses), limit=1000):
        if name := Request.from_tags(run.tags).table:
            found[name]["queued" if run.status is dg.DagsterRunStatus.QUEUED else "started"] += 1
    return found


def backfills(instance: dg.DagsterInstance) -> Counter[dg.AssetKey]:
    """The number of unfinished backfills by table."""
    unfinished = BulkActionsFilter(statuses=[BulkActionStatus.REQUESTED, BulkActionStatus.CANCELING])
    return Counter(
        key for backfill in instance.get_backfills(filters=unfinished) for key in set(backfill.asset_selection or ())
    )
