"""The shop's job and schedule in Dagster."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest

from incload_assets.platform.settings import Settings
from incload_assets.shop import Shop
from incload_assets.shop.definitions import shop_definitions
from tests.shop.conftest import landed


@pytest.fixture
def instance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dg.DagsterInstance]:
    monkeypatch.setenv("INCLOAD_HOME", str(tmp_path / "home"))
    with dg.instance_for_test(temp_dir=str(tmp_path)) as temporary:
        yield temporary


def tick(instance: dg.DagsterInstance) -> dg.RunRequest | dg.SkipReason:
    schedule = shop_definitions().resolve_schedule_def("shop_schedule")
    with dg.build_schedule_context(instance, scheduled_execution_time=datetime.now(UTC)) as context:
        data = schedule.evaluate_tick(context)
    return data.run_requests[0] if data.run_requests else dg.SkipReason(data.skip_message)


def config(request: dg.RunRequest | dg.SkipReason) -> dict[str, int]:
    assert isinstance(request, dg.RunRequest), request
    return dict(request.run_config["ops"]["trade"]["config"])


def test_the_job_trades_as_configured_and_shows_a_table_of_what_it_wrote(
    instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    shop = Shop(Settings(), scale=0.25)
    job = shop_definitions().resolve_job_def("advance_shop")
    result = job.execute_in_process(
        instance=instance, run_config={"ops": {"trade": {"config": {"days": 2, "minutes": 90}}}}
    )
    assert result.success
    assert shop.now - datetime.combine(shop.opened, datetime.min.time(), UTC) == timedelta(days=2, minutes=90)
    [output] = [event for event in result.all_events if event.is_successful_output]
    metadata = output.step_output_data.metadata
    assert metadata["files"].value == len(landed(tmp_path / "home"))
    assert str(metadata["traded"].value).splitlines()[2:4] == [
        "| table | files | rows | rewritten | unusual records |",
        "|---|---:|---:|---:|---|",
    ]
    assert "| customers | 2 |" in str(metadata["traded"].value)


def test_the_job_trades_a_day_when_it_is_not_told_otherwise(instance: dg.DagsterInstance) -> None:
    shop = Shop(Settings(), scale=0.25)
    before = shop.now
    assert shop_definitions().resolve_job_def("advance_shop").execute_in_process(instance=instance).success
    assert shop.now - before == timedelta(days=1)


def test_the_schedule_runs_by_default_and_asks_for_a_day_while_far_behind(instance: dg.DagsterInstance) -> None:
    schedule = shop_definitions().resolve_schedule_def("shop_schedule")
    assert schedule.default_status == dg.DefaultScheduleStatus.RUNNING
    assert config(tick(instance)) == {"days": 1, "minutes": 0}


def test_the_schedule_asks_for_the_minutes_up_to_the_present_when_files_are_due(instance: dg.DagsterInstance) -> None:
    shop = Shop(Settings())
    shop.advance(until=datetime.now(UTC) - timedelta(hours=20))
    asked = config(tick(instance))
    assert asked["days"] == 0
    assert asked["minutes"] in (20 * 60, 20 * 60 + 1)


def test_the_schedule_skips_with_the_time_of_the_next_file_when_nothing_is_due(instance: dg.DagsterInstance) -> None:
    shop = Shop(Settings(), scale=0.25)
    for _ in range(3):  # a file may become due between the two
        shop.advance(days=30)
        skipped = tick(instance)
        if isinstance(skipped, dg.SkipReason):
            break
    assert isinstance(skipped, dg.SkipReason)
    assert skipped.skip_message == f"The next file is due at {shop.next_due():%Y-%m-%d %H:%M} UTC."


def test_the_schedule_waits_for_a_run_that_is_under_way(instance: dg.DagsterInstance) -> None:
    job = shop_definitions().resolve_job_def("advance_shop")
    instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED)
    skipped = tick(instance)
    assert isinstance(skipped, dg.SkipReason)
    assert skipped.skip_message == "The shop is being advanced by another run."
