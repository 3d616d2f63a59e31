"""The alerts as data: what is wrong, since when, whom it concerns and what to do.

An alert on a table is as urgent as the table is critical. What is harmless, or is reported by another alert, is an
*excuse*: a table with one is not reported as late, see :data:`EXCUSES`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from incload_assets.monitoring.metrics import ALL_SILENCED, HEARTBEAT, LAKE_READABLE, OBSERVED

Urgency = Literal["criticality", "ticket", "finding", "page", "none"]
"""How the label ``severity`` is found. ``criticality``: ``high`` pages, ``normal`` is a ticket, ``low`` is ``none``.
``ticket``: a ticket, unless the table's criticality is ``low``. ``finding``: as ``criticality`` for a check's error, as
``ticket`` for its warning. ``page``, ``none``: always that, for alerts that concern no table."""
DAEMONS = "SENSOR|SCHEDULER|BACKFILL|QUEUED_RUN_COORDINATOR"
JOB = "incload"
"""Prometheus's name for the exporter."""
EXCUSE, CRITICALITY = "incload:excuse", "incload:criticality"
"""The names of recorded series: tables that may be late, by reason, and the criticality of each table."""


@dataclass(frozen=True, kw_only=True)
class Alert:
    """An alert.

    Args:
        expr: The condition in PromQL, one series for each table that it concerns, with values of the tables:
            ``$tables``, ``$promised`` (seconds), ``$fast`` (share of missed windows that burns the budget ten times as
            fast as it may), ``$short`` and ``$long`` (of the burn rate), ``$patience`` (seconds without a tick).
        lasts: For how long the condition has to hold.
        summary: One line, a template of Prometheus.
        action: What to do, one or two sentences.
        runbook: The heading's anchor on the page of runbooks.
        cause: Alerts on one table with one cause are sent together.
        failure_mode: The failure mode that it shows, ``F1`` to ``F7``; empty if it is none of them.
    """

    name: str
    expr: str
    lasts: timedelta = timedelta(0)
    urgency: Urgency = "criticality"
    summary: str
    action: str
    runbook: str
    cause: str
    failure_mode: str = ""


MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)

EXCUSES: Mapping[str, str] = {
    "never loaded": "incload_sensor_running unless on (table) incload_last_load_timestamp_seconds",
    "held": "incload_sensor_running == 0",
    "paused": "incload_paused == 1",
    "source down": "incload_source_up == 0",
    "backfill": "incload_backfills > 0",
    "upstream": (
        'max by (table) (incload_upstream_info{as_critical="yes"} * on (upstream) group_left () label_replace('
        f'max by (table) (incload_overdue_seconds > 0 or on (table) {EXCUSE}{{reason!="upstream"}}), '
        '"upstream", "$1", "table", "(.*)"))'
    ),
}
"""Why a table may be late without an alert, with the tables in PromQL. ``upstream``: a table that it is derived from is
late or excused, and at least as critical, so that its own alert is as urgent."""
_UNEXCUSED = f"unless on (table) {EXCUSE}"
_REACHABLE = f'unless on (table) {EXCUSE}{{reason="source down"}}'


def _failed(check: str, but: str = "") -> str:
    return f'incload_check_passed{{check="{check}"}} == 0 {but}'.strip()


def _errors(kinds: str, over: str = "1h") -> str:
    return f'increase(incload_errors_total{{class=~"{kinds}"}}[{over}])'


