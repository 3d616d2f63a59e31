"""What a table's sensor asks for, from real files and a real Dagster history."""

import json
import shutil
from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest
from dagster._core.storage.tags import RUN_KEY_TAG

from incload_assets.assets import Freshness
from incload_assets.automation.policy import plan
from incload_assets.automation.source_sensor import look, run_requests
from incload_assets.change_log.log import ChangeLog
from incload_assets.platform.errors import SourceUnavailable
from tests.support.window_records import checkpoint
from tests.support.workshop import Workshop, copied_tags, day, items_asset, partitions

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)


def test_a_new_file_asks_for_exactly_its_partition(workshop: Workshop) -> None:
    workshop.write(3)
    [request] = workshop.tick()
    fingerprint = workshop.progress()[2].position.fingerprint
    assert request.partition_key == day(3)
    assert request.run_key == f"items:{day(3)}:{fingerprint}:1:1:first"
    assert {key: value for key, value in request.tags.items() if key.startswith("incload/")} == {
        "incload/table": "items",
        "incload/serialized": "items",
        "incload/partition": day(3),
        "incload/fingerprint": fingerprint,
        "incload/attempt": "1",
        "incload/code_version": "1",
    }


def test_what_is_loaded_is_not_asked_for_again(workshop: Workshop) -> None:
    workshop.write(3)
    workshop.load_all()
    result = workshop.evaluate()
    assert list(result.run_requests or []) == []
    assert result.skip_message == "items: 1 of 14 windows loaded; 13 waiting for their source"


def test_a_changed_byte_asks_for_that_partition_alone(workshop: Workshop) -> None:
    for number in (1, 2, 3):
        workshop.write(number)
    workshop.load_all()
    workshop.write(2, value="b")
    assert partitions(workshop.tick()) == [day(2)]


def test_a_file_changed_and_changed_back_is_asked_for_each_time(workshop: Workshop) -> None:
    keys = []
    for value in ("a", "b", "a"):
        workshop.write(2, value)
        [request] = workshop.requests()
        keys.append(request.run_key)
        workshop.run(request)
    assert len(set(keys)) == 3


def test_what_was_wiped_is_asked_for_by_another_key_each_time(workshop: Workshop) -> None:
    keys = []
    workshop.write(2)
    for _ in range(3):
        [request] = workshop.tick()
        keys.append(request.run_key)
        assert workshop.run(request).success
        assert workshop.tick() == []
        workshop.instance.wipe_assets([workshop.table.key])
    assert len(set(keys)) == 3


def test_stretches_that_were_wiped_are_asked_for_by_other_keys(workshop: Workshop) -> None:
    for number in range(1, 8):
        workshop.write(number)
    [first] = workshop.tick()
    assert workshop.run(first).success
    workshop.instance.wipe_assets([workshop.table.key])
    [second] = workshop.tick()
    assert partitions([second]) == partitions([first])
    assert second.run_key != first.run_key


@pytest.mark.parametrize("cause", [None, "contract"])
def test_a_partition_that_a_person_reported_as_materialized_is_asked_for_by_another_key(
    workshop: Workshop, cause: str | None
) -> None:
    workshop.write(2)
    [first] = workshop.tick()
    workshop.run(first, cause=cause)
    keys = [first.run_key]
    for _ in range(2):
        workshop.instance.report_runless_asset_event(dg.AssetMaterialization(workshop.table.key, partition=day(2)))
        [request] = workshop.tick()
        keys.append(request.run_key)
        assert workshop.run(request).success
        assert workshop.tick() == []
    assert len(set(keys)) == 3


def test_ticks_ask_by_the_same_key_until_the_run_they_asked_for_is_over(workshop: Workshop) -> None:
    workshop.write(2)
    [first] = workshop.tick()
    assert workshop.run(first).success
    workshop.instance.wipe_assets([workshop.table.key])
    [second] = workshop.tick()
    assert [request.run_key for request in workshop.tick()] == [second.run_key]
    submit(workshop, {**second.tags, RUN_KEY_TAG: second.run_key or ""}, dg.DagsterRunStatus.STARTED)
    workshop.instance.wipe_assets([workshop.table.key])  # whereupon nothing tells that the run has the partition
    assert [request.run_key for request in workshop.tick()] == [second.run_key]


def test_after_ten_days_off_all_ten_are_asked_for_oldest_first(workshop: Workshop) -> None:
    for number in reversed(range(1, 11)):
        workshop.write(number)
    requests = workshop.tick()
    assert partitions(requests) == [day(number) for number in range(1, 11)]
    assert [request.tags["incload/partitions"] for request in requests] == [f"{day(1)}...{day(10)}"]


