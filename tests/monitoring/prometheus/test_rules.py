"""Prometheus's rules: each alert fires when it must, and not when a table is idle, held, planned or excused."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest

from incload_assets.assets import Slo
from incload_assets.checks.registry import LIGHT_CHECKS, TABLE_CHECKS
from incload_assets.declaration.table import Table
from incload_assets.monitoring.prometheus.alerts import ALERTS
from incload_assets.monitoring.prometheus.rendered import as_yaml
from incload_assets.monitoring.prometheus.rules import RUNBOOKS, Objectives, rules
from incload_assets.platform.settings import Settings
from tests.support.guest_table import house
from tests.support.load_history import named
from tests.support.prometheus_tools import assert_firing, run

AT = datetime(2026, 2, 1, tzinfo=UTC)
DAY = 24 * 60
CHECKS = (*LIGHT_CHECKS, *TABLE_CHECKS, "reconciliation")
FAILURE_MODES = {"F1", "F2", "F3", "F4", "F5", "F6", "F7"}
Series = dict[str, str]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> list[Table]:
    with house(tmp_path_factory.mktemp("house"), Settings()) as h:
        return [
            named(h.table, "orders", criticality="high", owners=("ada@example.org", "team:shop")),
            named(h.table, "prices", criticality="normal"),
            named(h.table, "retail/sales", criticality="high", slo=Slo(freshness=timedelta(minutes=5))),
        ]


@pytest.fixture(scope="module")
def file(tables: list[Table], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rules") / "rules.yaml"
    path.write_text(as_yaml(rules(tables, at=AT)))
    return path


def always(value: float) -> str:
    return f"{value:g}+0xN"


def passed(check: str, table: str = "orders", severity: str = "") -> str:
    return f'incload_check_passed{{table="{table}",check="{check}",severity="{severity}"}}'


def failed(check: str, severity: str, table: str = "orders") -> Series:
    return {passed(check, table): "_", passed(check, table, severity): always(0)}


def healthy(table: str = "orders", criticality: str = "high", step: int = 1) -> Series:
    """The series of a table that is all right; its counters of rows grow."""
    clock = f"0+{60 * step}xN"
    of_table = {
        "incload_sensor_running": always(1),
        "incload_source_up": always(1),
        "incload_readable": always(1),
        "incload_last_load_timestamp_seconds": clock,
        "incload_sensor_success_timestamp_seconds": clock,
        "incload_overdue_seconds": always(0),
        "incload_news_waiting_seconds": always(0),
        "incload_backfills": always(0),
        "incload_stopped_windows": always(0),
        "incload_retention_left_ratio": always(1),
        "incload_budget_burnt_ratio": always(0),
        "incload_due_windows_total": always(10),
        "incload_missed_windows_total": always(0),
        "incload_backfilled_rows_total": always(0),
        'incload_rows_total{kind="applied"}': "0+100xN",
        'incload_windows{status="loaded"}': always(10),
        'incload_windows{status="missing"}': always(0),
        'incload_windows{status="failed"}': always(0),
        **{f'incload_mismatches{{kind="{kind}"}}': always(0) for kind in ("differing", "drifted", "pending")},
        **{
            f'incload_errors_total{{class="{kind}"}}': always(0)
            for kind in ("ContractViolation", "ReconciliationFailed", "SchemaMismatch", "SparkUnavailable", "Killed")
        },
    }
    named_series = {of(name, table): values for name, values in of_table.items()}
    return {
        'up{job="incload"}': always(1),
        "incload_up": always(1),
        "incload_observed_timestamp_seconds": clock,
        'incload_daemon_heartbeat_timestamp_seconds{daemon="SENSOR"}': clock,
        f'incload_table_info{{table="{table}",criticality="{criticality}",owner="a"}}': always(1),
        f'incload_table_info{{table="{table}",criticality="{criticality}",owner="b"}}': always(1),
        **named_series,
        **{passed(check, table): always(1) for check in CHECKS},
    }


def of(metric: str, table: str = "orders") -> str:
    """A series of a table."""
    name, _, labels = metric.rstrip("}").partition("{")
    return f'{name}{{table="{table}"{"," if labels else ""}{labels}}}'


@dataclass(frozen=True)
class Case:
    """What is known, and which alerts have to fire.

    Args:
        about: For the name of the test.
        series: What differs from a healthy table; ``_``: the series is not there.
        firing: Severities by alert.
        minutes: For how long it has been so.
        step: Minutes between two scrapes.
        criticality: Of the table.
    """

    about: str
    series: Series
    firing: Mapping[str, str] = field(default_factory=dict)
    minutes: int = 20
    step: int = 1
    criticality: str = "high"


def late(**more: float) -> Series:
    return {of("incload_overdue_seconds"): "0+60xN", **{of(name): always(value) for name, value in more.items()}}


def grown(metric: str, by: float, at: int = 10) -> Series:
    """A counter that has grown once."""
    return {of(metric): f"0+0x{at - 1} {by:g}+0xN"}


SOON = {of("incload_news_waiting_seconds"): always(1_000_000)}
BURNT = {of("incload_due_windows_total"): "0+1xN", of("incload_missed_windows_total"): "0+0x60 1+1xN"}
ONCE = {of("incload_due_windows_total"): "0+9xN", of("incload_missed_windows_total"): "0+0x30 1+0xN"}
FIRES = (
    Case("a table is late", late(), {"IncloadTableLate": "page"}),
    Case("a table of normal criticality is late", late(), {"IncloadTableLate": "ticket"}, criticality="normal"),
    Case("a table of low criticality is late", late(), {"IncloadTableLate": "none"}, criticality="low"),
    Case("news have waited for longer than is promised", SOON, {"IncloadNewsWaiting": "page"}),
    Case(
        "windows are missed one after the other",
        BURNT,
        {"IncloadBudgetBurnsFast": "page"},
        minutes=70 * 60,
        step=60,
    ),
    Case(
        "a quarter of the budget is burnt",
        ONCE | {of("incload_budget_burnt_ratio"): always(0.3)},
        {"IncloadBudgetQuarterBurnt": "ticket"},
        minutes=70 * 60,
        step=60,
    ),
    Case(
        "three quarters of the budget are burnt",
        ONCE | {of("incload_budget_burnt_ratio"): always(0.8)},
        {"IncloadBudgetQuarterBurnt": "ticket", "IncloadBudgetMostlyBurnt": "page"},
        minutes=70 * 60,
        step=60,
    ),
    Case(
        "a reconciliation has found keys that are in the log only",
        {of('incload_mismatches{kind="pending"}'): always(2)},
        {"IncloadRowsDiffer": "page"},
    ),
    Case(
        "a reconciliation has found windows that differ",
        {of('incload_mismatches{kind="differing"}'): always(1)},
        {"IncloadRowsDiffer": "page"},
    ),
    Case(
        "a load found that the table differs from its log",
        grown('incload_errors_total{class="ReconciliationFailed"}', 1),
        {"IncloadRowsDiffer": "page"},
    ),
    Case(
        "windows have drifted for hours",
        {of('incload_mismatches{kind="drifted"}'): always(1)},
        {"IncloadWindowsDrifted": "ticket"},
        minutes=70,
    ),
    Case("a key is twice in the table", failed("uniqueness", "ERROR"), {"IncloadDuplicates": "page"}),
    Case(
        "a load stopped because of the contract",
        grown('incload_errors_total{class="ContractViolation"}', 1),
        {"IncloadSchemaBreak": "page"},
    ),
    Case(
        "a load that stopped hours ago because of its schema has not been repaired",
        grown('incload_errors_total{class="SchemaMismatch"}', 1) | {of('incload_windows{status="failed"}'): always(1)},
        {"IncloadSchemaBreak": "page"},
        minutes=300,
    ),
    Case(
        "many rows arrive late",
        grown("incload_backfilled_rows_total", 1000),
        {"IncloadLateArrivals": "ticket"},
    ),
    Case("the table was restored", failed("rollback", "ERROR"), {"IncloadCheckpointLoss": "page"}),
    Case(
        "the checkpoints are lost",
        {
            of('incload_windows{status="loaded"}'): "10+0x9 0+0xN",
            of('incload_windows{status="missing"}'): "0+0x9 10+0xN",
        },
        {"IncloadCheckpointLoss": "page"},
    ),
    Case("a clock is wrong", failed("clock", "WARN"), {"IncloadClockSkew": "ticket"}),
    Case("windows are missing", failed("gaps", "WARN"), {"IncloadGaps": "ticket"}, minutes=40),
    Case("a window is unusually small", failed("volume", "WARN"), {"IncloadVolume": "ticket"}),
    Case("many rows are in quarantine", failed("quarantine", "WARN"), {"IncloadQuarantine": "ticket"}),
    Case("a load stopped because of quarantined rows", failed("quarantine", "ERROR"), {"IncloadQuarantine": "page"}),
    Case(
        "rows are in quarantine of a table of low criticality",
        failed("quarantine", "ERROR"),
        {"IncloadQuarantine": "none"},
        criticality="low",
    ),
    Case("the source sends other fields", failed("schema", "WARN"), {"IncloadSchemaDrift": "ticket"}),
    Case("files are gone", failed("source_files", "WARN"), {"IncloadSourceFiles": "ticket"}),
    Case("one key has most of the rows", failed("skew", "WARN"), {"IncloadSkew": "ticket"}),
    Case("sources contradict each other", failed("conflicts", "WARN"), {"IncloadConflicts": "ticket"}),
    Case("a table cannot be read", {of("incload_readable"): always(0)}, {"IncloadTableUnreadable": "page"}),
    Case("a source does not answer", {of("incload_source_up"): always(0)}, {"IncloadSourceDown": "page"}),
    Case(
        "little retention is left", {of("incload_retention_left_ratio"): always(0.2)}, {"IncloadRetentionLow": "ticket"}
    ),
    Case(
        "almost no retention is left",
        {of("incload_retention_left_ratio"): always(0.05)},
        {"IncloadRetentionLow": "ticket", "IncloadRetentionEnds": "page"},
    ),
    Case("the source has dropped data", failed("headroom", "ERROR"), {"IncloadRetentionEnds": "page"}),
    Case("loads fail again and again", grown('incload_errors_total{class="Killed"}', 9), {"IncloadErrors": "ticket"}),
    Case("windows wait", {of("incload_stopped_windows"): always(1)}, {"IncloadWindowsWaitForPerson": "ticket"}),
    Case(
        "a backfill goes on for days",
        {of("incload_backfills"): always(1)},
        {"IncloadBackfillHangs": "ticket"},
        minutes=2 * DAY,
        step=10,
    ),
    Case(
        "a table is silenced, as the exporter knew before it was restarted",
        {of("incload_silenced"): "1+0x9 _xN"},
        {"IncloadSilenced": "none"},
    ),
    Case(
        "a sensor stands",
        {of("incload_sensor_success_timestamp_seconds"): always(0)},
        {"IncloadSensorStands": "page"},
        minutes=30,
    ),
)
QUIET = (
    Case("nothing is wrong", {}, minutes=2 * DAY, step=30),
    Case(
        "the source has been idle for days",
        {of("incload_last_load_timestamp_seconds"): always(0)},
        minutes=DAY,
        step=30,
    ),
    Case(
        "the sensor is stopped, because the table is held",
        late(incload_sensor_running=0, incload_news_waiting_seconds=1_000_000)
        | {of("incload_sensor_success_timestamp_seconds"): always(0)}
        | {of("incload_source_up"): "_"}
        | failed("gaps", "WARN"),
        minutes=60,
    ),
    Case(
        "its loads are paused",
        late(incload_paused=1, incload_news_waiting_seconds=1_000_000)
        | failed("freshness", "WARN")
        | failed("gaps", "WARN"),
        minutes=60,
    ),
    Case(
        "it was never loaded",
        SOON | {of("incload_last_load_timestamp_seconds"): "_", of("incload_overdue_seconds"): "_"},
    ),
    Case(
        "a backfill is under way",
        late(incload_backfills=1, incload_news_waiting_seconds=1_000_000)
        | grown("incload_backfilled_rows_total", 1000)
        | failed("gaps", "WARN"),
        minutes=60,
    ),
    Case("a load failed once and was tried again", grown('incload_errors_total{class="Killed"}', 1)),
    Case("a fault has passed", {of("incload_overdue_seconds"): "60 60 0+0xN"}),
    Case("news wait, but not for long", {of("incload_news_waiting_seconds"): always(600)}),
    Case("a few rows arrive late", grown("incload_backfilled_rows_total", 5)),
    Case("windows are drifted until they are loaded again", {of('incload_mismatches{kind="drifted"}'): always(1)}),
    Case(
        "one file was rewritten when another arrived",
        {
            of('incload_windows{status="loaded"}'): "10+0x9 9+0xN",
            of('incload_windows{status="missing"}'): "0+0x9 1+0xN",
        },
    ),
    Case(
        "the budget was burnt weeks ago",
        {of("incload_budget_burnt_ratio"): always(0.9), of("incload_missed_windows_total"): always(1)},
        minutes=4 * DAY,
        step=60,
    ),
    Case(
        "a window was missed once, and none since",
        {
            of("incload_due_windows_total"): "0+1xN",
            of("incload_missed_windows_total"): "0+0x5 1+0xN",
        },
        minutes=5 * DAY,
        step=60,
    ),
)


@pytest.mark.parametrize("case", [*FIRES, *QUIET], ids=lambda case: case.about.replace(" ", "_"))
def test_the_alerts_are_those_that_must_be_when(case: Case, file: Path, tmp_path: Path) -> None:
    series = healthy(criticality=case.criticality, step=case.step) | case.series
    there = {name: values for name, values in series.items() if values != "_"}
    firing = [{"alertname": name, "severity": how, "table": "orders"} for name, how in case.firing.items()]
    assert_firing(tmp_path, file, there, firing, minutes=case.minutes, step=case.step)


def test_a_source_that_is_down_is_told_once(file: Path, tmp_path: Path) -> None:
    series = healthy() | late(incload_source_up=0, incload_news_waiting_seconds=1_000_000) | failed("clock", "WARN")
    down = {"alertname": "IncloadSourceDown", "severity": "page", "table": "orders"}
    assert_firing(tmp_path, file, series_of(series), [down], minutes=30, step=1)


def series_of(series: Series) -> Series:
    return {name: values for name, values in series.items() if values != "_"}


def derived(as_critical: str) -> Series:
    """A late table, and another one that is made of it."""
    link = f'incload_upstream_info{{table="retail/sales",upstream="orders",as_critical="{as_critical}"}}'
    overdue = {of("incload_overdue_seconds", "retail/sales"): "0+60xN"}
    return healthy() | healthy("retail/sales") | overdue | {link: always(1)}


LATE = {"alertname": "IncloadTableLate", "severity": "page"}


def test_what_is_downstream_of_a_late_table_is_not_told(file: Path, tmp_path: Path) -> None:
    assert_firing(tmp_path, file, derived("yes") | late(), [{**LATE, "table": "orders"}], minutes=20, step=1)


def test_what_is_downstream_of_a_table_that_nobody_is_told_about_is_told(file: Path, tmp_path: Path) -> None:
    both = [{**LATE, "table": table} for table in ("orders", "retail/sales")]
    assert_firing(tmp_path, file, derived("no") | late(), both, minutes=20, step=1)


def test_what_is_downstream_of_a_held_table_is_not_told(file: Path, tmp_path: Path) -> None:
    series = derived("yes") | {of("incload_sensor_running"): always(0)}
    assert_firing(tmp_path, file, series, [], minutes=20, step=1)


def test_what_is_late_by_itself_is_told(file: Path, tmp_path: Path) -> None:
    assert_firing(tmp_path, file, derived("yes"), [{**LATE, "table": "retail/sales"}], minutes=20, step=1)


def test_each_table_is_measured_by_its_own_promise(file: Path, tmp_path: Path) -> None:
    series = healthy() | healthy("retail/sales")
    series |= {of("incload_news_waiting_seconds", table): always(600) for table in ("orders", "retail/sales")}
    told = {"alertname": "IncloadNewsWaiting", "severity": "page", "table": "retail/sales"}
    assert_firing(tmp_path, file, series, [told], minutes=20, step=1)


def daemon_down() -> Series:
    return {'incload_daemon_heartbeat_timestamp_seconds{daemon="SENSOR"}': always(0)}


@pytest.mark.parametrize(
    ("alert", "series"),
    [
        ("IncloadExporterDown", {'up{job="incload"}': always(0)}),
        ("IncloadExporterDown", {'up{job="incload"}': "_"}),
        ("IncloadStorageDown", {"incload_up": always(0)}),
        ("IncloadLakeUnreadable", {"incload_lake_readable": always(0)}),
        ("IncloadObservationStale", {"incload_observed_timestamp_seconds": always(0)}),
        ("IncloadDaemonDown", daemon_down()),
        ("IncloadDaemonDown", {'incload_daemon_heartbeat_timestamp_seconds{daemon="SENSOR"}': "_"}),
        ("IncloadAllSilenced", {"incload_all_silenced": always(1)}),
        ("IncloadSparkGone", grown('incload_errors_total{class="SparkUnavailable"}', 2)),
    ],
)
def test_the_machinery_is_watched(alert: str, series: Series, file: Path, tmp_path: Path) -> None:
    told = {"alertname": alert, "severity": "none" if alert == "IncloadAllSilenced" else "page"}
    assert_firing(tmp_path, file, series_of(healthy() | series), [told], minutes=20, step=1)


def test_every_alert_is_seen_firing_in_a_test() -> None:
    machinery = {"IncloadExporterDown", "IncloadStorageDown", "IncloadLakeUnreadable", "IncloadObservationStale",
                 "IncloadDaemonDown", "IncloadSparkGone", "IncloadDeadManSwitch", "IncloadAllSilenced"}  # fmt: skip
    seen = {name for case in FIRES for name in case.firing} | machinery
    assert {alert.name for alert in ALERTS} == seen


def test_every_failure_mode_has_an_alert() -> None:
    assert {alert.failure_mode for alert in ALERTS if alert.failure_mode} == FAILURE_MODES


def test_every_check_has_an_alert_or_is_told_by_another_one() -> None:
    by_name = {check for check in CHECKS if any(f'check="{check}"' in alert.expr for alert in ALERTS)}
    assert set(CHECKS) - by_name == {"freshness", "reconciliation"}  # IncloadTableLate, IncloadRowsDiffer


def test_promtool_accepts_the_rules(file: Path) -> None:
    assert "SUCCESS" in run("promtool", "check", "rules", "--lint-fatal", file)


def test_rules_are_valid_for_one_table_and_for_none(tables: list[Table], tmp_path: Path) -> None:
    for number in (0, 1):
        path = tmp_path / f"{number}.yaml"
        path.write_text(as_yaml(rules(tables[:number])))
        run("promtool", "check", "rules", "--lint-fatal", path)


def test_every_alert_links_to_a_runbook_and_says_what_to_do(tables: list[Table]) -> None:
    [group] = rules(tables)["groups"]
    for rule in group["rules"]:
        if "alert" in rule:
            assert rule["annotations"]["runbook"].startswith(f"{RUNBOOKS}#")
            assert "What to do: " in rule["annotations"]["description"]


def test_burn_rates_look_at_two_windows_of_tables_with_long_ones(tables: list[Table]) -> None:
    weekly = named(tables[0], "weekly", partitions_def=dg.WeeklyPartitionsDefinition("2025-01-01"))
    hourly = named(tables[0], "hourly", partitions_def=dg.HourlyPartitionsDefinition("2026-01-01-00:00"))
    found = [Objectives.of(table, AT).short for table in (weekly, tables[0], hourly)]
    assert found == [timedelta(days=14), timedelta(hours=26), timedelta(hours=26)]