_BUDGET_SHARES: tuple[tuple[str, float, Urgency], ...] = (
    ("IncloadBudgetQuarterBurnt", 0.25, "ticket"),
    ("IncloadBudgetMostlyBurnt", 0.75, "criticality"),
)
FRESHNESS = (
    Alert(
        name="IncloadTableLate",
        expr=f"incload_overdue_seconds > 0 {_UNEXCUSED}",
        lasts=2 * MINUTE,
        summary="{{ $labels.table }} is late: its latest due window is overdue by {{ $value | humanizeDuration }}",
        action="Look at `incload status {{ $labels.table }}`: load what is missing, or fix what fails.",
        runbook="missed-updates",
        cause="late",
        failure_mode="F1",
    ),
    Alert(
        name="IncloadNewsWaiting",
        expr=f'incload_news_waiting_seconds{{table=~"$tables"}} > $promised {_UNEXCUSED}',
        lasts=2 * MINUTE,
        summary="News for {{ $labels.table }} have been waiting for {{ $value | humanizeDuration }}",
        action="Look at `incload status {{ $labels.table }}` and at the queue of runs: a run fails, or has no slot.",
        runbook="lag",
        cause="news",
        failure_mode="F1",
    ),
    Alert(
        name="IncloadBudgetBurnsFast",
        expr=(
            'sum by (table) (increase(incload_missed_windows_total{table=~"$tables"}[$long])) '
            '/ sum by (table) (increase(incload_due_windows_total{table=~"$tables"}[$long])) > $fast '
            'and sum by (table) (increase(incload_missed_windows_total{table=~"$tables"}[$short])) '
            '/ sum by (table) (increase(incload_due_windows_total{table=~"$tables"}[$short])) > $fast '
            f"{_UNEXCUSED}"
        ),
        lasts=5 * MINUTE,
        summary="{{ $labels.table }} misses {{ $value | humanizePercentage }} of its windows, ten times what it may",
        action="Windows are missed now: find the cause in `incload status {{ $labels.table }}`.",
        runbook="missed-updates",
        cause="budget",
        failure_mode="F1",
    ),
    *(
        Alert(
            name=name,
            expr=(
                f"incload_budget_burnt_ratio >= {share} "
                "and on (table) increase(incload_missed_windows_total[3d]) > 0 "
                f"{_UNEXCUSED}"
            ),
            lasts=5 * MINUTE,
            urgency=urgency,
            summary="{{ $labels.table }} has burnt {{ $value | humanizePercentage }} of its error budget",
            action="Look at `incload slo {{ $labels.table }}` for the windows that were missed, and why.",
            runbook="missed-updates",
            cause="budget",
            failure_mode="F1",
        )
        for name, share, urgency in _BUDGET_SHARES
    ),
)
"""Whether tables are up to date. The budget counts within days, so that daily tables have windows in them."""

CORRECTNESS = (
    Alert(
        name="IncloadRowsDiffer",
        expr=(
            'sum by (table) (incload_mismatches{kind=~"differing|pending"}) > 0 '
            f"or sum by (table) ({_errors('ReconciliationFailed')}) > 0"
        ),
        summary="{{ $labels.table }} differs from its log or its source",
        action=(
            "The sensor loads such windows once more. If it stays, compare the windows: "
            "`incload check {{ $labels.table }}`."
        ),
        runbook="partial-commit",
        cause="mismatch",
        failure_mode="F6",
    ),
    Alert(
        name="IncloadWindowsDrifted",
        expr='incload_mismatches{kind="drifted"} > 0',
        lasts=HOUR,
        urgency="ticket",
        summary="{{ $labels.table }}: the source of {{ $value }} loaded windows has changed since",
        action="The sensor should have loaded them again: `incload load {{ $labels.table }} --all-missing`.",
        runbook="missed-updates",
        cause="mismatch",
        failure_mode="F1",
    ),
    Alert(
        name="IncloadDuplicates",
        expr=_failed("uniqueness"),
        summary="{{ $labels.table }} holds a key twice",
        action="The check `uniqueness` lists the keys. Remove the rows that did not come from a load.",
        runbook="duplicate-writes",
        cause="duplicates",
        failure_mode="F2",
    ),
    Alert(
        name="IncloadSchemaBreak",
        expr=(
            f"sum by (table, class) ({_errors('SchemaMismatch|ContractViolation')}) > 0 "
            f"or sum by (table, class) ({_errors('SchemaMismatch|ContractViolation', '1d')}) > 0 "
            'and on (table) incload_windows{status="failed"} > 0'
        ),
        summary="Loads of {{ $labels.table }} fail, because rows or columns changed: {{ $labels.class }}",
        action="Let the source's owner correct the data, or adapt the contract; then load the failed windows.",
        runbook="schema-break",
        cause="schema",
        failure_mode="F3",
    ),
    Alert(
        name="IncloadLateArrivals",
        expr=(
            "sum by (table) (increase(incload_backfilled_rows_total[1d])) > 10 "
            "and on (table) sum by (table) (increase(incload_backfilled_rows_total[1d])) "
            '> 0.1 * sum by (table) (increase(incload_rows_total{kind="applied"}[1d])) '
            f'unless on (table) {EXCUSE}{{reason="backfill"}}'
        ),
        urgency="ticket",
        summary="{{ $labels.table }}: {{ $value | humanize }} rows of a day belong to windows that were over",
        action="Ask the source's owner whether this goes on. If so, declare a lag or a longer freshness.",
        runbook="late-arrivals",
        cause="late-rows",
        failure_mode="F4",
    ),
    Alert(
        name="IncloadCheckpointLoss",
        expr=(
            f"max by (table) ({_failed('rollback')}) "
            'or max by (table) (incload_windows{status="loaded"} '
            '< 0.5 * (incload_windows{status="loaded"} offset 15m) '
            'and on (table) incload_windows{status="missing"} > incload_windows{status="missing"} offset 15m)'
        ),
        summary="{{ $labels.table }}: windows that were loaded are not any more, or their checkpoints are lost",
        action="The sensor loads them again. Find out who restored or removed the table, or Dagster's storage.",
        runbook="checkpoint-loss",
        cause="checkpoint",
        failure_mode="F5",
    ),
    Alert(
        name="IncloadClockSkew",
        expr=_failed("clock", _REACHABLE),
        urgency="ticket",
        summary="{{ $labels.table }}: the source's clock is wrong, or its rows are dated in the future",
        action="Set the clocks; or declare a longer lag; or have the rows corrected.",
        runbook="clock-skew",
        cause="clock",
        failure_mode="F7",
    ),
)
"""Whether tables are right."""