def test_two_days_that_wait_are_one_run(workshop: Workshop) -> None:
    workshop.write(2)
    workshop.write(3)
    [request] = workshop.tick()
    assert request.partition_key is None
    assert request.tags["incload/partitions"] == f"{day(2)}...{day(3)}"
    assert set(json.loads(request.tags["incload/fingerprint"])) == {day(2), day(3)}


def test_ticks_ask_for_the_same_stretch_by_the_same_key(workshop: Workshop) -> None:
    for number in range(1, 6):
        workshop.write(number)
    [first], [again] = workshop.tick(), workshop.tick()
    assert first.run_key == again.run_key


def test_the_open_window_is_asked_for_by_itself(workshop: Workshop) -> None:
    workshop.asset = items_asset(partitions_def=dg.DailyPartitionsDefinition("2026-01-01", end_offset=1))
    for number in range(1, 6):
        workshop.write(number)
    at = datetime(2026, 1, 5, 12, tzinfo=UTC)
    progress, planned = look(workshop.instance, workshop.table, workshop.lake, at)
    requests = run_requests(workshop.instance, workshop.table, progress, planned.asks, at)
    assert [partitions([request]) for request in requests] == [[day(1), day(2), day(3), day(4)], [day(5)]]


def test_rewritten_windows_are_asked_for_one_by_one_however_many_and_part_the_new_ones(workshop: Workshop) -> None:
    loaded = range(3, 9)
    for number in loaded:
        workshop.write(number)
    workshop.load_all()
    for number in loaded:
        workshop.write(number, value="b")
    for number in (1, 2, 9, 10):
        workshop.write(number)
    requests = workshop.tick()
    assert [partitions([request]) for request in requests] == [
        [day(1), day(2)],
        *([day(number)] for number in loaded),
        [day(9), day(10)],
    ]


def test_windows_that_failed_are_asked_for_one_by_one_however_many_and_part_the_new_ones(workshop: Workshop) -> None:
    for number in (3, 4, 5, 6, 7):
        workshop.write(number)
    [request] = workshop.requests()
    workshop.run(request, cause="transient")
    for number in (1, 2, 8):
        workshop.write(number)
    requests = workshop.requests(later=2 * MINUTE)
    assert [partitions([request]) for request in requests] == [[day(1), day(2)], *([day(n)] for n in range(3, 9))]


def test_windows_whose_files_were_rewritten_after_they_failed_are_asked_for_one_by_one(workshop: Workshop) -> None:
    for number in (3, 4):
        workshop.write(number)
    [request] = workshop.requests()
    workshop.run(request, cause="contract")
    for number in (3, 4):
        workshop.write(number, value="b")
    assert [partitions([request]) for request in workshop.requests(later=HOUR)] == [[day(3)], [day(4)]]


def test_more_windows_than_one_run_loads_are_asked_for_in_several(workshop: Workshop) -> None:
    workshop.asset = items_asset(max_partitions_per_run=3)
    for number in range(1, 8):
        workshop.write(number)
    requests = workshop.tick()
    assert [len(partitions([request])) for request in requests] == [3, 3, 1]


def test_a_tick_asks_for_no_more_windows_than_are_loaded_together_and_the_next_for_the_others(
    workshop: Workshop,
) -> None:
    windows = dg.DailyPartitionsDefinition("2026-01-01", end_date="2026-02-10")
    workshop.asset = items_asset(partitions_def=windows, absent="empty")
    [first] = workshop.tick()
    assert first.tags["incload/partitions"] == "2026-01-01...2026-02-01"
    bounds = {"dagster/asset_partition_range_start": day(1), "dagster/asset_partition_range_end": "2026-02-01"}
    submit(workshop, bounds, dg.DagsterRunStatus.NOT_STARTED)
    [second] = workshop.tick()
    assert second.tags["incload/partitions"] == "2026-02-02...2026-02-09"


def test_many_gaps_are_asked_for_in_stretches_that_touch(workshop: Workshop) -> None:
    for number in (1, 2, 3, 5, 9, 10):
        workshop.write(number)
    requests = workshop.tick()
    assert [partitions([request]) for request in requests] == [
        [day(1), day(2), day(3)],
        [day(5)],
        [day(9), day(10)],
    ]


def test_a_tick_asks_for_a_bounded_number_the_oldest(workshop: Workshop) -> None:
    for number in range(1, 8):
        workshop.write(number)
    planned = plan(workshop.progress(), lambda _: None, "1", datetime.now(UTC), limit=5)
    assert [ask.partition for ask in planned.asks] == [day(number) for number in range(1, 6)]


