"""The drill of faults: a real Prometheus and Alertmanager notice them, and a missed alert loses the drill."""

from dataclasses import replace
from pathlib import Path

import pytest

from incload_assets.platform.settings import Settings
from tests.drill import fault_drill
from tests.drill.fault_drill import Outcome, play
from tests.drill.faults import FAULTS
from tests.drill.lag_faults import LAG_FAULTS
from tests.drill.scratch import Scratch, scratch_of

BY_NAME = {fault.runbook: fault for fault in reversed(FAULTS)}


def test_the_pace_of_a_remedy_is_shown_where_it_counts() -> None:
    found = Outcome(
        fault=LAG_FAULTS[0], alerts=["IncloadNewsWaiting"], receivers=["owner team:drill", "page"],
        detected=11.4, recovered=21.0, caught_up=20.0, backlog=60000,
    )  # fmt: skip
    assert found.text == (
        "F1 lag: 200 times the usual number of change events arrives in three windows: IncloadNewsWaiting to "
        "owner team:drill, page after 11.4 s, recovered after 21.0 s; "
        "60,000 changes caught up within 20.0 s, 3,000 a second"
    )
    assert replace(found, backlog=0).text.endswith("recovered after 21.0 s")
    assert replace(found, recovered=None, wrong="it is lost").text.endswith("in three windows: it is lost")


@pytest.mark.night
@pytest.mark.timeout(1800)
def test_each_fault_reaches_its_receivers_by_its_alert_and_is_recovered_by_its_runbook(
    tmp_path: Path, spark_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INCLOAD_SPARK", spark_settings.spark)  # runs have the settings of the environment
    monkeypatch.setenv("INCLOAD_HOME", str(tmp_path))
    owner, all_ = ["owner team:drill"], ["owner team:drill", "page"]
    with scratch_of(Scratch, Settings(), tmp_path) as scratch:
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


@pytest.mark.slow
def test_a_fault_without_its_alert_or_its_remedy_loses_the_drill(
    tmp_path: Path, spark_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    duplicates = BY_NAME["duplicate-writes"]
    unseen = replace(duplicates, alerts=["IncloadThatNoRuleHas"])
    monkeypatch.setenv("INCLOAD_SPARK", spark_settings.spark)
    monkeypatch.setenv("INCLOAD_HOME", str(tmp_path))
    monkeypatch.setattr(fault_drill, "DETECTED_WITHIN", 20.0)
    with scratch_of(Scratch, Settings(), tmp_path) as scratch:
        failed, missed = play(scratch, [replace(duplicates, inject=fails), unseen])
    assert failed.text.endswith("appends a row of the table again: AssertionError: it cannot be written")
    assert missed.text.endswith("appends a row of the table again: none of IncloadThatNoRuleHas within 20 s")


def fails(_: object) -> None:
    raise AssertionError("it cannot be written\nfor some reason")
