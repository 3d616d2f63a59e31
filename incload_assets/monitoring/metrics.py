"""The metrics: their names, and their values by the facts; Prometheus and the dashboards show the same ones."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, NamedTuple

import dagster as dg

from incload_assets.declaration.slo import Criticality
from incload_assets.history.load_row import COUNTS, PHASES
from incload_assets.history.sums import COLLECTED_WITHIN
from incload_assets.monitoring.due_windows import count_due
from incload_assets.monitoring.facts import Facts, TableFacts
from incload_assets.monitoring.period import Period, period_of
from incload_assets.monitoring.slis import INDICATORS, QUANTILES, burnt, quantile, slis_with_target
from incload_assets.sources.upstream.tables import Tables

Kind = Literal["gauge", "counter"]
Values = Iterator[tuple[tuple[str, ...], float]]

URGENCY: Mapping[Criticality, int] = {"high": 2, "normal": 1, "low": 0}
LOOKS_FOR = timedelta(minutes=2)
"""How long a tick of a sensor may take."""
AT_LEAST_0 = ("ContractViolation", "ReconciliationFailed", "SchemaMismatch", "SparkUnavailable")
"""Kinds of errors that are counted from 0 on: the first error of a kind would otherwise not be a growth."""


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A metric of each table.

    Args:
        name: As in Prometheus; a counter's name ends with ``_total``.
        kind: ``counter``: it never decreases, whatever is deleted in Dagster.
        labels: Names of the labels beside ``table``.
        values: The labels' values and the number for each series of a table.
    """

    name: str
    help: str
    kind: Kind = "gauge"
    labels: tuple[str, ...] = ()
    values: Callable[[TableFacts, Facts], Values]


class Sample(NamedTuple):
    """The value of one series; ``table`` is one of its labels. A page of a thousand tables has half a million."""

    metric: str
    labels: Mapping[str, str]
    value: float


def samples(facts: Facts, metrics: Iterable[Metric] | None = None) -> Iterator[Sample]:
    """The samples of all :data:`METRICS`, or of some."""
    for metric in METRICS if metrics is None else metrics:
        for name, table in facts.tables.items():
            for labels, value in metric.values(table, facts):
                named = dict(zip(metric.labels, labels, strict=True)) if labels else {}
                yield Sample(metric.name, {"table": name, **named}, value)


def _info(t: TableFacts, _: Facts) -> Values:
    for owner in t.table.owners or ("",):
        yield (t.table.criticality, owner), 1


def _upstream(t: TableFacts, facts: Facts) -> Values:
    source = t.table.source
    for upstream in source.of if isinstance(source, Tables) else ():
        name = dg.AssetKey(upstream.path).to_user_string()
        known = facts.tables.get(name)
        as_critical = known is not None and URGENCY[known.table.criticality] >= URGENCY[t.table.criticality]
        yield (name, "yes" if as_critical else "no"), 1


def _windows(t: TableFacts, _: Facts) -> Values:
    if t.watch.seen is not None:
        for status, count in t.watch.seen.windows.items():
            yield (status,), count


def _due(t: TableFacts, facts: Facts) -> Values:
    if t.first is not None:
        yield (), count_due(t.table, t.first, facts.at - COLLECTED_WITHIN)


def _missed(t: TableFacts, facts: Facts) -> Values:
    if t.first is not None:
        yield (), max(count_due(t.table, t.first, facts.at - COLLECTED_WITHIN) - t.on_time, 0)


def _overdue(t: TableFacts, facts: Facts) -> Values:
    seen = t.watch.seen
    if seen is None or t.first is None or seen.verdict in ("undeclared", "not due"):
        return
    late = seen.overdue + (facts.at - seen.time).total_seconds() if seen.verdict == "late" else 0.0
    yield (), late


