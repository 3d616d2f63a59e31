"""A burst of change events and a slow consumer are noticed by the drill, and the table catches up with its source."""

from pathlib import Path

import dagster as dg
import pytest

from incload_assets.monitoring.prometheus.alerts import ALERTS
from incload_assets.platform.settings import Settings
from tests.drill.fault_drill import play
from tests.drill.lag_faults import LAG_FAULTS
from tests.drill.scratch import KEYS, POOL, PROMISED, Database, LagScratch, scratch_of


def test_both_are_noticed_by_an_alert_that_leads_to_their_runbook() -> None:
    runbooks = {alert.name: alert.runbook for alert in ALERTS}
    assert [[runbooks[name] for name in fault.alerts] for fault in LAG_FAULTS] == [["lag"], ["lag"]]
    assert [fault.runbook for fault in LAG_FAULTS] == ["lag", "lag"]


def test_the_events_of_a_burst_make_the_rows_of_their_database() -> None:
    database, rows = Database(), dict[str, str]()
    for event in database.change(3 * KEYS):
        row = event["after"] or event["before"]
        assert (row["id"] in rows) is (event["op"] != "c")
        if event["op"] == "d":
            del rows[row["id"]]
        else:
            rows[row["id"]] = row["name"]
    assert rows == database.rows and 0 < len(rows) < KEYS


@pytest.mark.slow
def test_a_table_that_lags_catches_up_with_its_source(
    tmp_path: Path, spark_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INCLOAD_SPARK", spark_settings.spark)
    monkeypatch.setenv("INCLOAD_HOME", str(tmp_path))
    with scratch_of(LagScratch, Settings(), tmp_path) as scratch:
        burst, slow = play(scratch, LAG_FAULTS)
        assert (burst.wrong, burst.alerts) == (None, ["IncloadNewsWaiting"])
        assert (slow.wrong, slow.alerts) == (None, ["IncloadNewsWaiting"])
        assert (burst.backlog, slow.backlog) == (60_000, 0)
        assert burst.detected is not None and burst.detected >= PROMISED.total_seconds()
        runs = scratch.instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE]))
        assert [run.tags["dagster/partition"] for run in runs] == [scratch.windows[6]]
        assert not scratch.instance.event_log_storage.get_concurrency_info(POOL).claimed_slots
