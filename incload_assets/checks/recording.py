"""Recording of check results outside of loads: only what differs from the last result, or would soon be out of date.

A result is about 4 kB of Dagster's history, so a thousand tables that each repeated theirs every ten minutes would
write 4 GB a day that say nothing. Loads always record theirs.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Any

import dagster as dg

from incload_assets.checks import reconciliation
from incload_assets.checks.evaluations import Evaluations
from incload_assets.checks.kinds import Rough, not_at_all
from incload_assets.checks.observation import UNCHECKED, Observation
from incload_assets.checks.registry import LIGHT_CHECKS, TABLE_CHECKS, check_names, light_checks
from incload_assets.declaration.table import Table
from incload_assets.load.faults import unheard
from incload_assets.progress.repeats import SINCE, record_repeat
from incload_assets.progress.verdicts import AT, SECONDS, Verdict, evaluation_of, last_verdict, last_verdicts, seen_at

RECORD_AGAIN = timedelta(hours=6)
"""The age at which a result is recorded again although nothing has changed."""

_ROUGH: Mapping[str, Rough] = {
    **{check.name: check.rough for check in (*LIGHT_CHECKS.values(), *TABLE_CHECKS.values())},
    reconciliation.NAME: reconciliation.ROUGH,
}
_EVERYWHERE: Rough = {
    **dict.fromkeys((AT, SECONDS, SINCE), not_at_all),
    UNCHECKED: bool,  # the text of an error may differ each time
}


@dataclass(frozen=True)
class Recorded:
    """The outcome of the checks of a table: the names of the recorded ones, and why others could not be evaluated."""

    names: list[str] = field(default_factory=list)
    reasons: dict[str, str] = field(default_factory=dict)


def last_results(instance: dg.DagsterInstance, tables: Iterable[Table]) -> dict[str, dict[str, Verdict]]:
    """The last results of all checks that Dagster shows, by table and name, in one query for all tables."""
    keys = {dg.AssetCheckKey(table.key, name): table.name for table in tables for name in check_names(table)}
    found: dict[str, dict[str, Verdict]] = {name: {} for name in keys.values()}
    for key, verdict in last_verdicts(instance, keys, shown=True).items():
        found[keys[key]][key.name] = verdict
    return found


def record_what_changed(
    instance: dg.DagsterInstance,
    seen: Observation,
    last: Mapping[str, Verdict],
    hear: Callable[..., object] = unheard,
    *,
    only: Collection[str] = (),
) -> Recorded:
    """Evaluates the light checks of an observed table, and records the results that say something new.

    One that cannot be evaluated does not stop the others.

    Args:
        seen: The table with all its windows, as source, log and Dagster have them.
        last: The last result of each check by name, as :func:`last_results` returns them.
        hear: Gets why a check could not be evaluated, as a logger's ``error`` does.
        only: The names of the checks to evaluate; empty: all that the table has.
    """
    evaluations, names, seen = Evaluations(seen.table, seen.lake, hear), list[str](), replace(seen, last=last)
    for name in light_checks(seen.table):
        if only and name not in only:
            continue
        result = evaluations.attempt([name], partial(LIGHT_CHECKS[name].result, seen))
        if result is not None and record_if_new(instance, result, last.get(name)):
            names.append(name)
    return Recorded(names, evaluations.reasons)


def record_if_new(instance: dg.DagsterInstance, result: dg.AssetCheckResult, last: Verdict | None) -> bool:
    """Records a result, which has the time of its observation, if it is new; True if it did."""
    assert result.asset_key is not None and result.check_name is not None
    key, at = dg.AssetCheckKey(result.asset_key, result.check_name), seen_at(result.metadata or {})
    assert at is not None
    if last is not None and at - last[0] < RECORD_AGAIN and not is_news(result, last):
        return False
    newer = last_verdict(instance, key)
    if newer is not None and newer[0] > at:  # of a load that has ended meanwhile
        return False
    if last is None or is_news(result, last):
        instance.report_runless_asset_event(evaluation_of(key, result))
    else:
        record_repeat(instance, key, result, last)
    return True


def is_news(result: dg.AssetCheckResult, last: Verdict) -> bool:
    """True if a result differs from the last one in outcome or finding."""
    return _finding(result) != _finding(last[1])


def _finding(result: dg.AssetCheckResult) -> tuple[object, ...]:
    rough = {**_EVERYWHERE, **_ROUGH.get(str(result.check_name), {})}
    values = {name: _plain(value) for name, value in (result.metadata or {}).items()}
    found = {name: rough[name](value) if name in rough else value for name, value in values.items()}
    return (
        result.passed,
        None if result.passed else result.severity,
        {name: value for name, value in found.items() if rough.get(name) is not not_at_all},
    )


def _plain(value: Any) -> Any:
    """The content of metadata, the same before and after it was stored."""
    if isinstance(value, dg.TableMetadataValue):
        return [dict(row.data) for row in value.records]
    return value.value if isinstance(value, dg.MetadataValue) else value
