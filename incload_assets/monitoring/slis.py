"""Service level indicators of a table, each with its target: pure functions of the facts."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import ceil
from types import MappingProxyType
from typing import Literal

from incload_assets.declaration.table import Table
from incload_assets.history.sums import CHANGED
from incload_assets.monitoring.facts import Check, TableFacts
from incload_assets.monitoring.period import Period, period_of

Unit = Literal["seconds", "share", "records", "rows", "bytes", "attempts", "price", "price/GB", "seconds/GB"]
GB = 1e9
LATE_SHARE = 0.05
"""The share of windows and changes that may wait for longer than promised."""
QUANTILES = (0.5, 0.95, 0.99)
RECONCILIATION, UNIQUENESS = "reconciliation", "uniqueness"
CHECKS = (RECONCILIATION, UNIQUENESS)
"""The checks whose results are indicators."""


@dataclass(frozen=True, kw_only=True)
class Sli:
    """An indicator of a table's service over the period of its objectives.

    Args:
        name: For machines, for example ``freshness_p95``.
        value: The number; None if nothing is known yet.
        unit: Of value, target and trend.
        at_least: Whether the objective is met from the target upwards; else up to the target.
        budget: Share of the error budget that is left, 0 to 1; None where there is no budget.
        before: The number of the period before; None if unknown.
        parts: What the number is the sum of, by name.
    """

    name: str
    value: float | None
    unit: Unit
    target: float | None = None
    at_least: bool = False
    budget: float | None = None
    before: float | None = None
    parts: Mapping[str, float] = field(default_factory=dict)

    @property
    def met(self) -> bool | None:
        """True if the objective is met; None if there is none, or nothing is known yet."""
        if self.value is None or self.target is None:
            return None
        return self.value >= self.target if self.at_least else self.value <= self.target

    @property
    def trend(self) -> float | None:
        """The difference to the period before; None if one of the numbers is unknown."""
        return None if self.value is None or self.before is None else self.value - self.before


@dataclass(frozen=True, kw_only=True)
class Indicator:
    """How an indicator is computed from the loads of a period; the fields are as in :class:`Sli`."""

    name: str
    unit: Unit
    value: Callable[[Period], float | None]
    target: Callable[[Table], float | None] = lambda _: None
    at_least: bool = False
    budget: Callable[[Period], float | None] = lambda _: None
    parts: Callable[[Period], Mapping[str, float]] = lambda _: {}


def slis(
    facts: TableFacts,
    at: datetime,
    price_per_hour: float = 0.0,
    earlier: Mapping[str, Check] = MappingProxyType({}),
) -> list[Sli]:
    """The indicators of a table over the period of its objectives, each as listed in :data:`INDICATORS`.

    Args:
        at: The instant at which the facts were gathered, aware.
        price_per_hour: Price of an hour of the computing that a load occupies; 0: costs are in seconds.
        earlier: The results that the checks in :data:`CHECKS` had a period ago, by name, for the trend.
    """
    present = period_of(facts, at, price_per_hour)
    before = present.before(earlier) if facts.first is not None and facts.first < present.since else None
    return [_sli(indicator, present, before) for indicator in INDICATORS]


def slis_with_target(period: Period) -> list[Sli]:
    """The indicators that have a target, without the period before."""
    return [_sli(each, period, None) for each in INDICATORS if each.target(period.facts.table) is not None]


def _sli(indicator: Indicator, present: Period, before: Period | None) -> Sli:
    priced = present.price_per_hour > 0
    return Sli(
        name=indicator.name,
        value=indicator.value(present),
        unit=indicator.unit if priced else _UNPRICED.get(indicator.unit, indicator.unit),
        target=indicator.target(present.facts.table),
        at_least=indicator.at_least,
        budget=indicator.budget(present),
        before=None if before is None else indicator.value(before),
        parts=indicator.parts(present),
    )


_UNPRICED: Mapping[Unit, Unit] = {"price": "seconds", "price/GB": "seconds/GB"}


def quantile(values: Sequence[float], share: float) -> float | None:
    """The smallest of ascending values that at least a share of them do not exceed; None without values.

    Example:
        >>> quantile([1, 2, 3, 4], 0.5), quantile([1, 2, 3, 4], 0.95)
        (2, 4)
    """
    return values[ceil(share * len(values) - 1e-9) - 1] if values else None


def burnt(period: Period) -> float | None:
    """The share of the allowed missed windows that is used up, above 1 if more were missed; None if none was due.

    Where none is allowed it is 0 or 1.
    """
    if not period.due:
        return None
    allowed = (1 - period.facts.table.slo.success) * len(period.due)
    return period.missed / allowed if allowed > 1e-9 else float(period.missed > 0)


def _left(used: float | None) -> float | None:
    return None if used is None else min(max(1 - used, 0.0), 1.0)


def _success(period: Period) -> float | None:
    return period.on_time / len(period.due) if period.due else None


def _freshness(share: float) -> Callable[[Period], float | None]:
    return lambda period: quantile(period.waits, share)


def _freshness_budget(period: Period) -> float | None:
    if not period.waits:
        return None
    promised = period.facts.table.promised.total_seconds()
    return _left(sum(wait > promised for wait in period.waits) / len(period.waits) / LATE_SHARE)


def _number(period: Period, check: str, name: str) -> float | None:
    """A number that the last result of a check has; None if it has none."""
    found = period.facts.checks.get(check)
    value = found.values.get(name) if found else None
    return float(value) if isinstance(value, int | float) else None


def _missing(period: Period) -> float | None:
    compared, missing = (_number(period, RECONCILIATION, f"rows_{name}") for name in ("compared", "missing"))
    return min(missing / compared, 1.0) if compared and missing is not None else None


def _duplicates(period: Period) -> float | None:
    rows = _number(period, UNIQUENESS, "rows")
    for what in ("key", "unique"):
        repeated, affected = (_number(period, UNIQUENESS, f"{what}_{n}") for n in ("repeated", "rows_affected"))
        if repeated is not None and affected is not None:
            return (affected - repeated) / rows if rows else 0.0
    return None


def _share_left(
    value: Callable[[Period], float | None], target: Callable[[Table], float]
) -> Callable[..., float | None]:
    def left(period: Period) -> float | None:
        found, allowed = value(period), target(period.facts.table)
        if found is None:
            return None
        return _left(found / allowed) if allowed > 0 else float(found == 0)

    return left


def _lag_records(period: Period) -> float | None:
    seen = period.facts.watch.seen
    return None if seen is None else seen.waiting_records


def _lag_seconds(period: Period) -> float | None:
    seen = period.facts.watch.seen
    if seen is None:
        return None
    return (seen.oldest + (period.until - seen.time)).total_seconds() if seen.pending else 0.0


def _lag_bytes(period: Period) -> float | None:
    seen = period.facts.watch.seen
    return None if seen is None else float(seen.waiting_bytes)


def _recovery(period: Period) -> float | None:
    return sum(period.recoveries) / len(period.recoveries) if period.recoveries else None


def _cost(period: Period) -> float:
    return period.seconds / 3600 * period.price_per_hour if period.price_per_hour else period.seconds


def _cost_per_gb(period: Period) -> float | None:
    return _cost(period) / (period.bytes / GB) if period.bytes else None


INDICATORS: tuple[Indicator, ...] = (
    Indicator(name="freshness_p50", unit="seconds", value=_freshness(0.5)),
    Indicator(
        name="freshness_p95",
        unit="seconds",
        value=_freshness(0.95),
        target=lambda table: table.promised.total_seconds(),
        budget=_freshness_budget,
    ),
    Indicator(name="freshness_p99", unit="seconds", value=_freshness(0.99)),
    Indicator(
        name="success",
        unit="share",
        value=_success,
        target=lambda table: table.slo.success,
        at_least=True,
        budget=lambda period: _left(burnt(period)),
    ),
    Indicator(
        name="missing",
        unit="share",
        value=_missing,
        target=lambda table: table.slo.missing,
        budget=_share_left(_missing, lambda table: table.slo.missing),
    ),
    Indicator(
        name="duplicates",
        unit="share",
        value=_duplicates,
        target=lambda table: table.slo.duplicates,
        budget=_share_left(_duplicates, lambda table: table.slo.duplicates),
    ),
    Indicator(
        name="reconciliation_seconds",
        unit="seconds",
        value=lambda period: _number(period, RECONCILIATION, "seconds"),
        target=lambda table: table.slo.reconciliation.total_seconds(),
    ),
    Indicator(
        name="recovery_seconds",
        unit="seconds",
        value=_recovery,
        target=lambda table: table.slo.recovery.total_seconds(),
    ),
    Indicator(name="lag_records", unit="records", value=_lag_records, target=lambda table: table.slo.lag_records),
    Indicator(name="lag_seconds", unit="seconds", value=_lag_seconds),
    Indicator(name="lag_bytes", unit="bytes", value=_lag_bytes),
    Indicator(
        name="slot_bytes",
        unit="bytes",
        value=lambda period: _number(period, "headroom", "bytes_kept"),
        target=lambda table: table.slo.slot_bytes,
    ),
    Indicator(
        name="errors",
        unit="attempts",
        value=lambda period: float(len(period.failures)),
        parts=lambda period: Counter(row.error_class for row in period.failures),
    ),
    Indicator(
        name="backfilled_rows",
        unit="rows",
        value=lambda period: float(sum(getattr(row, name) for row in period.backfilled for name in CHANGED)),
    ),
    Indicator(
        name="backfilled_bytes",
        unit="bytes",
        value=lambda period: float(sum(row.bytes for row in period.backfilled)),
    ),
    Indicator(name="cost", unit="price", value=_cost),
    Indicator(name="cost_per_gb", unit="price/GB", value=_cost_per_gb),
)
"""All indicators."""
