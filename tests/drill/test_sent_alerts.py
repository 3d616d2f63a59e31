"""Which alerts of a drill were heard: all their receivers have them, and nobody else."""

from typing import Any

from tests.drill.faults import FAULTS
from tests.drill.sent_alerts import Alerts

BY_NAME = {fault.runbook: fault for fault in reversed(FAULTS)}


def notification(receiver: str, status: str, name: str, fingerprint: str = "1") -> dict[str, Any]:
    group, severity = {"table": "guests", "cause": "x"}, "page" if name == "IncloadDuplicates" else "ticket"
    labels = {**group, "alertname": name, "severity": severity}
    alert = {"status": status, "labels": labels, "fingerprint": fingerprint}
    return {"receiver": receiver, "groupLabels": group, "alerts": [alert]}


def test_an_alert_is_heard_once_all_its_receivers_have_it_and_over_once_all_know() -> None:
    alerts, fault = Alerts(["owner team:drill"]), BY_NAME["duplicate-writes"]
    alerts.take(notification("owner team:drill", "firing", "IncloadVolume"))
    assert alerts.firing(fault) == [] and alerts.heard(fault, 0) == {}
    alerts.take(notification("page", "firing", "IncloadDuplicates"))
    assert alerts.firing(fault) == ["IncloadDuplicates"] and alerts.heard(fault, 0) == {}
    alerts.take(notification("owner team:drill", "firing", "IncloadDuplicates"))
    assert [*alerts.heard(fault, 0)] == ["IncloadDuplicates"]
    alerts.take(notification("page", "resolved", "IncloadDuplicates"))
    assert alerts.firing(fault) == ["IncloadDuplicates"]
    alerts.take(notification("owner team:drill", "resolved", "IncloadDuplicates"))
    assert alerts.firing(fault) == [] and [*alerts.heard(fault, 0)] == ["IncloadDuplicates"]
    assert alerts.receivers(["IncloadDuplicates"]) == ["owner team:drill", "page"]


def test_an_alert_that_also_comes_to_a_receiver_of_others_is_not_heard() -> None:
    alerts, fault = Alerts(["owner team:drill"]), BY_NAME["late-arrivals"]
    alerts.take(notification("owner team:drill", "firing", "IncloadLateArrivals"))
    assert [*alerts.heard(fault, 0)] == ["IncloadLateArrivals"]
    alerts.take(notification("ticket", "firing", "IncloadLateArrivals"))
    assert alerts.heard(fault, 0) == {}
