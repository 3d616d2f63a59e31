"""Who is told what by Alertmanager, and what is not told while something else is."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from incload_assets.declaration.table import Table
from incload_assets.monitoring.prometheus.alertmanager import Channels, alertmanager
from incload_assets.monitoring.prometheus.alerts import ALERTS
from incload_assets.monitoring.prometheus.rendered import as_yaml
from incload_assets.platform.settings import Settings
from tests.servers.prometheus import Alertmanager, eventually, running_alertmanager
from tests.support.guest_table import house
from tests.support.load_history import named
from tests.support.prometheus_tools import run

CAUSES = {alert.name: alert.cause for alert in ALERTS}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> list[Table]:
    with house(tmp_path_factory.mktemp("house"), Settings()) as h:
        return [
            named(h.table, "orders", owners=("ada@example.org", "team:shop")),
            named(h.table, "retail/sales", owners=("ada@example.org",)),
            named(h.table, "prices"),
        ]


@pytest.fixture(scope="module")
def config(tables: list[Table], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("alertmanager")
    (folder / "slack").write_text("http://127.0.0.1:9/nobody")
    path = folder / "alertmanager.yaml"
    path.write_text(as_yaml(alertmanager(tables, Channels(slack_api_url_file=str(folder / "slack")))))
    return path


@pytest.fixture(scope="module")
def server(config: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Alertmanager]:
    with running_alertmanager(tmp_path_factory.mktemp("data"), config) as server:
        yield server


def test_amtool_accepts_the_configuration(config: Path) -> None:
    assert "SUCCESS" in run("amtool", "check-config", config)


@pytest.mark.parametrize(
    ("severity", "table", "receivers"),
    [
        ("page", "orders", "owner ada@example.org,owner team:shop,page"),
        ("page", "retail/sales", "owner ada@example.org,page"),
        ("page", "prices", "page"),
        ("ticket", "orders", "owner ada@example.org,owner team:shop"),
        ("ticket", "prices", "ticket"),
        ("none", "orders", "nobody"),
    ],
)
def test_owners_are_told_and_pages_go_to_whoever_is_on_call(
    config: Path, severity: str, table: str, receivers: str
) -> None:
    labels = [f"severity={severity}", f"table={table}", "alertname=IncloadTableLate"]
    assert run("amtool", "config", "routes", "test", f"--config.file={config}", *labels).strip() == receivers


def test_the_dead_mans_switch_has_a_receiver_of_its_own(config: Path) -> None:
    labels = ["alertname=IncloadDeadManSwitch", "severity=none"]
    assert run("amtool", "config", "routes", "test", f"--config.file={config}", *labels).strip() == "dead-man"


def test_alerts_are_grouped_by_table_and_cause(tables: list[Table]) -> None:
    assert alertmanager(tables)["route"]["group_by"] == ["table", "cause"]


def test_the_dead_mans_switch_calls_what_it_is_given(tables: list[Table]) -> None:
    receivers = alertmanager(tables, Channels(dead_man_url="http://switch.example.org"))["receivers"]
    [dead_man] = [one for one in receivers if one["name"] == "dead-man"]
    assert dead_man["webhook_configs"][0]["url"] == "http://switch.example.org"


def alert(name: str, table: str = "", severity: str = "page") -> dict[str, str]:
    return {"alertname": name, "cause": CAUSES[name], "severity": severity} | ({"table": table} if table else {})


def test_what_follows_from_another_alert_is_not_told(server: Alertmanager) -> None:
    server.tell(
        alert("IncloadSourceDown", "orders"),
        alert("IncloadErrors", "orders", "ticket"),
        alert("IncloadErrors", "prices", "ticket"),
        alert("IncloadTableLate", "prices"),
        alert("IncloadNewsWaiting", "prices"),
        alert("IncloadRetentionLow", "retail/sales", "ticket"),
        alert("IncloadRetentionEnds", "retail/sales"),
    )
    eventually(lambda: len(server.alerts()) == 7)

    def told() -> set[tuple[str, str]]:
        return {
            (one["labels"]["alertname"], one["labels"]["table"])
            for one in server.alerts()
            if not one["status"]["inhibitedBy"]
        }

    expected = {
        ("IncloadSourceDown", "orders"),
        ("IncloadErrors", "prices"),
        ("IncloadTableLate", "prices"),
        ("IncloadRetentionEnds", "retail/sales"),
    }
    eventually(lambda: told() == expected)
    server.tell(alert("IncloadDaemonDown"))
    eventually(lambda: "IncloadTableLate" in server.suppressed())
    assert "IncloadRetentionEnds" not in server.suppressed()
    server.tell(alert("IncloadSilenced", "retail/sales", "none"))
    eventually(lambda: "IncloadRetentionEnds" in server.suppressed())
    assert "IncloadDaemonDown" not in server.suppressed()
    server.tell(alert("IncloadAllSilenced", severity="none"), alert("IncloadDeadManSwitch", severity="none"))
    eventually(lambda: "IncloadDaemonDown" in server.suppressed())
    assert server.suppressed().isdisjoint({"IncloadDeadManSwitch", "IncloadSilenced", "IncloadAllSilenced"})