def test_a_range_run_that_loads_all_but_one_leaves_that_one_to_be_tried_alone(workshop: Workshop) -> None:
    for number in range(1, 6):
        workshop.write(number)
    [request] = workshop.requests()
    failed = workshop.run(request, cause="contract")
    for number in (1, 2, 4, 5):
        fingerprint = workshop.progress()[number - 1].position.fingerprint
        checkpoint(workshop.instance, ChangeLog(workshop.table, workshop.lake), {day(number): fingerprint})
    assert workshop.requests(later=30 * SECOND) == []
    [alone] = workshop.requests(later=2 * MINUTE)
    assert (alone.partition_key, alone.tags["incload/attempt"]) == (day(3), "2")
    assert alone.run_key is not None and alone.run_key.endswith(failed.run_id[:8])
    workshop.run(alone, cause="contract")
    assert workshop.requests(later=1000 * HOUR) == []


@pytest.mark.parametrize(("within", "priority"), [(5 * MINUTE, "1"), (6 * HOUR, None)])
def test_a_table_that_must_be_fresh_in_minutes_is_loaded_before_others(
    workshop: Workshop, within: timedelta, priority: str | None
) -> None:
    workshop.asset = items_asset(freshness=Freshness(within=within))
    workshop.write(3)
    [request] = workshop.tick()
    assert request.tags.get("dagster/priority") == priority


def test_a_backlog_does_not_delay_what_must_be_fresh_in_minutes(workshop: Workshop) -> None:
    workshop.asset = items_asset(freshness=Freshness(within=5 * MINUTE))
    for number in (2, 3, 5):
        workshop.write(number)
    backlog, single = workshop.tick()
    assert (backlog.tags.get("dagster/priority"), single.tags.get("dagster/priority")) == (None, "1")


def test_a_contract_violation_waits_until_its_file_changes(workshop: Workshop) -> None:
    workshop.write(2)
    [request] = workshop.requests()
    run_id = workshop.run(request, cause="contract").run_id
    assert workshop.requests(later=1000 * HOUR) == []
    assert workshop.plan().stopped == {day(2): f"too many rows break the contract, run {run_id[:8]}"}
    workshop.write(2, value="b")
    assert partitions(workshop.requests()) == [day(2)]


def test_a_contract_violation_is_tried_again_with_changed_code(workshop: Workshop) -> None:
    workshop.write(2)
    workshop.run(workshop.requests()[0], cause="contract")
    workshop.asset = items_asset(code_version="2")
    assert partitions(workshop.requests()) == [day(2)]


def test_a_reexecution_that_was_killed_does_not_wait_for_a_person_though_its_parent_broke_the_contract(
    workshop: Workshop,
) -> None:
    workshop.write(2)
    broken = workshop.run(workshop.requests()[0], cause="contract").dagster_run
    run = submit(workshop, copied_tags(workshop.instance.get_run_by_id(broken.run_id)), dg.DagsterRunStatus.STARTED)
    workshop.instance.report_run_failed(run)
    [window] = [window for window in workshop.progress() if window.key == day(2)]
    assert (window.failed_run, window.failure) == (run.run_id, "error")
    assert partitions(workshop.requests(later=2 * MINUTE)) == [day(2)]


def test_a_transient_failure_is_tried_again_after_growing_delays_for_ever(workshop: Workshop) -> None:
    workshop.write(2)
    [request] = workshop.requests()
    for number, delay in enumerate((MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, HOUR, HOUR), 1):
        assert request.tags["incload/attempt"] == str(number)
        workshop.run(request, cause="transient")
        assert workshop.requests(later=delay - 10 * SECOND) == []
        [request] = workshop.requests(later=delay + SECOND)


@pytest.mark.parametrize(
    ("cause", "delays"),
    [("transient", (0, 1, 5, 15, 60, 60)), ("error", (0, 1, 5, 15, 0, 0, 1))],
)
def test_a_source_that_always_moves_is_tried_at_once_and_then_after_growing_delays(
    workshop: Workshop, cause: str, delays: tuple[int, ...]
) -> None:
    workshop.write(2)
    [request] = workshop.requests()
    for number, delay in enumerate(delays):
        workshop.run(request, cause=cause)
        workshop.write(2, value="abc"[number % 3] * (number + 2))
        if delay:
            assert workshop.requests(later=delay * MINUTE - 10 * SECOND) == []
        [request] = workshop.requests(later=delay * MINUTE + SECOND)


def test_an_unexplained_error_is_tried_five_times(workshop: Workshop) -> None:
    workshop.write(2)
    for _ in range(5):
        [request] = workshop.requests(later=2 * HOUR)
        workshop.run(request, cause="error")
    assert workshop.requests(later=1000 * HOUR) == []


