"""The checkpoint of a partition: what Dagster has recorded about it before a load."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, partial
from typing import Any

import dagster as dg

from incload_assets.declaration.window import known_windows
from incload_assets.platform.dagster_private import RunsFilter
from incload_assets.progress.request import Request
from incload_assets.progress.run_tags import LOADS_NOTHING

DATA_VERSION_TAG = "dagster/data_version"
ERROR_CLASSES = "error_classes"
"""Metadata of a failed step: the kind of error by partition key, as JSON."""
RUNS_LOOKED_AT = 2_000
"""Number of runs that are read at once; they take a tenth of a second. A backfill of 20,000 windows has 625 runs."""


@dataclass(frozen=True)
class Checkpoint:
    """A window's record in Dagster; if not ``clean``, a forgotten MERGE of a failed attempt may still be running.

    ``metadata``: the values of the last materialization's metadata, which has the proof of its load.
    """

    fingerprint: str | None = None
    clean: bool = False
    untried: bool = False
    metadata: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)


NOTHING_KNOWN = Checkpoint()


def checkpoint_of(
    instance: dg.DagsterInstance,
    key: dg.AssetKey,
    partitions_def: dg.TimeWindowPartitionsDefinition,
    partition: str,
    run_id: str,
) -> Checkpoint:
    """The checkpoint of a partition; one that may not be clean counts as not clean, which costs one more ingestion."""
    last = last_materialization(instance, key, partition)
    if last is None:
        return Checkpoint(untried=bool(untried(instance, key, partitions_def, [partition], run_id)))
    settled = _settled(instance, key, partitions_def, {partition: last}, run_id)
    metadata = last.asset_materialization.metadata if last.asset_materialization else {}
    values = {name: getattr(value, "value", None) for name, value in metadata.items()}
    return Checkpoint(_fingerprint(last), clean=partition in settled, metadata=values)


def at_rest(
    instance: dg.DagsterInstance,
    key: dg.AssetKey,
    partitions_def: dg.TimeWindowPartitionsDefinition,
    partitions: Collection[str],
    run_id: str,
) -> dict[str, str]:
    """The fingerprints of the partitions at rest, by partition key.

    These were materialized, and no other run that may have tried them, and was alive after the run of their last
    materialization began, is unfinished or ended without success.
    """
    found = {partition: last_materialization(instance, key, partition) for partition in partitions}
    known = {partition: last for partition, last in found.items() if last}
    return _settled(instance, key, partitions_def, known, run_id)


def _settled(
    instance: dg.DagsterInstance,
    key: dg.AssetKey,
    partitions_def: dg.TimeWindowPartitionsDefinition,
    materializations: Mapping[str, dg.EventLogRecord],
    run_id: str,
) -> dict[str, str]:
    """Same as :func:`at_rest`, for partitions with their last materializations."""
    found: dict[str, tuple[datetime, str]] = {}
    runs: dict[str, dg.RunRecord | None] = {}
    for partition, last in materializations.items():
        if (fingerprint := _fingerprint(last)) is None:
            continue
        if last.run_id not in runs:
            runs[last.run_id] = instance.get_run_record_by_id(last.run_id)
        if (run := runs[last.run_id]) is not None:  # else the run was deleted, and what ran beside it is unknown
            found[partition] = run.create_timestamp, fingerprint
    if not found:
        return {}
    since, may_load = min(began for began, _ in found.values()), _loading(instance, key)
    others = [
        record
        for record in _unfinished(instance, since)
        if record.dagster_run.run_id != run_id and may_load(record.dagster_run)
    ]
    covered_by = _coverage(partitions_def)
    tried = [(other, covered_by(other.dagster_run)) for other in others]
    return {
        partition: fingerprint
        for partition, (began, fingerprint) in found.items()
        if not any(_lived(other, began) and covers(partition) for other, covers in tried)
    }


def fingerprints_of(instance: dg.DagsterInstance, key: dg.AssetKey) -> dict[str, str]:
    """The data version of each partition's last materialization, by partition key, in one query."""
    found = instance.event_log_storage.get_latest_tags_by_partition(
        key, dg.DagsterEventType.ASSET_MATERIALIZATION, [DATA_VERSION_TAG]
    )
    return {partition: tags[DATA_VERSION_TAG] for partition, tags in found.items() if DATA_VERSION_TAG in tags}


