"""What a check said when it last came to a verdict."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import dagster as dg
from dagster._core.storage.asset_check_execution_record import (  # has no public name
    AssetCheckExecutionRecord,
    AssetCheckExecutionRecordStatus,
)

AT = "evaluated_at"
"""Metadata: when what a verdict says was seen, ISO 8601."""
_WITH_VERDICT = {AssetCheckExecutionRecordStatus.SUCCEEDED, AssetCheckExecutionRecordStatus.FAILED}


def last_verdict(instance: dg.DagsterInstance, key: dg.AssetCheckKey) -> tuple[datetime, dg.AssetCheckResult] | None:
    """When what a check last said was seen, and what it said; None if it never came to a verdict."""
    record = _last(instance, key, _WITH_VERDICT)  # many that did not may have come since: each load that fails
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
    """When what a verdict says was seen, by its metadata; None if that does not tell."""
    at = metadata.get(AT)
    return datetime.fromisoformat(str(at.value)) if at is not None else None


def as_seen(result: dg.AssetCheckResult, at: datetime) -> dg.AssetCheckResult:
    """A verdict that tells when what it says was seen."""
    return result._replace(metadata={**(result.metadata or {}), AT: dg.MetadataValue.text(at.isoformat())})


def repeated(when: datetime, verdict: dg.AssetCheckResult) -> dg.AssetCheckResult:
    """A verdict once more, saying when what it says was seen."""
    said, since = verdict.description or "", f"As of {when:%Y-%m-%d %H:%M} UTC: "
    return as_seen(verdict if said.startswith("As of ") else verdict._replace(description=since + said), when)


def have_the_last_word(
    instance: dg.DagsterInstance, key: dg.AssetCheckKey, result: dg.AssetCheckResult, run_id: str
) -> None:
    """Tell a verdict again if it would be overlooked.

    Dagster takes that of the run that was created last for the newest. Loads that begin while a check goes through its
    table repeat what was known before, and would hide what it then finds; and of several loads side by side not the one
    that was begun last need be the one that ends last.

    Args:
        instance: Where verdicts are.
        key: Of the check.
        result: Its verdict, which is recorded.
        run_id: Of the run that came to it.
    """
    last = _last(instance, key)
    if last is None or last.run_id == run_id:
        return
    said, mine = last_verdict(instance, key), seen_at(result.metadata or {})
    if said is None or mine is None or said[0] <= mine:
        instance.report_runless_asset_event(evaluation_of(key, result))


def evaluation_of(key: dg.AssetCheckKey, result: dg.AssetCheckResult) -> dg.AssetCheckEvaluation:
    """A verdict as the event that Dagster records of it."""
    return dg.AssetCheckEvaluation(
        asset_key=key.asset_key,
        check_name=key.name,
        passed=result.passed,
        severity=result.severity,
        description=result.description,
        metadata=dict(result.metadata or {}),
    )


def _last(
    instance: dg.DagsterInstance, key: dg.AssetCheckKey, status: set[AssetCheckExecutionRecordStatus] | None = None
) -> AssetCheckExecutionRecord | None:
    history: list[AssetCheckExecutionRecord] = list(
        instance.event_log_storage.get_asset_check_execution_history(key, limit=1, status=status)
    )
    return history[0] if history else None


def last_finding(instance: dg.DagsterInstance, key: dg.AssetCheckKey, name: str) -> tuple[datetime, Any] | None:
    """When a check last came to a verdict, and the JSON that its metadata then had; None if there is none."""
    verdict = last_verdict(instance, key)
    found = verdict and (verdict[1].metadata or {}).get(name)
    return (verdict[0], found.data) if verdict and isinstance(found, dg.JsonMetadataValue) else None
