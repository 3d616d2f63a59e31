"""The last result of a check, and how a result is recorded again."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from incload_assets.platform.dagster_private import AssetCheckExecutionRecord, AssetCheckExecutionRecordStatus

AT = "evaluated_at"
"""Metadata: the time of the observation behind a result, ISO 8601."""
SECONDS = "seconds"
"""Metadata: how long the evaluation by itself took, without the windows that loads made it compare again since."""
Verdict = tuple[datetime, dg.AssetCheckResult]
"""A result, and when its table was observed."""
_WITH_VERDICT = {AssetCheckExecutionRecordStatus.SUCCEEDED, AssetCheckExecutionRecordStatus.FAILED}


def last_verdict(instance: dg.DagsterInstance, key: dg.AssetCheckKey) -> Verdict | None:
    """The last result of a check, with the time of its observation; None if it never had a result."""
    return _verdict_of(key, _last(instance, key, _WITH_VERDICT))  # loads that failed since have left no result


def last_verdicts(
    instance: dg.DagsterInstance, keys: Iterable[dg.AssetCheckKey], *, shown: bool = False
) -> dict[dg.AssetCheckKey, Verdict]:
    """The last results of checks as in :func:`last_verdict`: one query, and one more for each without a result now.

    ``shown`` leaves out results that Dagster hides, because a later run of the check has ended without a result.
    """
    chosen = list(keys)
    records = instance.event_log_storage.get_latest_asset_check_execution_by_key(chosen) if chosen else {}
    without = {key: record.run_id for key, record in records.items() if record.status not in _WITH_VERDICT}
    alive = set[str]()
    if shown and without:
        runs = instance.get_runs(dg.RunsFilter(run_ids=sorted({*without.values()})))
        alive = {run.run_id for run in runs if not run.is_finished}
    found = {}
    for key in chosen:
        if key in without:
            verdict = last_verdict(instance, key) if not shown or without[key] in alive else None
        else:
            verdict = _verdict_of(key, records.get(key))
        if verdict is not None:
            found[key] = verdict
    return found


def verdict_at(instance: dg.DagsterInstance, key: dg.AssetCheckKey, at: datetime) -> Verdict | None:
    """The last result that a check had at a past instant, found by bisection of record numbers (no index by time)."""
    found, newest = None, _last(instance, key, _WITH_VERDICT)
    low, high = 1, newest.id + 1 if newest else 1
    while low < high:
        middle = (low + high) // 2
        record = _last(instance, key, _WITH_VERDICT, up_to=middle)
        if record is not None and _told_at(record) > at.timestamp():
            high = record.id
        else:
            found, low = record or found, middle + 1
    return _verdict_of(key, found)


def verdicts_before(
    instance: dg.DagsterInstance, key: dg.AssetCheckKey, limit: int = 1
) -> list[AssetCheckExecutionRecord]:
    """The records of the results before the last one, newest first."""
    storage = instance.event_log_storage
    return list(storage.get_asset_check_execution_history(key, limit=limit + 1, status=_WITH_VERDICT))[1:]


def _told_at(record: AssetCheckExecutionRecord) -> float:
    """When a record got its result, in seconds since 1970; its creation is stored in whole seconds."""
    return record.event.timestamp if record.event is not None else record.create_timestamp


def _verdict_of(key: dg.AssetCheckKey, record: AssetCheckExecutionRecord | None) -> Verdict | None:
    found = record.evaluation if record else None
    if record is None or record.event is None or found is None:
        return None
    seen = seen_at(found.metadata)
    return seen or datetime.fromtimestamp(record.event.timestamp, UTC), dg.AssetCheckResult(
        asset_key=key.asset_key,
        check_name=key.name,
        passed=found.passed,
        severity=found.severity,
        description=found.description,
        metadata=dict(found.metadata),
    )


def seen_at(metadata: Mapping[str, Any]) -> datetime | None:
    """The time of the observation from a result's metadata; None if it has none."""
    at = metadata.get(AT)
    return datetime.fromisoformat(str(at.value)) if at is not None else None


