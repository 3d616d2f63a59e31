"""The drill of faults: a real Prometheus and Alertmanager notice them, and a missed alert loses the drill."""

from dataclasses import replace
from pathlib import Path

import pytest

from incload_assets.cli.fault_scratch import fault_scratch
from incload_assets.monitoring.drill import fault_drill
from incload_assets.monitoring.drill.fault_drill import Alerts, play, program
from incload_assets.monitoring.drill.faults import FAULTS
from resources.errors import IncrementalLoadError
from resources.settings import Settings

BY_NAME = {fault.runbook: fault for fault in reversed(FAULTS)}


def notification(status: str, name: str, fingerprint: str = "1") -> dict[str, object]:
    return {"alerts": [{"status": status, "labels": {"alertname": name}, "fingerprint": fingerprint}]}


def test_an_alert_that_came_and_went_was_heard() -> None:
    alerts, fault = Alerts(), BY_NAME["duplicate-writes"]
    alerts.take(notification("firing", "IncloadVolume"))
    assert alerts.firing(fault) == [] and alerts.heard(fault, 0) == {}
    alerts.take(notification("firing", "IncloadDuplicates"))
    alerts.take(notification("firing", "IncloadDuplicates", "2"))
    alerts.take(notification("resolved", "IncloadDuplicates"))
    assert alerts.firing(fault) == ["IncloadDuplicates"]
    alerts.take(notification("resolved", "IncloadDuplicates", "2"))
    assert alerts.firing(fault) == [] and list(alerts.heard(fault, 0)) == ["IncloadDuplicates"]


def test_a_program_that_is_not_installed_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(IncrementalLoadError, match=r"alertmanager is not on the PATH.*apt-get install"):
        program("prometheus-alertmanager")


@pytest.mark.slow
def test_faults_are_noticed_by_their_alerts_and_recovered_by_their_runbooks(
    tmp_path: Path, spark_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    duplicates, late = BY_NAME["duplicate-writes"], BY_NAME["late-arrivals"]
    unseen = replace(duplicates, alerts=["IncloadThatNoRuleHas"])
    monkeypatch.setenv("INCLOAD_SPARK", spark_settings.spark)  # runs have the settings of the environment
    monkeypatch.setenv("INCLOAD_HOME", str(tmp_path))
    with fault_scratch(Settings()) as scratch:
        first, second = play(scratch, [duplicates, late])
        monkeypatch.setattr(fault_drill, "DETECTED_WITHIN", 20.0)
        [lost] = play(scratch, [unseen])
    assert (first.wrong, first.alerts) == (None, ["IncloadDuplicates"])
    assert (second.wrong, second.alerts) == (None, ["IncloadLateArrivals"])
    assert first.detected is not None and first.recovered is not None
    assert lost.wrong == "none of IncloadThatNoRuleHas within 20 s"
    assert not list((tmp_path / "lake" / "_game_day").iterdir())