def _news(t: TableFacts, facts: Facts) -> Values:
    seen = t.watch.seen
    if seen is not None:
        since_tick = (facts.at - seen.time).total_seconds()
        yield (), seen.oldest.total_seconds() + since_tick if seen.pending else 0.0


def _age(t: TableFacts, facts: Facts) -> Values:
    if t.newest_window is not None:
        yield (), max((facts.at - t.newest_window).total_seconds(), 0.0)


def _loads(t: TableFacts, _: Facts) -> Values:
    by_outcome = {"loaded": 0, "failed": 0, "cancelled": 0}
    for (outcome, _class), count in t.loads.items():
        by_outcome[outcome] = by_outcome.get(outcome, 0) + count
    for outcome, count in by_outcome.items():
        yield (outcome,), count


def _errors(t: TableFacts, _: Facts) -> Values:
    counts = dict.fromkeys(AT_LEAST_0, 0) | {kind: n for (outcome, kind), n in t.loads.items() if outcome == "failed"}
    for kind, count in counts.items():
        yield (kind,), count


def _rows(t: TableFacts, _: Facts) -> Values:
    for name in COUNTS:
        yield (name.removeprefix("rows_"),), t.totals.get(name, 0)


def _seconds(t: TableFacts, _: Facts) -> Values:
    for name in PHASES:
        yield (name,), t.totals.get(name, 0)


def _checks(t: TableFacts, _: Facts) -> Values:
    for name, check in t.checks.items():
        yield (name, check.severity if not check.passed else ""), float(check.passed)


def _check_times(t: TableFacts, _: Facts) -> Values:
    for name, check in t.checks.items():
        yield (name,), check.at.timestamp()


def _mismatches(t: TableFacts, _: Facts) -> Values:
    if (found := t.checks.get("reconciliation")) is not None:
        for kind in ("windows_differing", "windows_drifted", "keys_pending"):
            yield (kind.replace("windows_", "").replace("keys_", ""),), float(found.values.get(kind) or 0)


def _retention(t: TableFacts, _: Facts) -> Values:
    if (found := t.checks.get("headroom")) is not None and "share_left" in found.values:
        yield (), float(found.values["share_left"])


def _slot_bytes(t: TableFacts, _: Facts) -> Values:
    if (found := t.checks.get("headroom")) is not None and "bytes_kept" in found.values:
        yield (), float(found.values["bytes_kept"])


def _under_way(t: TableFacts, _: Facts) -> Values:
    for status in ("queued", "started"):
        yield (status,), t.under_way.get(status, 0)


def _sensor_success(t: TableFacts, _: Facts) -> Values:
    if t.watch.success is not None:
        yield (), t.watch.success.timestamp()


def _source_up(t: TableFacts, facts: Facts) -> Values:
    """1 while a tick is still looking, if the one before it succeeded: Dagster stores only when a tick began."""
    watch = t.watch
    if watch.running and watch.tick is not None:
        looking = facts.at - watch.tick < LOOKS_FOR
        since = watch.tick - (t.table.interval + LOOKS_FOR if looking else timedelta(0))
        yield (), float(watch.success is not None and watch.success >= since)


def _lag_records(t: TableFacts, _: Facts) -> Values:
    if t.watch.seen is not None and t.watch.seen.waiting_records is not None:
        for part, count in (t.watch.seen.waiting_by_part or {"": t.watch.seen.waiting_records}).items():
            yield (part,), count


def _period(t: TableFacts, facts: Facts) -> Period:
    """The present period, computed once for all metrics of a table."""
    name = t.table.name
    if name not in facts.shared:
        facts.shared[name] = period_of(t, facts.at)
    found: Period = facts.shared[name]
    return found


def _freshness(t: TableFacts, facts: Facts) -> Values:
    waits = _period(t, facts).waits
    for share in QUANTILES:
        if (seconds := quantile(waits, share)) is not None:
            yield (f"{share:g}",), seconds