def as_seen(result: dg.AssetCheckResult, at: datetime) -> dg.AssetCheckResult:
    """A result with the time of its observation in its metadata."""
    return result._replace(metadata={**(result.metadata or {}), AT: dg.MetadataValue.text(at.isoformat())})


def as_measured(result: dg.AssetCheckResult, seconds: float | None) -> dg.AssetCheckResult:
    """A result with the duration of its evaluation in its metadata; unchanged if that is unknown."""
    if seconds is None:
        return result
    return result._replace(metadata={**(result.metadata or {}), SECONDS: dg.MetadataValue.float(round(seconds, 3))})


def measured_in(result: dg.AssetCheckResult) -> float | None:
    """The duration of a result's evaluation, in seconds; None if it is unknown."""
    value = (result.metadata or {}).get(SECONDS)
    return value.value if isinstance(value, dg.FloatMetadataValue) else None


def repeated(when: datetime, verdict: dg.AssetCheckResult) -> dg.AssetCheckResult:
    """A result to be recorded again, with the time of its observation in its description.

    Each load repeats it, and the tables of a good one are in the history of the check.
    """
    if verdict.passed:
        numbers = {n: v for n, v in (verdict.metadata or {}).items() if not isinstance(v, dg.TableMetadataValue)}
        verdict = verdict._replace(metadata=numbers)
    said, since = verdict.description or "", f"As of {when:%Y-%m-%d %H:%M} UTC: "
    return as_seen(verdict if said.startswith("As of ") else verdict._replace(description=since + said), when)


def have_the_last_word(
    instance: dg.DagsterInstance, key: dg.AssetCheckKey, result: dg.AssetCheckResult, run_id: str
) -> None:
    """Reports a recorded check result again if an older one, repeated by a concurrent load, would hide it.

    Dagster shows the result of the run that was created last. Loads that begin while a check reads its table repeat the
    old result; and of several concurrent loads, the last to end need not be the last to begin.
    """
    last = _last(instance, key)
    if last is None or last.run_id == run_id:
        return
    said, mine = last_verdict(instance, key), seen_at(result.metadata or {})
    if said is None or mine is None or said[0] <= mine:
        instance.report_runless_asset_event(evaluation_of(key, result))


def evaluation_of(key: dg.AssetCheckKey, result: dg.AssetCheckResult) -> dg.AssetCheckEvaluation:
    """A check result as a Dagster event."""
    return dg.AssetCheckEvaluation(
        asset_key=key.asset_key,
        check_name=key.name,
        passed=result.passed,
        severity=result.severity,
        description=result.description,
        metadata=dict(result.metadata or {}),
    )


def _last(
    instance: dg.DagsterInstance,
    key: dg.AssetCheckKey,
    status: set[AssetCheckExecutionRecordStatus] | None = None,
    up_to: int | None = None,
) -> AssetCheckExecutionRecord | None:
    """The newest record of a check, or the newest up to a number."""
    storage, before = instance.event_log_storage, None if up_to is None else up_to + 1
    history: list[AssetCheckExecutionRecord] = list(
        storage.get_asset_check_execution_history(key, limit=1, cursor=before, status=status)
    )
    return history[0] if history else None


def last_finding(instance: dg.DagsterInstance, key: dg.AssetCheckKey, name: str) -> tuple[datetime, Any] | None:
    """The time of a check's last result, and the JSON in its metadata under a name; None if there is none."""
    return finding_in(last_verdict(instance, key), name)


def finding_in(verdict: Verdict | None, name: str) -> tuple[datetime, Any] | None:
    """Same as :func:`last_finding`, of a result."""
    found = verdict and (verdict[1].metadata or {}).get(name)
    return (verdict[0], found.data) if verdict and isinstance(found, dg.JsonMetadataValue) else None
