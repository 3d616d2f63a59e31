"""Removal of old runs from Dagster's history: of those that loaded nothing, or whose partitions were all loaded since.

A run is more than a page of the UI: its events are the checkpoints of what it loaded, and of a partition whose last
attempt failed, the reason. Runs with either stay, however old they are.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow.compute as pc

from incload_assets.declaration import window as windows
from incload_assets.declaration.table import Table
from incload_assets.history.collect import PAGE, partitions_of
from incload_assets.history.loads_table import LoadsTable
from incload_assets.platform.dagster_private import (
    CODE_LOCATION_TAG,
    AssetPartitionStatus,
    RunsFilter,
    check_tables,
    is_sqlite_event_log,
)
from incload_assets.platform.lake import Lake
from incload_assets.platform.settings import Settings
from incload_assets.platform.wording import several
from incload_assets.progress.checkpoint import last_materialization
from incload_assets.progress.request import Request
from incload_assets.progress.run_tags import LOADS_NOTHING, UPKEEP

EXPIRY_CRON = "30 3 * * *"
"""When old runs are removed, in UTC: after the nightly maintenance."""
_FAILED = [dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]
_LOOKED = "incload/old loads looked at by "


def expire_runs(
    instance: dg.DagsterInstance, tables: Iterable[Table], lake: Lake, before: datetime, location: str = ""
) -> int:
    """Removes ended runs that began before an instant and are of no use any more; returns their number.

    - Runs with the tag of runs that load nothing: checks, maintenance, pauses and so on. Another code location removes
      its own, and may keep them for longer.
    - Loads of these tables if each of their partitions is loaded, by a later run, and the lake's table ``_loads`` has
      them. Successful ones are looked at once, when they are old enough, because most of them stay.

    Args:
        before: The instant, aware.
        location: The name of the code location, which remembers up to when it has looked at successful loads; empty:
            runs of all locations that load nothing are removed.
    """
    cursors, key = instance.daemon_cursor_storage, _LOOKED + location
    looked = cursors.get_cursor_values({key}).get(key)
    success, superseded = [dg.DagsterRunStatus.SUCCESS], _superseded(instance, tables)
    count = 0
    for wanted in (
        RunsFilter(tags=LOADS_NOTHING, statuses=[*success, *_FAILED], created_before=before),
        RunsFilter(statuses=_FAILED, created_before=before),
        RunsFilter(
            statuses=success, created_before=before, created_after=datetime.fromisoformat(looked) if looked else None
        ),
    ):
        kept = None  # the last run that stays: Dagster finds no page after one that is gone
        while records := instance.get_run_records(wanted, limit=PAGE, cursor=kept, ascending=True):
            runs = [record.dagster_run for record in records]
            told = LoadsTable(lake).columns(["run_id"], runs={run.run_id for run in runs})
            known = {*pc.unique(told["run_id"]).to_pylist()}
            for run in runs:
                if _is_idle(run, location) or (run.run_id in known and superseded(run)):
                    _delete(instance, run.run_id)
                    count += 1
                else:
                    kept = run.run_id
    cursors.set_cursor_values({key: before.isoformat()})
    return count


def _is_idle(run: dg.DagsterRun, location: str) -> bool:
    """True if a run loaded nothing, and is not of another code location."""
    of_another = location and run.tags.get(CODE_LOCATION_TAG, location) != location
    return not of_another and LOADS_NOTHING.items() <= run.tags.items()


def _superseded(instance: dg.DagsterInstance, tables: Iterable[Table]) -> Callable[[dg.DagsterRun], bool]:
    """True if other runs have loaded all partitions of a run since."""
    by_key = {table.key: table for table in tables}
    by_name = {table.name: table for table in by_key.values()}

    @cache
    def statuses(key: dg.AssetKey) -> Mapping[str, AssetPartitionStatus | None]:
        definition = by_key[key].partitions_def
        return instance.get_status_by_partition(key, definition.get_partition_keys(), definition) or {}

    def is_loaded_by_another(run: dg.DagsterRun, table: Table, partition: str) -> bool:
        last = last_materialization(instance, table.key, partition)
        loaded = statuses(table.key).get(partition) is AssetPartitionStatus.MATERIALIZED
        return loaded and last is not None and last.run_id != run.run_id

    def superseded(run: dg.DagsterRun) -> bool:
        named = by_name.get(Request.from_tags(run.tags).table)
        keys = run.asset_selection or ({named.key} if named else set())
        if not keys or not keys <= by_key.keys():
            return False
        partitions = {by_key[key]: partitions_of(by_key[key], run) for key in keys}
        return all(
            of_table and all(is_loaded_by_another(run, table, partition) for partition in of_table)
            for table, of_table in partitions.items()
        )

    return superseded


def _delete(instance: dg.DagsterInstance, run_id: str) -> None:
    """Deletes a run with its events, its captured output, its results of checks, and its file if it has one."""
    instance.delete_run(run_id)
    instance.compute_log_manager.delete_logs(prefix=[run_id])
    storage: Any = instance.event_log_storage
    results, _ = check_tables()
    later = results.alias()
    is_last = ~(
        later.select()
        .where(later.c.asset_key == results.c.asset_key, later.c.check_name == results.c.check_name)
        .where(later.c.id > results.c.id, later.c.execution_status != "PLANNED")
        .exists()
    )
    with storage.index_connection() as connection:
        connection.execute(results.delete().where(results.c.run_id == run_id, ~is_last))
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
        location = context.run.tags.get(CODE_LOCATION_TAG, "")
        count = expire_runs(context.instance, known, context.resources.lake, before, location)
        context.log.info(f"removed {several(count, 'run')} that began more than {several(days, 'day')} ago")

    @dg.job(
        name="expire_history",
        description="Removes old runs that loaded nothing, or only what was loaded since, from Dagster's history.",
        tags=UPKEEP,
    )
    def job() -> None:
        expire_old_runs()

    return job
