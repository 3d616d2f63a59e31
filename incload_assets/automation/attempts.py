"""The outcome of the last attempt at a partition, from Dagster's history."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

import dagster as dg

from incload_assets.declaration.table import Table
from incload_assets.progress.progress import WindowProgress
from incload_assets.progress.request import Request
from incload_assets.progress.run_tags import FAILURE_TAG, own_tag

Outcome = Literal["loaded", "transient", "missing", "contract", "error", "range", "cancelled"]
RUNS_AT_ONCE = 100


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """The last run that tried a partition; a run that no sensor requested has ``number`` 0.

    Args:
        outcome: ``loaded``, or why not: ``transient`` (a retry may succeed; also a process that died), ``missing`` (the
            source held nothing), ``contract`` (too many rejected rows), ``error`` (anything else), ``range`` (another
            partition of the same run may be the reason), ``cancelled`` (by a person).
        fingerprint: The position that the run was requested to load, None if unknown.
    """

    run_id: str
    outcome: Outcome
    number: int
    fingerprint: str | None
    code_version: str | None
    ended: datetime


def last_attempts(instance: dg.DagsterInstance, table: Table, pending: Iterable[WindowProgress]) -> dict[str, Attempt]:
    """The last attempt at each pending window that was ever tried and that no run is loading now, by partition key."""
    keys = {window.key for window in pending}
    unloaded = instance.event_log_storage.get_latest_asset_partition_materialization_attempts_without_materializations(
        table.key
    )
    run_of = {key: run_id for key, (run_id, _) in unloaded.items() if key in keys}
    records = {record.dagster_run.run_id: record for record in _records(instance, set(run_of.values()))}
    outcomes = {run_id: _outcome(instance, record.dagster_run) for run_id, record in records.items()}
    return {
        key: _described(run_id, outcomes[run_id], record.dagster_run.tags, key, _ended(record))
        for key, run_id in run_of.items()
        if (record := records.get(run_id)) is not None  # a deleted run counts as never started
    }


def last_load(instance: dg.DagsterInstance, table: Table, partition: str) -> Attempt | None:
    """The run that last materialized a partition, None if none did."""
    loads = instance.fetch_materializations(
        dg.AssetRecordsFilter(asset_key=table.key, asset_partitions=[partition]), limit=1
    ).records
    if not loads:
        return None
    run = instance.get_run_by_id(loads[0].run_id)
    tags = run.tags if run else {}
    return _described(loads[0].run_id, "loaded", tags, partition, loads[0].timestamp)


def _records(instance: dg.DagsterInstance, run_ids: set[str]) -> Iterator[dg.RunRecord]:
    chosen = sorted(run_ids)
    for start in range(0, len(chosen), RUNS_AT_ONCE):
        yield from instance.get_run_records(dg.RunsFilter(run_ids=chosen[start : start + RUNS_AT_ONCE]))


def _ended(record: dg.RunRecord) -> float:
    return record.end_time or record.update_timestamp.timestamp()


def _outcome(instance: dg.DagsterInstance, run: dg.DagsterRun) -> Outcome:
    if run.status is dg.DagsterRunStatus.CANCELED:
        # A run whose terminal is closed is cancelled, too, but no person requested that.
        asked = instance.all_logs(run.run_id, of_type=dg.DagsterEventType.PIPELINE_CANCELING)
        return "cancelled" if asked else "transient"
    if run.status is not dg.DagsterRunStatus.FAILURE:
        return "error"
    cause = own_tag(run, FAILURE_TAG)
    if cause is None:  # our code could not record one: the process was killed, or Dagster could not start it
        return "transient"
    request = Request.from_tags(run.tags)
    if request.first != request.last:
        return "range"
    return cause if cause in ("transient", "missing", "contract") else "error"  # type: ignore[return-value]


def _described(run_id: str, outcome: Outcome, tags: Mapping[str, str], partition: str, ended: float) -> Attempt:
    request = Request.from_tags(tags)
    return Attempt(
        run_id=run_id,
        outcome=outcome,
        number=request.attempt,
        fingerprint=request.fingerprints.get(partition),
        code_version=request.code_version,
        ended=datetime.fromtimestamp(ended, UTC),
    )
