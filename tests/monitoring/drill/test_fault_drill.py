"""The drill of faults: a real Prometheus and Alertmanager notice them, and a missed alert loses the drill."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import typer

from incload_assets.cli.commands.game_day import _play_faults
from incload_assets.cli.support.fault_scratch import FaultScratch, fault_scratch
from incload_assets.monitoring.drill import fault_drill, faults, lag_faults
from incload_assets.monitoring.drill.fault_drill import Outcome, play, program
from incload_assets.monitoring.drill.faults import FAULTS
from incload_assets.monitoring.drill.lag_faults import LAG_FAULTS
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.settings import Settings

BY_NAME = {fault.runbook: fault for fault in reversed(FAULTS)}


def test_a_program_that_is_not_installed_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(IncrementalLoadError, match=r"alertmanager is not on the PATH.*apt-get install"):
        program("prometheus-alertmanager")


def test_the_pace_of_a_remedy_is_told_where_it_counts() -> None:
    found = Outcome(
        fault=LAG_FAULTS[0], alerts=["IncloadNewsWaiting"], receivers=["owner team:drill", "page"],
        detected=11.4, recovered=21.0, caught_up=20.0, backlog=60000,
    )  # fmt: skip
    assert found.told == (
        "F1 lag: 200 times the usual number of change events arrives in three windows: IncloadNewsWaiting to "
        "owner team:drill, page after 11.4 s, recovered after 21.0 s; "
        "60,000 changes caught up within 20.0 s, 3,000 a second"
    )
    assert replace(found, backlog=0).told.endswith("recovered after 21.0 s")
    assert replace(found, recovered=None, wrong="it is lost").told.endswith("in three windows: it is lost")


@pytest.mark.night
@pytest.mark.timeout(1800)
def test_each_fault_reaches_its_receivers_by_its_alert_and_is_recovered_by_its_runbook(
    tmp_path: Path, spark_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INCLOAD_SPARK", spark_settings.spark)  # runs have the settings of the environment
    monkeypatch.setenv("INCLOAD_HOME", str(tmp_path))
    owner, all_ = ["owner team:drill"], ["owner team:drill", "page"]
    with fault_scratch(FaultScratch, Settings()) as scratch:
        outcomes = [*play(scratch, FAULTS)]
    assert [(o.fault.mode, o.wrong, o.receivers) for o in outcomes] == [
        ("F1", None, all_),
        ("F2", None, all_),
        ("F3", None, all_),
        ("F4", None, owner),
        ("F5", None, all_),
        ("F5", None, all_),
        ("F6", None, all_),
        ("F7", None, owner),
    ]
    assert all(o.alerts and {*o.alerts} <= {*o.fault.alerts} for o in outcomes)
    assert all(o.detected is not None and o.recovered is not None for o in outcomes)
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