CHECKS = tuple(
    Alert(
        name=f"Incload{name}",
        expr=_failed(check, but),
        lasts=lasts,
        urgency="finding",
        summary=f"{{{{ $labels.table }}}}: {finds}",
        action=f"{action} The result of the check `{check}` has the details.",
        runbook=runbook,
        cause=check.replace("_", "-"),
        failure_mode=failure_mode,
    )
    for name, check, but, lasts, finds, action, runbook, failure_mode in (
        ("Gaps", "gaps", _UNEXCUSED, 30 * MINUTE, "windows between loaded ones are missing or failed",
         "Load them: `incload load {{ $labels.table }} --all-missing`.", "backfill", "F1"),
        ("Volume", "volume", "", timedelta(0), "a window has unusually many or few rows",
         "Ask the source's owner whether that is right.", "late-arrivals", ""),
        ("Quarantine", "quarantine", "", timedelta(0), "many rows break the contract",
         "Have the rows corrected, or adapt the contract.", "schema-break", "F3"),
        ("SchemaDrift", "schema", "", timedelta(0), "the source sends what the contract does not declare",
         "Declare the fields and fill them, or ignore them.", "schema-break", "F3"),
        ("SourceFiles", "source_files", _REACHABLE, timedelta(0), "loaded files are gone from the source",
         "Restore the files, or let their rows be removed.", "missed-updates", "F1"),
        ("Skew", "skew", "", timedelta(0), "one key, partition or bucket has far more rows than the others",
         "Have a default that stands for a missing key corrected, or change the number of buckets.", "skew", ""),
        ("Conflicts", "conflicts", "", timedelta(0), "its sources contradict each other",
         "Let the owners of the sources settle which one is right.", "duplicate-writes", "F2"),
    )
)  # fmt: skip
"""Checks whose findings have no alert of their own above."""

SOURCES = (
    Alert(
        name="IncloadTableUnreadable",
        expr="incload_readable == 0",
        lasts=5 * MINUTE,
        summary="{{ $labels.table }} or its log in the lake cannot be read",
        action="Run `incload doctor {{ $labels.table }}`: it names the file and the remedy.",
        runbook="a-table-cannot-be-read",
        cause="readable",
    ),
    Alert(
        name="IncloadSourceDown",
        expr="incload_source_up == 0",
        lasts=10 * MINUTE,
        summary="The source of {{ $labels.table }} does not answer",
        action="See the sensor's last error in Dagster; inform the source's owner. Loads go on by themselves.",
        runbook="source-down",
        cause="source",
    ),
    Alert(
        name="IncloadRetentionLow",
        expr="incload_retention_left_ratio < 0.25",
        lasts=5 * MINUTE,
        urgency="ticket",
        summary="{{ $labels.table }}: {{ $value | humanizePercentage }} of the source's retention is left",
        action="Load the oldest windows, or let the source keep its data for longer.",
        runbook="resync",
        cause="retention",
    ),
    Alert(
        name="IncloadRetentionEnds",
        expr=(
            "max by (table) (incload_retention_left_ratio < 0.1 "
            f'or on (table) incload_check_passed{{check="headroom",severity="ERROR"}} == 0 {_REACHABLE})'
        ),
        summary="{{ $labels.table }}: the source is about to drop what is not loaded, or has done so",
        action="Load at once. If data is gone, take a new full extract.",
        runbook="resync",
        cause="retention",
    ),
)
"""Whether sources answer, and keep what is not loaded."""

