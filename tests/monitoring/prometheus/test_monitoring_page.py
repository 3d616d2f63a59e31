"""The page on monitoring lists every metric and every alert, as they are."""

from incload_assets.monitoring.metrics import HEARTBEAT, METRICS
from incload_assets.monitoring.panels import in_prometheus
from incload_assets.monitoring.prometheus.alerts import ALERTS, EXCUSES
from incload_assets.monitoring.prometheus.exporter import WHOLE
from tests.support.documents import DOCS, Page

PAGE = Page(DOCS / "monitoring.md")
RUNBOOKS = Page(DOCS / "runbooks.md")
URGENCIES = {
    "criticality": "by criticality",
    "ticket": "ticket",
    "finding": "error: by criticality; warning: ticket",
    "page": "page",
    "none": "none",
}


def metrics_table() -> str:
    whole = [
        f"| `{name}` | {'`daemon`' if name == HEARTBEAT else ''} | gauge | {about} |" for name, about in WHOLE.items()
    ]
    of_tables = [
        f"| `{metric.name}` | {', '.join(f'`{label}`' for label in ('table', *metric.labels))} | {metric.kind} "
        f"| {metric.help} |"
        for metric in METRICS
    ]
    return "\n".join(["| Metric | Labels | Type | Value |", "|---|---|---|---|", *whole, *of_tables])


def alerts_table() -> str:
    rows = [
        f"| `{alert.name}` | {alert.failure_mode} | {in_prometheus(alert.lasts) if alert.lasts else 'at once'} "
        f"| {URGENCIES[alert.urgency]} | `{alert.cause}` | [{alert.runbook}](runbooks.md#{alert.runbook}) |"
        for alert in ALERTS
    ]
    return "\n".join(["| Alert | Shows | After | Severity | Cause | Runbook |", "|---|---|---|---|---|---|", *rows])


def test_the_page_lists_every_metric() -> None:
    assert metrics_table() in PAGE.text, metrics_table()


def test_the_page_lists_every_alert() -> None:
    assert alerts_table() in PAGE.text, alerts_table()


def test_the_page_explains_every_excuse() -> None:
    assert [reason for reason in EXCUSES if f"| `{reason}` |" not in PAGE.text] == []


def test_every_runbook_that_an_alert_names_is_there() -> None:
    assert {alert.runbook for alert in ALERTS} <= RUNBOOKS.anchors
