"""The drill of faults: a real Prometheus and Alertmanager notice them, and a missed alert loses the drill."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import typer

from incload_assets.cli.fault_scratch import FaultScratch, fault_scratch
from incload_assets.cli.game_day import _play_faults
from incload_assets.monitoring.drill import fault_drill, faults, lag_faults
from incload_assets.monitoring.drill.fault_drill import Alerts, Outcome, play, program
from incload_assets.monitoring.drill.faults import FAULTS
from incload_assets.monitoring.drill.lag_faults import LAG_FAULTS
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


def test_the_pace_of_a_remedy_is_told_where_it_counts() -> None:
    found = Outcome(
        fault=LAG_FAULTS[0], alerts=["IncloadNewsWaiting"], detected=11.4, recovered=21.0, caught_up=20.0, backlog=60000
    )
    assert found.told == (
        "F1 lag: 200 times the usual number of change events arrives in three windows: IncloadNewsWaiting after "
        "11.4 s, recovered after 21.0 s; 60,000 changes caught up within 20.0 s, 3,000 a second"
    )
    assert replace(found, backlog=0).told.endswith("recovered after 21.0 s")
    assert replace(found, recovered=None, wrong="it is lost").told.endswith("in three windows: it is lost")


@pytest.mark.slow
def test_faults_are_noticed_by_their_alerts_and_recovered_by_their_runbooks(
    tmp_path: Path, spark_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    duplicates, late = BY_NAME["duplicate-writes"], BY_NAME["late-arrivals"]
    monkeypatch.setenv("INCLOAD_SPARK", spark_settings.spark)  # runs have the settings of the environment
    monkeypatch.setenv("INCLOAD_HOME", str(tmp_path))
    with fault_scratch(FaultScratch, Settings()) as scratch:
        first, second = play(scratch, [duplicates, late])
    assert (first.wrong, first.alerts) == (None, ["IncloadDuplicates"])
    assert (second.wrong, second.alerts) == (None, ["IncloadLateArrivals"])
    assert first.detected is not None and first.recovered is not None
    assert not list((tmp_path / "lake" / "_game_day").iterdir())
    assert not Path(scratch.instance.root_directory).exists()


@pytest.mark.slow
def test_a_fault_without_its_alert_or_its_remedy_loses_the_drill_which_keeps_its_tables_and_says_where(
    tmp_path: Path, spark_settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    duplicates = BY_NAME["duplicate-writes"]
    unseen = replace(duplicates, alerts=["IncloadThatNoRuleHas"])
    monkeypatch.setenv("INCLOAD_SPARK", spark_settings.spark)
    monkeypatch.setenv("INCLOAD_HOME", str(tmp_path))
    monkeypatch.setattr(fault_drill, "DETECTED_WITHIN", 20.0)
    monkeypatch.setattr(faults, "FAULTS", [replace(duplicates, inject=fails), unseen])
    monkeypatch.setattr(lag_faults, "LAG_FAULTS", [])
    with pytest.raises(typer.Exit) as ended:
        _play_faults(verbose=False)
    assert ended.value.exit_code == 1
    told = capsys.readouterr()
    failed, missed, where = (line for line in told.out.splitlines() if line.startswith(("✗", "For inspection")))
    assert failed.endswith("appends a row of the table again: AssertionError: it cannot be written")
    assert missed.endswith("appends a row of the table again: none of IncloadThatNoRuleHas within 20 s")
    [kept] = (tmp_path / "lake" / "_game_day").iterdir()
    assert where.startswith(f"For inspection: files and tables in {kept}, Dagster's storage in ")
    storage = Path(where.rpartition(" ")[2])
    assert (kept / "lake" / "guests").is_dir() and storage.is_dir()
    shutil.rmtree(storage)
    assert "the drill is lost" in told.err


def fails(_: object) -> None:
    raise AssertionError("it cannot be written\nfor some reason")