LOADS = (
    Alert(
        name="IncloadErrors",
        expr=(
            "sum by (table, class) (increase(incload_errors_total"
            '{class!~"ContractViolation|SchemaMismatch|ReconciliationFailed|SparkUnavailable"}[1h])) > 3'
        ),
        urgency="ticket",
        summary="{{ $labels.table }}: {{ $value | humanize }} failed loads within an hour, {{ $labels.class }}",
        action="The failed runs in Dagster have the message and its remedy.",
        runbook="restart",
        cause="errors",
    ),
    Alert(
        name="IncloadWindowsWaitForPerson",
        expr="incload_stopped_windows > 0",
        lasts=10 * MINUTE,
        urgency="ticket",
        summary="{{ $labels.table }}: {{ $value }} windows wait for a person",
        action="`incload status {{ $labels.table }}` says why; remove the cause and load them.",
        runbook="restart",
        cause="person",
    ),
    Alert(
        name="IncloadBackfillHangs",
        expr="incload_backfills > 0",
        lasts=DAY,
        urgency="ticket",
        summary="{{ $labels.table }}: a backfill has been under way for a day",
        action="Its lateness is not reported meanwhile: finish or cancel the backfill in Dagster.",
        runbook="backfill",
        cause="backfill",
    ),
    Alert(
        name="IncloadSensorStands",
        expr=(
            'time() - incload_sensor_success_timestamp_seconds{table=~"$tables"} > $patience '
            f'unless on (table) {EXCUSE}{{reason=~"held|source down"}}'
        ),
        lasts=5 * MINUTE,
        summary="The sensor of {{ $labels.table }} has not run for {{ $value | humanizeDuration }}",
        action="See the sensor's ticks in Dagster, and restart the daemon if other sensors stand, too.",
        runbook="restart",
        cause="sensor",
    ),
)
"""Whether loads go on."""

MACHINERY = (
    Alert(
        name="IncloadExporterDown",
        expr=f'up{{job="{JOB}"}} == 0 or absent(up{{job="{JOB}"}})',
        lasts=5 * MINUTE,
        urgency="page",
        summary="Nobody watches the tables: `incload metrics` does not answer",
        action="Start it again, or look at its output.",
        runbook="restart",
        cause="exporter",
    ),
    Alert(
        name="IncloadStorageDown",
        expr="incload_up == 0",
        lasts=5 * MINUTE,
        urgency="page",
        summary="Nobody watches the tables: lake or Dagster's storage do not answer",
        action="The output of `incload metrics` has the error; bring the storage up.",
        runbook="postgres-gone",
        cause="storage",
    ),
    Alert(
        name="IncloadLakeUnreadable",
        expr=f"{LAKE_READABLE} == 0",
        lasts=5 * MINUTE,
        urgency="page",
        summary="The audit or the decisions about rejected rows cannot be read, so that loads are refused",
        action="Run `incload doctor`: it names the file and the remedy.",
        runbook="a-table-cannot-be-read",
        cause="readable",
    ),
    Alert(
        name="IncloadObservationStale",
        expr=f"time() - {OBSERVED} > 300",
        lasts=2 * MINUTE,
        urgency="page",
        summary="The metrics are {{ $value | humanizeDuration }} old",
        action="Restart `incload metrics`, or whatever passes its metrics on; compare the machines' clocks.",
        runbook="restart",
        cause="exporter",
    ),
    Alert(
        name="IncloadDaemonDown",
        expr=(
            f'time() - max by (daemon) ({HEARTBEAT}{{daemon=~"{DAEMONS}"}}) > 300 '
            f'or absent({HEARTBEAT}{{daemon="SENSOR"}}) and on () incload_up == 1'
        ),
        lasts=2 * MINUTE,
        urgency="page",
        summary="Dagster's daemon gives no sign of life: nothing is loaded",
        action="Restart the daemon; its log says why it ended.",
        runbook="restart",
        cause="daemon",
    ),
    Alert(
        name="IncloadSparkGone",
        expr=f"sum ({_errors('SparkUnavailable', '15m')}) > 0",
        urgency="page",
        summary="Loads fail, because Spark does not answer",
        action="Look at the Spark server and start it again; loads are tried again by themselves.",
        runbook="spark-gone",
        cause="spark",
    ),
    Alert(
        name="IncloadDeadManSwitch",
        expr="vector(1)",
        urgency="none",
        summary="Alerts arrive",
        action="This one always fires. If it no longer arrives, Prometheus or Alertmanager is down.",
        runbook="restart",
        cause="dead-man",
    ),
)
"""Whether anything would be noticed at all."""
SILENCED = tuple(
    Alert(
        name=name,
        expr=f"last_over_time({metric}[15m]) == 1",  # the exporter may be down for planned work, too
        urgency="none",
        summary=f"Messages about {about} are silenced",
        action="See who silenced them, why and until when in `incload status`; `incload silence --off` ends it.",
        runbook="checklists",
        cause="silenced",
    )
    for name, metric, about in (
        ("IncloadSilenced", "incload_silenced", "{{ $labels.table }}"),
        ("IncloadAllSilenced", ALL_SILENCED, "all tables and the machinery"),
    )
)
"""Planned work: these are sent to no channel, and Alertmanager leaves out the others meanwhile."""
ALERTS = (*FRESHNESS, *CORRECTNESS, *CHECKS, *SOURCES, *LOADS, *MACHINERY, *SILENCED)
"""All alerts."""