def _slis(t: TableFacts, facts: Facts) -> Values:
    for sli in slis_with_target(_period(t, facts)):
        if sli.target is not None and sli.value is not None:
            yield (sli.name,), sli.value


def _targets(t: TableFacts, _: Facts) -> Values:
    for indicator in INDICATORS:
        if (target := indicator.target(t.table)) is not None:
            yield (indicator.name,), target


def _burnt(t: TableFacts, facts: Facts) -> Values:
    if (share := burnt(_period(t, facts))) is not None:
        yield (), share


def _late(t: TableFacts, facts: Facts) -> Values:
    seen = t.watch.seen
    if t.first is None:
        return
    if seen is not None and seen.verdict != "undeclared":
        yield (), float(seen.verdict == "late")
        return
    due = _period(t, facts).due
    yield (), float(bool(due) and not any(row.window_end == due[-1] and row.outcome == "loaded" for row in t.recent))


METRICS: tuple[Metric, ...] = (
    Metric(
        name="incload_table_info", help="1 for each owner of a table.", labels=("criticality", "owner"), values=_info
    ),
    Metric(
        name="incload_upstream_info",
        help="1 for each table that a table is derived from, and whether that one is at least as critical.",
        labels=("upstream", "as_critical"),
        values=_upstream,
    ),
    Metric(
        name="incload_windows",
        help="Windows by status, as the sensor last saw them.",
        labels=("status",),
        values=_windows,
    ),
    Metric(
        name="incload_due_windows_total",
        help="Windows that became due since the table's first load.",
        kind="counter",
        values=_due,
    ),
    Metric(
        name="incload_missed_windows_total",
        help="Windows that were not loaded when they became due, whether or not a run ever started.",
        kind="counter",
        values=_missed,
    ),
    Metric(
        name="incload_overdue_seconds",
        help="For how long the latest due window has been overdue; 0 if it is loaded or its source is idle.",
        values=_overdue,
    ),
    Metric(
        name="incload_news_waiting_seconds",
        help="For how long the oldest news at the source have been waiting to be loaded, in open windows too.",
        values=_news,
    ),
    Metric(name="incload_age_seconds", help="Time since the end of the newest loaded window.", values=_age),
    Metric(name="incload_loads_total", help="Attempts by outcome.", kind="counter", labels=("outcome",), values=_loads),
    Metric(
        name="incload_errors_total",
        help="Failed attempts by kind of error.",
        kind="counter",
        labels=("class",),
        values=_errors,
    ),
    Metric(
        name="incload_rows_total", help="Rows of all loads by count.", kind="counter", labels=("kind",), values=_rows
    ),
    Metric(
        name="incload_bytes_total",
        help="Size of the changes of all loads in the log.",
        kind="counter",
        values=lambda t, _: iter([((), t.totals.get("bytes", 0))]),
    ),
    Metric(
        name="incload_phase_seconds_total",
        help="Time of all loads by phase.",
        kind="counter",
        labels=("phase",),
        values=_seconds,
    ),
    Metric(
        name="incload_backfilled_rows_total",
        help="Rows changed by loads of windows that had been loaded after their end before.",
        kind="counter",
        values=lambda t, _: iter([((), t.late_rows)]),
    ),
    Metric(
        name="incload_backfilled_bytes_total",
        help="Size of the changes of loads of windows that had been loaded after their end before.",
        kind="counter",
        values=lambda t, _: iter([((), t.late_bytes)]),
    ),
    Metric(
        name="incload_check_passed",
        help="1 if the last result of a check is good; severity is that of a bad one.",
        labels=("check", "severity"),
        values=_checks,
    ),
    Metric(
        name="incload_check_timestamp_seconds",
        help="When a check last observed its table.",
        labels=("check",),
        values=_check_times,
    ),
    Metric(
        name="incload_mismatches",
        help="Findings of the last reconciliation: windows that differ or drifted, keys that are pending.",
        labels=("kind",),
        values=_mismatches,
    ),
    Metric(
        name="incload_retention_left_ratio",
        help="Unused share of the source's retention for data that is not loaded.",
        values=_retention,
    ),
    Metric(
        name="incload_lag_records",
        help="Records at the source that are not loaded, if it can count them, by topic partition if it has such.",
        labels=("topic_partition",),
        values=_lag_records,
    ),
    Metric(
        name="incload_lag_bytes",
        help="Estimated size of what loads of the pending windows would read.",
        values=lambda t, _: iter([((), t.watch.seen.waiting_bytes)] if t.watch.seen else []),
    ),
    Metric(
        name="incload_slot_bytes",
        help="Log that the server keeps for the reader of the source's replication slot, by the check headroom.",
        values=_slot_bytes,
    ),
    Metric(
        name="incload_stopped_windows",
        help="Windows that wait for a person.",
        values=lambda t, _: iter([((), len(t.watch.seen.stopped))] if t.watch.seen else []),
    ),
    Metric(name="incload_runs", help="Runs of the table now.", labels=("status",), values=_under_way),
    Metric(
        name="incload_backfills",
        help="Backfills of the table that are under way.",
        values=lambda t, _: iter([((), t.backfills)]),
    ),
    Metric(
        name="incload_sensor_running",
        help="0 if somebody has stopped the sensor.",
        values=lambda t, _: iter([((), float(t.watch.running))]),
    ),
    Metric(
        name="incload_paused",
        help="1 if somebody has paused the table's loads.",
        values=lambda t, _: iter([((), float(t.pause is not None))]),
    ),
    Metric(
        name="incload_silenced",
        help="1 if somebody has silenced messages about the table.",
        values=lambda t, _: iter([((), float(t.silence is not None))]),
    ),
    Metric(
        name="incload_sensor_success_timestamp_seconds",
        help="When the sensor last looked at the table without an error.",
        values=_sensor_success,
    ),
    Metric(
        name="incload_source_up",
        help="0 if the last look of the sensor at the table failed, because the source did not answer or refused.",
        values=_source_up,
    ),
    Metric(
        name="incload_readable",
        help="0 if the table or its log in the lake cannot be read.",
        values=lambda t, _: iter([((), float(t.unreadable is None))]),
    ),
    Metric(
        name="incload_last_load_timestamp_seconds",
        help="When a window of the table was last loaded.",
        values=lambda t, _: iter([((), t.newest.timestamp())] if t.newest else []),
    ),
    Metric(
        name="incload_freshness_seconds",
        help="How long windows and news of the period of the objectives waited to be loaded.",
        labels=("quantile",),
        values=_freshness,
    ),
    Metric(
        name="incload_sli",
        help="Indicators that have an objective, over its period.",
        labels=("sli",),
        values=_slis,
    ),
    Metric(name="incload_slo_target", help="The objectives.", labels=("sli",), values=_targets),
    Metric(
        name="incload_budget_burnt_ratio",
        help="Share of the period's allowed missed windows that is used up.",
        values=_burnt,
    ),
    Metric(
        name="incload_cost_total",
        help="Time of all loads at the declared price of an hour; 0 if none is declared.",
        kind="counter",
        values=lambda t, facts: iter([((), t.totals.get("seconds", 0) / 3600 * facts.price_per_hour)]),
    ),
    Metric(name="incload_late", help="1 if the latest due window is overdue.", values=_late),
)
"""The metrics of tables."""

HEARTBEAT = "incload_daemon_heartbeat_timestamp_seconds"
"""When each of Dagster's daemons last gave a sign of life; its label is ``daemon``."""
OBSERVED = "incload_observed_timestamp_seconds"
"""When the metrics were gathered; a heartbeat of the exporter."""
LAKE_READABLE = "incload_lake_readable"
"""1 if the audit and the decisions about rejected rows can be read, else 0."""
ALL_SILENCED = "incload_all_silenced"
"""Whether messages about all tables and the machinery are silenced."""
