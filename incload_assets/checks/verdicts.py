"""What a check said when it last came to a verdict."""

from datetime import UTC, datetime
from typing import Any

import dagster as dg
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecord  # has no public name

LOOKED_BACK = 20
"""Evaluations of a check among which the last that came to a verdict is sought."""


def last_verdict(instance: dg.DagsterInstance, key: dg.AssetCheckKey) -> tuple[datetime, dg.AssetCheckResult] | None:
    """When a check last came to a verdict, and which; None if it never did, or long ago."""
    history: list[AssetCheckExecutionRecord] = list(
        instance.event_log_storage.get_asset_check_execution_history(key, limit=LOOKED_BACK)
    )
    for record in history:
        event = record.event.dagster_event if record.event else None
        if record.event is None or event is None or event.event_type is not dg.DagsterEventType.ASSET_CHECK_EVALUATION:
            continue
        found = event.asset_check_evaluation_data
        if (at := found.metadata.get("evaluated_at")) is not None:
            when = datetime.fromisoformat(str(at.value))
        else:
            when = datetime.fromtimestamp(record.event.timestamp, UTC)
        return when, dg.AssetCheckResult(
            asset_key=key.asset_key,
            check_name=key.name,
            passed=found.passed,
            severity=found.severity,
            description=found.description,
            metadata=dict(found.metadata),
        )
    return None


def last_finding(instance: dg.DagsterInstance, key: dg.AssetCheckKey, name: str) -> tuple[datetime, Any] | None:
    """When a check last came to a verdict, and the JSON that its metadata then had; None if there is none."""
    verdict = last_verdict(instance, key)
    found = verdict and (verdict[1].metadata or {}).get(name)
    return (verdict[0], found.data) if verdict and isinstance(found, dg.JsonMetadataValue) else None
