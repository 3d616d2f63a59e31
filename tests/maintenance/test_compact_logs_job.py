"""Compaction of the log as Dagster runs it: what is at rest, what is observed, what a compacted window's run says."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from incload_assets.assets import Merge
from incload_assets.maintenance.compact_logs import COMPACT_LOGS
from incload_assets.platform.settings import Settings
from incload_assets.progress.run_tags import REWRITE_COMPACTED_TAG
from tests.support.guest_table import House, guest, house, job_of, key


@pytest.fixture
def guests(tmp_path: Path, spark_settings: Settings) -> Iterator[House]:
    """Three days, each with a newer version of one guest."""
    with house(tmp_path, spark_settings, write=Merge(), log_retention=timedelta(days=1)) as h:
        for number in (1, 2, 3):
            h.deliver(number, guest("k", f"version {number}", seq=number))
        yield h


def compacted(h: House, **config: Any) -> dg.ExecuteInProcessResult:
    job = job_of(COMPACT_LOGS, h.table)
    run_config = {"ops": {COMPACT_LOGS.step_name: {"config": {"confirm": "all tables"} | config}}}
    return job.execute_in_process(
        instance=h.instance, resources=h.resources, run_config=run_config, raise_on_error=False
    )


def observed(result: dg.ExecuteInProcessResult) -> dict[str, Any]:
    [event] = [e for e in result.all_events if e.event_type_value == "ASSET_OBSERVATION"]
    metadata = event.asset_observation_data.asset_observation.metadata
    return {name.removeprefix("log_"): value.value for name, value in metadata.items()}


def why(result: dg.ExecuteInProcessResult) -> str:
    [event] = [e for e in result.all_events if e.event_type_value == "STEP_FAILURE"]
    data = event.step_failure_data.user_failure_data
    assert data is not None
    return "\n".join([data.description or "", *(str(value.value) for value in data.metadata.values())])


def test_windows_at_rest_are_compacted_and_one_whose_last_run_failed_is_left_alone(guests: House) -> None:
    assert compacted(guests).success  # there is no log yet
    assert guests.load(1, 2, 3) == [True, True, True]
    guests.file(3).write_text("no JSON")
    assert guests.load(3) == [False]
    found = observed(compacted(guests))
    assert found == {
        "windows_compacted": 2,
        "windows_added": 2,
        "changes_before": 2,
        "changes_removed": 1,
        "windows_busy": key(3),
        "retention": "1 day, 0:00:00",
    }
    guests.deliver(3, guest("k", "version 4", seq=4))
    assert guests.load(3) == [True]
    found = observed(compacted(guests))
    assert (found["windows_compacted"], found["windows_added"], found["changes_removed"]) == (3, 1, 1)


def test_a_run_is_told_that_its_window_was_compacted_and_can_be_told_to_replace_it(guests: House) -> None:
    assert guests.load(1, 2) == [True, True]
    assert compacted(guests).success
    guests.deliver(1, guest("k", "corrected", seq=5))
    result = guests.run(guests.loads, partition=key(1))
    assert "its log was compacted on" in why(result)
    assert guests.run(guests.loads, partition=key(1), tags={REWRITE_COMPACTED_TAG: "true"}).success
    delta = guests.lake.delta(guests.lake.table_uri(guests.table.key.path))
    assert delta is not None
    assert [row["name"] for row in delta.to_pyarrow_table().to_pylist()] == ["corrected"]


def test_a_log_that_cannot_be_compacted_fails_the_run_and_an_unknown_table_is_named(guests: House) -> None:
    with pytest.raises(dg.DagsterInvalidConfigError, match="not in enum type tables with a log_retention got orders"):
        compacted(guests, tables=["orders"])
    assert guests.load(1, 2) == [True, True]
    log = Path(guests.lake.log_uri(guests.table.key.path))
    (log / "_delta_log").rename(log / "gone")
    (log / "_delta_log").mkdir()
    (log / "_delta_log" / f"{0:020}.json").write_text("{}")
    assert why(compacted(guests)).startswith("logs not compacted: guests")
