"""A long backfill: killed in the middle, with days that cannot be loaded; nothing is lost, nothing done twice."""

import random
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest

from incload_assets.automation.orphans import fail_orphans
from incload_assets.automation.window_requests import look
from incload_assets.platform.settings import Settings
from incload_assets.progress.checkpoint import ERROR_CLASSES
from tests.integration.backfill import DAYS, dated, deliver, load
from tests.support.guest_table import House
from tests.support.sampling import NIGHT

POISONED = [DAYS[n] for n in (3, 40, 41, 70, -1)]
KILLED = (DAYS[28], DAYS[35])  # two stretches of the calendar: the first is loaded before the second begins
LENGTHS = {"ranges": len(DAYS) // 3} | ({"single runs": 1} if NIGHT else {})
"""How many days a run may have; a year of single runs takes the better part of an hour, so it is for the night."""


def stretches(days: list[str], length: int) -> list[tuple[str, str]]:
    """Adjacent days in runs of bounded length, each longer than what is loaded together."""
    found: list[list[str]] = []
    for day in days:
        if found and len(found[-1]) < length and DAYS.index(day) == DAYS.index(found[-1][-1]) + 1:
            found[-1].append(day)
        else:
            found.append([day])
    return [(run[0], run[-1]) for run in found]


def materialized(h: House) -> set[str]:
    return set(h.instance.get_materialized_partitions(h.table.key))


def rows_by_day(h: House) -> dict[str, int]:
    delta = h.lake.delta(h.lake.table_uri(h.table.key.path))
    assert delta is not None
    days = [str(value) for value in delta.to_pyarrow_table(columns=["day"])["day"].to_pylist()]
    return {day: days.count(day) for day in set(days)}


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("length", LENGTHS.values(), ids=LENGTHS)
def test_a_backfill_with_five_poisoned_days_killed_in_the_middle_is_loaded_but_for_those_five(
    tmp_path: Path, spark_settings: Settings, spark_url: str, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    monkeypatch.setenv("INCLOAD_LANDING", str(tmp_path / "landing"))
    for day in DAYS:
        deliver(tmp_path, day, room=0 if day in POISONED else 1)
    home = tmp_path / "home"
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "tests.integration.backfill", tmp_path, home, spark_url, *KILLED]
    )
    with dated(tmp_path, home, spark_settings) as h:
        deadline = time.monotonic() + 300
        while not (before := materialized(h)):
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.2)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        assert set(rows_by_day(h)) >= before, "no partition is green whose rows are not in the table"
        assert before < set(DAYS[28:36])
        assert len(fail_orphans(h.instance)) == 1

        asked = [ask.partition for ask in look(h.instance, h.table, h.lake, datetime.now(UTC))[1].asks]
        later = look(h.instance, h.table, h.lake, datetime.now(UTC))[1].later
        assert not before & {*asked, *later}, "what is loaded is not asked for again"

        runs = stretches([day for day in DAYS if day not in before], length)
        random.Random(7).shuffle(runs)
        outcomes = {bounds: load(h, *bounds) for bounds in runs}
        assert materialized(h) == set(DAYS) - set(POISONED)
        assert rows_by_day(h) == {day: 2 for day in DAYS if day not in POISONED}

        for (start, end), outcome in outcomes.items():
            bad = [day for day in POISONED if start <= day <= end]
            assert outcome.success == (not bad)
            if bad:
                [failure] = [event for event in outcome.all_events if event.is_step_failure]
                shown = failure.step_failure_data.user_failure_data
                assert shown is not None and set(shown.metadata) == {*bad, ERROR_CLASSES}
                assert all("room: '0' " in str(shown.metadata[day].value) for day in bad), shown
                assert shown.metadata[ERROR_CLASSES].value == dict.fromkeys(bad, "ContractViolation")

        plan = look(h.instance, h.table, h.lake, datetime.now(UTC))[1]
        assert {*(ask.partition for ask in plan.asks), *plan.later, *plan.stopped} == set(POISONED)

        for day in (DAYS[20], DAYS[90]):
            [record] = h.instance.fetch_materializations(
                dg.AssetRecordsFilter(asset_key=h.table.key, asset_partitions=[day]), limit=1
            ).records
            assert record.asset_materialization is not None
            shown_of = record.asset_materialization.metadata
            assert (shown_of["rows_read"].value, shown_of["inserted"].value) == (2, 2)
            assert str(shown_of["window"].value).startswith(f"[{day}T00:00:00")
            sample = shown_of["sample"]
            assert isinstance(sample, dg.TableMetadataValue)
            assert {str(row.data["day"]) for row in sample.records} == {day}

        for day in POISONED:
            deliver(tmp_path, day)
        assert [h.run(h.loads, partition=day).success for day in reversed(POISONED)] == [True] * 5
        assert materialized(h) == set(DAYS)
        assert rows_by_day(h) == dict.fromkeys(DAYS, 2)
