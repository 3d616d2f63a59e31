"""Checks in a run that also loads: after several partitions at once, and verdicts that a load does not change."""

from collections.abc import Callable
from datetime import datetime, timedelta

import dagster as dg

from incload_assets.checks import reconciliation, uniqueness
from incload_assets.checks.cheap import CHEAP, cheap_checks
from incload_assets.checks.look import look
from incload_assets.loading import window as windows
from incload_assets.loading.declaration import Table
from incload_assets.operations.verdicts import evaluation_of, last_finding, last_verdict


def check_after_range(context: dg.AssetExecutionContext, table: Table) -> None:
    """Evaluate the cheap checks of the run here and now, and repeat the last verdict of the others.

    A run over several partitions reports each by itself and has no output for all of them, so Dagster skips the steps
    of its checks.
    """
    wanted = context.run.asset_check_selection
    names = [
        name
        for name in (*cheap_checks(table), uniqueness.NAME, reconciliation.NAME)
        if wanted is None or dg.AssetCheckKey(table.key, name) in wanted
    ]
    if not names:
        return
    seen = look(context.instance, table, context.resources.lake, windows.now())
    for name in names:
        key = dg.AssetCheckKey(table.key, name)
        result = CHEAP[name][1](seen) if name in CHEAP else _repeated(last_verdict(context.instance, key))
        if result is not None:
            context.log_event(evaluation_of(key, result))


def kept_or_new(
    instance: dg.DagsterInstance,
    key: dg.AssetCheckKey,
    valid: timedelta | None,
    evaluate: Callable[[], dg.AssetCheckResult],
) -> dg.AssetCheckResult:
    """The verdict of a check that a load need not repeat: the last one, saying when it was made, or a new one.

    Dagster shows of each check only what its last run said, and a run that loads includes the checks: without a word
    from them a nightly finding would be gone with the next load.

    Args:
        instance: Where verdicts are.
        key: Of the check.
        valid: For how long a verdict is good; None: for ever.
        evaluate: Makes a new one.
    """
    last = last_verdict(instance, key)
    if last is not None and valid is not None and windows.now() - last[0] > valid:
        last = None
    return _repeated(last) or evaluate()


def loaded_since_found_wrong(instance: dg.DagsterInstance, table: Table) -> list[str]:
    """The partitions that the reconciliation found wrong, if each of them has been loaded since.

    Args:
        instance: Where verdicts and materializations are.
        table: The declaration.
    """
    finding = last_finding(instance, dg.AssetCheckKey(table.key, reconciliation.NAME), reconciliation.REPAIR)
    if finding is None:
        return []
    found, wrong = finding
    loads = instance.fetch_materializations(
        dg.AssetRecordsFilter(asset_key=table.key, asset_partitions=wrong, after_timestamp=found.timestamp()),
        limit=1000,
    )
    return sorted(wrong) if {record.partition_key for record in loads.records} >= set(wrong) else []


def _repeated(last: tuple[datetime, dg.AssetCheckResult] | None) -> dg.AssetCheckResult | None:
    if last is None:
        return None
    when, verdict = last
    description = verdict.description or ""
    return dg.AssetCheckResult(
        asset_key=verdict.asset_key,
        check_name=verdict.check_name,
        passed=verdict.passed,
        severity=verdict.severity,
        description=description
        if description.startswith("As of ")
        else f"As of {when:%Y-%m-%d %H:%M} UTC: {description}",
        metadata={**(verdict.metadata or {}), "evaluated_at": dg.MetadataValue.text(when.isoformat())},
    )
