"""What Dagster knows of a partition before it is loaded."""

from collections.abc import Iterable
from dataclasses import dataclass

import dagster as dg
from dagster._core.storage.dagster_run import RunsFilter  # the public name has no filter on update time

DATA_VERSION_TAG = "dagster/data_version"
FAILURE_TAG = "incload/failure"
"""Of a run that failed: why, in one word."""
PARTITION_TAG = "dagster/partition"
RANGE_START_TAG, RANGE_END_TAG = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"
RUNS_LOOKED_AT = 200


@dataclass(frozen=True)
class Checkpoint:
    """What Dagster knows of a window.

    Args:
        fingerprint: Data version of its last materialization, None if there is none.
        clean: Whether nothing was tried since that did not succeed: then no forgotten MERGE can still be running.
        untried: Whether no other run is known that might have tried it: then there is nothing to be forgotten, either.
    """

    fingerprint: str | None = None
    clean: bool = False
    untried: bool = False


NOTHING_KNOWN = Checkpoint()


def checkpoint_of(instance: dg.DagsterInstance, key: dg.AssetKey, partition: str, run_id: str) -> Checkpoint:
    """What the instance knows of a partition.

    Clean means that no other run of the asset that was alive since the run of its last materialization began has ended
    without success; where that is not certain it is not clean, which costs the load one more landing.
    """
    last = instance.fetch_materializations(
        dg.AssetRecordsFilter(asset_key=key, asset_partitions=[partition]), limit=1
    ).records
    if not last or last[0].asset_materialization is None:
        return Checkpoint(untried=bool(untried(instance, key, [partition], run_id)))
    fingerprint = (last[0].asset_materialization.tags or {}).get(DATA_VERSION_TAG)
    record = instance.get_run_record_by_id(last[0].run_id)
    if record is None:  # the run was deleted: nothing is known of what went on beside it
        return Checkpoint(fingerprint)
    alive = RunsFilter(updated_after=record.create_timestamp, statuses=_UNFINISHED)
    runs = instance.get_runs(alive, limit=RUNS_LOOKED_AT)
    others = [run for run in runs if run.run_id != run_id and _may_load(run, key)]
    return Checkpoint(fingerprint, clean=not others and len(runs) < RUNS_LOOKED_AT)


def untried(instance: dg.DagsterInstance, key: dg.AssetKey, partitions: Iterable[str], run_id: str) -> set[str]:
    """Those of the partitions that were never materialized and that no other run, alive or failed, may have tried.

    Where that is not certain a partition is not among them, which costs only time.
    """
    materialized = set(instance.get_materialized_partitions(key))
    runs = instance.get_runs(RunsFilter(statuses=_UNFINISHED), limit=RUNS_LOOKED_AT)
    if len(runs) == RUNS_LOOKED_AT:
        return set()
    others = [run for run in runs if run.run_id != run_id and _may_load(run, key)]
    return {
        partition
        for partition in partitions
        if partition not in materialized and not any(_covers(run, partition) for run in others)
    }


_UNFINISHED = [status for status in dg.DagsterRunStatus if status is not dg.DagsterRunStatus.SUCCESS]


def _may_load(run: dg.DagsterRun, key: dg.AssetKey) -> bool:
    return not run.asset_selection or key in run.asset_selection


def _covers(run: dg.DagsterRun, partition: str) -> bool:
    """Whether a run may have tried a partition, by its tags; a range is taken to cover every key between its ends."""
    if (one := run.tags.get(PARTITION_TAG)) is not None:
        return one == partition
    start, end = run.tags.get(RANGE_START_TAG), run.tags.get(RANGE_END_TAG)
    return start is None or end is None or len(start) != len(partition) or start <= partition <= end
