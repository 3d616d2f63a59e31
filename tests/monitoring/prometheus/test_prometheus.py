"""A real Prometheus scrapes the real exporter: every panel has data there, and every alert's condition is accepted."""

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime

import dagster as dg
import pytest
import requests
from dagster._daemon.types import DaemonHeartbeat

from incload_assets.assets import Kafka
from incload_assets.checks.registry import check_names
from incload_assets.monitoring.metrics import METRICS
from incload_assets.monitoring.panels import DASHBOARDS, Panel
from incload_assets.monitoring.prometheus.alertmanager import Channels, alertmanager
from incload_assets.monitoring.prometheus.exporter import WHOLE, Exporter, served
from incload_assets.monitoring.prometheus.rendered import as_yaml
from incload_assets.monitoring.prometheus.rules import prometheus, rules
from incload_assets.platform.settings import Settings
from incload_assets.sources.upstream.state import UpstreamTable
from incload_assets.sources.upstream.tables import Tables
from tests.servers.prometheus import Alertmanager, Prometheus, eventually, running_alertmanager, running_prometheus
from tests.support.guest_table import house
from tests.support.load_history import days_before, evaluated, load, named, record, seen, tick

PANELS = [(board.name, panel) for board in DASHBOARDS for panel in board.panels]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Alertmanager]:
    folder = tmp_path_factory.mktemp("alertmanager")
    (folder / "slack").write_text("http://127.0.0.1:9/nobody")
    config = alertmanager([], Channels(slack_api_url_file=str(folder / "slack")))
    (folder / "alertmanager.yaml").write_text(as_yaml(config))
    with running_alertmanager(folder, folder / "alertmanager.yaml") as server:
        yield server


@pytest.fixture(scope="module")
def server(told: Alertmanager, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """It has scraped tables with loads a few times; the table ``guests`` was restored."""
    folder, now = tmp_path_factory.mktemp("prometheus"), datetime.now(UTC)
    with ExitStack() as stack:
        instance = stack.enter_context(dg.DagsterInstance.local_temp(str(folder)))
        h = stack.enter_context(house(tmp_path_factory.mktemp("house"), Settings(), instance=instance))
        clicks = named(h.table, "clicks", source=Kafka("shop", "clicks"), criticality="high")
        above = UpstreamTable(name="guests", path=("guests",))
        visits = named(h.table, "visits", source=Tables(of=(above,), function=lambda guests: guests))
        tables = [h.table, clicks, visits]
        days = [*days_before(now, 9)]
        record(h.lake, [load(table, day) for table in tables for day in days])
        failed = load(h.table, days[-1], outcome="failed", error_class="SourceUnreadable", run_id="f" * 36)
        record(h.lake, [failed])
        for table in tables:
            tick(instance, table, seen(now))
            for check in check_names(table):
                bad = table is h.table and check == "rollback"
                evaluated(instance, table, check, not bad, bad, share_left=0.9, bytes_kept=9, windows_differing=0)
        instance.add_daemon_heartbeat(DaemonHeartbeat(now.timestamp(), "SENSOR", "1", []))
        (folder / "rules.yaml").write_text(as_yaml(rules(tables)))
        port = stack.enter_context(served(Exporter(instance, tables, h.lake), "127.0.0.1", 0))
        config = prometheus(f"127.0.0.1:{port}")
        server = stack.enter_context(running_prometheus(folder, config, alertmanager=told))
        eventually(lambda: server.query("count_over_time(incload_up[1m]) >= 3"))
        yield server


@pytest.mark.parametrize(("board", "panel"), PANELS, ids=[f"{board}: {panel.title}" for board, panel in PANELS])
def test_every_panel_has_data(server: Prometheus, board: str, panel: Panel) -> None:
    assert server.query(panel.query.promql), panel.query.promql


def test_every_metric_is_there(server: Prometheus) -> None:
    names = [*WHOLE, *(metric.name for metric in METRICS)]
    assert [name for name in names if not server.query(name)] == []


def test_every_rule_is_accepted_and_evaluated(server: Prometheus) -> None:
    def groups() -> list[dict[str, object]]:
        answer = requests.get(f"{server.url}/api/v1/rules", timeout=10).json()
        found = [rule for group in answer["data"]["groups"] for rule in group["rules"]]
        return found if all(rule["health"] == "ok" for rule in found) else []

    assert len(eventually(groups)) > 30


def test_an_alert_reaches_alertmanager_with_its_severity_and_runbook(server: Prometheus, told: Alertmanager) -> None:
    def arrived() -> dict[str, dict[str, dict[str, str]]]:
        return {alert["labels"]["alertname"]: alert for alert in told.alerts()}

    eventually(lambda: {"IncloadCheckpointLoss", "IncloadDeadManSwitch"} <= arrived().keys())
    loss = arrived()["IncloadCheckpointLoss"]
    assert {name: loss["labels"][name] for name in ("table", "severity", "cause", "failure_mode")} == {
        "table": "guests",
        "severity": "ticket",
        "cause": "checkpoint",
        "failure_mode": "F5",
    }
    assert loss["annotations"]["runbook"] == "runbooks.md#checkpoint-loss"
    assert arrived().keys() <= {"IncloadCheckpointLoss", "IncloadDeadManSwitch"}


def test_metrics_survive_a_restart_of_the_exporter(server: Prometheus) -> None:
    assert server.value('sum(incload_loads_total{table="guests",outcome="loaded"})') == 9
    assert server.value('max(resets(incload_loads_total{table="guests"}[5m]))') == 0