def last_materialization(instance: dg.DagsterInstance, key: dg.AssetKey, partition: str) -> dg.EventLogRecord | None:
    """The event of a partition's last load; None if it was never loaded."""
    filter_ = dg.AssetRecordsFilter(asset_key=key, asset_partitions=[partition])
    records = instance.fetch_materializations(filter_, limit=1).records
    return records[0] if records else None


def _fingerprint(record: dg.EventLogRecord) -> str | None:
    materialization = record.asset_materialization
    return (materialization.tags or {}).get(DATA_VERSION_TAG) if materialization else None


def _unfinished(instance: dg.DagsterInstance, since: datetime) -> Iterator[dg.RunRecord]:
    """Runs that were alive after an instant and have not ended with success."""
    for alive in (RunsFilter(updated_after=since, statuses=_FAILED), RunsFilter(statuses=_UNDER_WAY)):
        cursor = None
        while records := instance.get_run_records(alive, limit=RUNS_LOOKED_AT, cursor=cursor):
            yield from records
            cursor = records[-1].dagster_run.run_id


def _lived(run: dg.RunRecord, since: datetime) -> bool:
    """True if a run was alive after an instant; a run under way is, but its record is not updated after its start."""
    return run.dagster_run.status in _UNDER_WAY or run.update_timestamp >= since


def untried(
    instance: dg.DagsterInstance,
    key: dg.AssetKey,
    partitions_def: dg.TimeWindowPartitionsDefinition,
    partitions: Iterable[str],
    run_id: str,
) -> set[str]:
    """The partitions that no run has materialized and no other run may have tried; uncertain ones are left out."""
    materialized = set(instance.get_materialized_partitions(key))
    runs = instance.get_runs(RunsFilter(statuses=_UNFINISHED), limit=RUNS_LOOKED_AT)
    if len(runs) == RUNS_LOOKED_AT:
        return set()
    may_load = _loading(instance, key)
    covered_by = _coverage(partitions_def)
    tried = [covered_by(run) for run in runs if run.run_id != run_id and may_load(run)]
    return {
        partition
        for partition in partitions
        if partition not in materialized and not any(covers(partition) for covers in tried)
    }


def loading_now(instance: dg.DagsterInstance, key: dg.AssetKey) -> list[str]:
    """The identifiers of runs under way that may load a table."""
    may_load = _loading(instance, key)
    return [run.run_id for run in instance.get_runs(RunsFilter(statuses=_UNDER_WAY)) if may_load(run)]


_FAILED = [dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]
_UNDER_WAY = [status for status in dg.DagsterRunStatus if status not in (dg.DagsterRunStatus.SUCCESS, *_FAILED)]
_UNFINISHED = [*_FAILED, *_UNDER_WAY]


def _loading(instance: dg.DagsterInstance, key: dg.AssetKey) -> Callable[[dg.DagsterRun], bool]:
    """True if a run may load the table, by its asset selection or else its plan; without either it may load any."""
    planned = cache(partial(planned_assets, instance))

    def may_load(run: dg.DagsterRun) -> bool:
        if LOADS_NOTHING.items() <= run.tags.items():
            return False
        if run.asset_selection:
            return key in run.asset_selection
        plan = run.execution_plan_snapshot_id
        return plan is None or (assets := planned(plan)) is None or key in assets

    return may_load


def planned_assets(instance: dg.DagsterInstance, plan: str) -> set[dg.AssetKey] | None:
    """The assets that the runs with an execution plan materialize; None if Dagster has lost the plan."""
    if (snapshot := instance.get_execution_plan_snapshot(plan)) is None:
        return None
    outputs = [output for step in snapshot.steps for output in step.outputs]
    return {each.properties.asset_key for each in outputs if each.properties and each.properties.asset_key}


def _coverage(partitions_def: dg.TimeWindowPartitionsDefinition) -> Callable[[dg.DagsterRun], Callable[[str], bool]]:
    """The coverage of partitions by a run's tags: whether the run may have tried one.

    A range covers every window that starts between its bounds (keys need not sort as text), or everything if one of its
    keys has no window now.
    """

    @cache
    def start(key: str) -> datetime | None:
        return next((window.start for window in known_windows(partitions_def, [key])), None)

    def covered_by(run: dg.DagsterRun) -> Callable[[str], bool]:
        request = Request.from_tags(run.tags)
        if request.first == request.last != "":
            return lambda partition: request.first == partition
        first, last = start(request.first), start(request.last)
        if first is None or last is None:
            return lambda _: True
        return lambda partition: (tried := start(partition)) is None or first <= tried <= last

    return covered_by
