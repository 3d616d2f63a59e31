"""Removal of old runs from Dagster's history: of those that loaded nothing, or whose partitions were all loaded since.

A run is more than a page of the UI: its events are the checkpoints of what it loaded, and of a partition whose last
attempt failed, the reason. Runs with either stay, however old they are.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg

from incload_assets.declaration import window as windows
from incload_assets.declaration.table import Table
from incload_assets.history.collect import PAGE, partitions_of
from incload_assets.history.loads_table import LoadsTable
from incload_assets.platform.dagster_private import AssetPartitionStatus, RunsFilter, is_sqlite_event_log
from incload_assets.platform.lake import Lake
from incload_assets.platform.settings import Settings
from incload_assets.platform.wording import several
from incload_assets.progress.run_tags import LOADS_NOTHING, UPKEEP

EXPIRY_CRON = "30 3 * * *"
"""When old runs are removed, in UTC: after the nightly maintenance."""
_FAILED = [dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]
_PLANNED, _MATERIALIZED = dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED, dg.DagsterEventType.ASSET_MATERIALIZATION


def expire_runs(
    instance: dg.DagsterInstance,
    tables: Iterable[Table],
    lake: Lake,
    before: datetime,
) -> int:
    """Removes ended runs that began before an instant and are of no use any more; returns their number.

    - Runs with the tag of runs that load nothing: checks, maintenance, pauses and so on.
    - Failed and cancelled loads of these tables, if each of their partitions was loaded since, by another run, and the
      lake's table ``_loads`` has them.

    Args:
        before: The instant, aware.
    """
    known, count = {table.key: table for table in tables}, 0
    # of successful loads there are most, and they stay: they are not even read
    for wanted in (
        RunsFilter(tags=LOADS_NOTHING, statuses=[dg.DagsterRunStatus.SUCCESS, *_FAILED], created_before=before),
        RunsFilter(statuses=_FAILED, created_before=before),
    ):
        kept = None  # the last run that stays: Dagster finds no page after one that is gone
        while records := instance.get_run_records(wanted, limit=PAGE, cursor=kept, ascending=True):
            for run in (record.dagster_run for record in records):
                if LOADS_NOTHING.items() <= run.tags.items() or _is_superseded(instance, known, lake, run):
                    _delete(instance, run.run_id)
                    count += 1
                else:
                    kept = run.run_id
    return count


def _is_superseded(
    instance: dg.DagsterInstance, known: Mapping[dg.AssetKey, Table], lake: Lake, run: dg.DagsterRun
) -> bool:
    """True if a failed load left nothing that was not loaded since, and is in ``_loads``."""
    events = [log.dagster_event for log in instance.all_logs(run.run_id, of_type={_PLANNED, _MATERIALIZED})]
    keys = {event.asset_key for event in events if event is not None and event.event_type is _PLANNED}
    if any(event is not None and event.event_type is _MATERIALIZED for event in events) or not keys <= known.keys():
        return False
    for table in (known[key] for key in keys if key is not None):
        wanted = partitions_of(table, run)
        statuses = instance.get_status_by_partition(table.key, wanted, table.partitions_def) or {}
        if not wanted or any(statuses.get(key) is not AssetPartitionStatus.MATERIALIZED for key in wanted):
            return False
        if not LoadsTable(lake).columns(["run_id"], tables=[table.name], runs=[run.run_id]).num_rows:
            return False
    return bool(keys)


def _delete(instance: dg.DagsterInstance, run_id: str) -> None:
    """Deletes a run with its events, its captured output, and its file where events are in SQLite."""
    instance.delete_run(run_id)
    instance.compute_log_manager.delete_logs(prefix=[run_id])
    storage: Any = instance.event_log_storage
    if is_sqlite_event_log(storage):
        for end in ("", "-wal", "-shm"):
            Path(storage.path_for_shard(run_id) + end).unlink(missing_ok=True)


def expire_history_job(tables: Iterable[Table]) -> dg.JobDefinition:
    """The job ``expire_history``; what it does is described in :func:`expire_runs`."""
    known = list(tables)

    @dg.op(required_resource_keys={"lake"})
    def expire_old_runs(context: dg.OpExecutionContext) -> None:
        days = Settings().history_days
        before = windows.now() - timedelta(days=days)
        count = expire_runs(context.instance, known, context.resources.lake, before)
        context.log.info(f"removed {several(count, 'run')} that began more than {several(days, 'day')} ago")

    @dg.job(
        name="expire_history",
        description="Removes old runs that loaded nothing, or only what was loaded since, from Dagster's history.",
        tags=UPKEEP,
    )
    def job() -> None:
        expire_old_runs()

    return job