def test_a_log_lost_again_right_after_two_loads_waits_for_a_person_and_a_day_later_it_is_loaded_again(
    workshop: Workshop,
) -> None:
    workshop.write(2)
    workshop.load_all()
    shutil.rmtree(workshop.folder / "lake")
    [second] = workshop.requests(later=2 * MINUTE)
    assert (second.partition_key, second.tags["incload/attempt"]) == (day(2), "2")
    assert workshop.run(second).success
    shutil.rmtree(workshop.folder / "lake")
    assert list(workshop.plan(later=23 * HOUR).stopped) == [day(2)]
    [again] = workshop.requests(later=25 * HOUR)
    assert (again.partition_key, again.tags["incload/attempt"]) == (day(2), "1")
    assert workshop.run(again).success
    assert workshop.tick() == []


def test_a_failed_partition_whose_file_is_gone_is_not_asked_for(workshop: Workshop) -> None:
    file = workshop.write(2)
    workshop.run(workshop.requests()[0], cause="missing")
    file.unlink()
    assert workshop.requests(later=2 * HOUR) == []


def test_a_deleted_file_asks_for_nothing(workshop: Workshop) -> None:
    file = workshop.write(2)
    workshop.load_all()
    file.unlink()
    assert workshop.tick() == []


def test_an_empty_table_waits_for_its_source(workshop: Workshop) -> None:
    assert workshop.evaluate().skip_message == "items: 0 of 14 windows loaded; 14 waiting for their source"


def test_windows_declared_empty_are_asked_for_once_they_are_over(workshop: Workshop) -> None:
    workshop.asset = items_asset(absent="empty")
    assert partitions(workshop.tick()) == [day(number) for number in range(1, 15)]


@pytest.mark.parametrize("status", [dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTED])
def test_what_a_run_already_has_is_not_asked_for(workshop: Workshop, status: dg.DagsterRunStatus) -> None:
    for number in range(1, 6):
        workshop.write(number)
    submit(workshop, {"dagster/partition": day(1)}, status)
    bounds = {"dagster/asset_partition_range_start": day(2), "dagster/asset_partition_range_end": day(4)}
    submit(workshop, bounds, status)
    assert partitions(workshop.tick()) == [day(5)]


def test_a_run_cancelled_by_a_person_leaves_no_gap_but_an_hour(workshop: Workshop) -> None:
    workshop.write(2)
    run = submit(workshop, dict(workshop.tick()[0].tags), dg.DagsterRunStatus.STARTED)
    workshop.instance.report_run_canceling(run)
    workshop.instance.report_run_canceled(run)
    assert workshop.requests(later=50 * MINUTE) == []
    assert partitions(workshop.requests(later=61 * MINUTE)) == [day(2)]


def test_a_run_that_ended_with_its_terminal_is_asked_for_again_soon(workshop: Workshop) -> None:
    workshop.write(2)
    run = submit(workshop, dict(workshop.tick()[0].tags), dg.DagsterRunStatus.STARTED)
    workshop.instance.report_run_canceled(run)
    assert partitions(workshop.requests(later=61 * SECOND)) == [day(2)]


def test_a_deleted_run_is_as_if_it_had_never_been(workshop: Workshop) -> None:
    workshop.write(2)
    result = workshop.run(workshop.requests()[0], cause="contract")
    workshop.instance.delete_run(result.run_id)
    assert partitions(workshop.requests()) == [day(2)]


def test_a_checkpoint_goes_with_the_run_that_loaded_last_and_not_with_one_before(workshop: Workshop) -> None:
    runs = []
    for value in ("a", "b"):
        workshop.write(2, value)
        [request] = workshop.requests()
        runs.append(workshop.run(request).run_id)
    workshop.instance.delete_run(runs[0])
    assert (workshop.progress()[1].status, workshop.tick()) == ("loaded", [])
    workshop.instance.delete_run(runs[1])
    assert partitions(workshop.tick()) == [day(2)]


def test_a_source_that_does_not_answer_fails_the_tick_with_its_message(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INCLOAD_LANDING", "s3://landing")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    with pytest.raises(SourceUnavailable, match="items: no answer for s3://landing"):
        workshop.tick()


def submit(workshop: Workshop, tags: dict[str, str], status: dg.DagsterRunStatus) -> dg.DagsterRun:
    """A run as the daemon creates it, before and while it is executed."""
    repository = workshop.definitions().get_repository_def()
    return workshop.instance.create_run_for_job(
        repository.get_implicit_global_asset_job_def(),
        tags=tags,
        status=status,
        asset_selection=frozenset([workshop.table.key]),
    )
