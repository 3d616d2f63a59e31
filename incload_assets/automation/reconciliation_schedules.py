"""Schedules of deeper reconciliations: the more depends on a table, the more of its windows are compared again.

Every night compares the newest windows of all tables. These schedules add older ones, in runs of a bounded size, so
that none takes hours and a failed one is repeated alone. Each run also compares what earlier ones found wrong.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

import dagster as dg

from incload_assets.automation.check_jobs import CHECK_RECONCILIATION
from incload_assets.change_log.log import ChangeLog
from incload_assets.change_log.window_records import WindowRecord
from incload_assets.declaration.slo import Criticality
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import now
from incload_assets.load.faults import Faults, unheard
from incload_assets.platform.lake import Lake

WINDOWS_PER_RUN = 50
"""Most windows that one run compares."""


@dataclass(frozen=True, kw_only=True)
class Depth:
    """A schedule, and how many of the newest windows it compares by a table's criticality; others are left out."""

    name: str
    cron: str
    windows: Mapping[Criticality, float]


DEPTHS = (
    Depth(name="reconcile_weekly", cron="40 5 * * 0", windows={"high": 60, "normal": 30}),
    Depth(name="reconcile_monthly", cron="40 6 1 * *", windows={"high": inf, "normal": inf}),
)


def reconciliation_schedules(tables: Iterable[Table], job: dg.JobDefinition) -> list[dg.ScheduleDefinition]:
    """The schedules over all tables, by the job that reconciles them."""
    return [_schedule(depth, list(tables), job) for depth in DEPTHS]


def run_requests(
    depth: Depth, tables: Iterable[Table], lake: Lake, tick: str, hear: Callable[..., object] = unheard
) -> Iterator[dg.RunRequest]:
    """The runs of one tick, each of one table, newest windows first. The same tick requests no run twice.

    For a table whose log cannot be read, a run of the check is requested that fails and says so.
    """
    faults = Faults(lake, hear)
    for table in tables:
        windows = depth.windows.get(table.criticality, 0)
        if not windows:
            continue
        ingested: Mapping[str, WindowRecord] = {}
        with faults.of(table):
            ingested = ChangeLog(table, lake).records()
        if table.name in faults.errors:
            yield _request(table, [], f"{depth.name} {tick} {table.name} 0")
        keys = [key for key in reversed(table.keys_at(now())) if key in ingested]
        chosen = keys[: len(keys) if windows == inf else int(windows)]
        for number, start in enumerate(range(0, len(chosen), WINDOWS_PER_RUN)):
            yield _request(table, chosen[start : start + WINDOWS_PER_RUN], f"{depth.name} {tick} {table.name} {number}")


def _request(table: Table, keys: Sequence[str], run_key: str) -> dg.RunRequest:
    config = {"tables": [table.name], "partitions": list(keys)}
    return dg.RunRequest(run_key=run_key, run_config={"ops": {CHECK_RECONCILIATION.step_name: {"config": config}}})


def _schedule(depth: Depth, tables: Sequence[Table], job: dg.JobDefinition) -> dg.ScheduleDefinition:
    @dg.schedule(
        name=depth.name,
        job=job,
        cron_schedule=depth.cron,
        execution_timezone="UTC",
        default_status=dg.DefaultScheduleStatus.RUNNING,
        required_resource_keys={"lake"},
        description=f"Compares more windows with their source: {_described(depth)}",
    )
    def schedule(context: dg.ScheduleEvaluationContext) -> list[dg.RunRequest]:
        tick = context.scheduled_execution_time.isoformat()
        return list(run_requests(depth, tables, context.resources.lake, tick, context.log.error))

    return schedule


def _described(depth: Depth) -> str:
    parts = [
        f"{'all' if count == inf else f'the newest {count:.0f}'} of tables of {name} criticality"
        for name, count in depth.windows.items()
    ]
    return ", ".join(parts)
