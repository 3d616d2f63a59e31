"""The runs that hold slots of pools and of the run queue, and the runs that wait for one."""

from datetime import UTC, datetime
from threading import Timer

import dagster as dg
import pytest
from dagster._core.remote_origin import RemoteJobOrigin
from dagster._core.test_utils import create_run_for_test

from incload_assets.progress.process import process_tags
from incload_assets.progress.slots import QUEUE, SlotRun, Slots, slot_left, slot_runs, slots_in_use
from tests.support.made_up_loads import REPOSITORY

NOW = datetime.now(UTC)


def started(instance: dg.DagsterInstance, job: str, tags: dict[str, str]) -> str:
    run_id = create_run_for_test(instance, job_name=job, tags=tags, status=dg.DagsterRunStatus.STARTING).run_id
    instance.report_dagster_event(dg.DagsterEvent(dg.DagsterEventType.RUN_START.value, job), run_id)
    return run_id


def test_holders_and_waiting_runs_are_known_by_pool_with_table_window_and_process() -> None:
    with dg.instance_for_test() as instance:
        assert slots_in_use(instance) == []
        storage = instance.event_log_storage
        storage.set_concurrency_slots("state_keys", 1)
        storage.set_concurrency_slots("unused", 1)
        one = started(instance, "load_keys", {"incload/table": "keys", "dagster/partition": "2026-01-02"})
        instance.add_run_tags(one, process_tags(one))
        two = started(instance, "load_keys", {
            "incload/table": "keys",
            "dagster/asset_partition_range_start": "2026-01-03", "dagster/asset_partition_range_end": "2026-01-05",
        })  # fmt: skip
        origin = RemoteJobOrigin(REPOSITORY, "vacuum")
        queued = create_run_for_test(
            instance, job_name="vacuum", status=dg.DagsterRunStatus.QUEUED, remote_job_origin=origin
        ).run_id
        assert storage.claim_concurrency_slot("state_keys", one, "keys").is_claimed
        assert not storage.claim_concurrency_slot("state_keys", two, "keys").is_claimed

        pool, queue = slots_in_use(instance)
        assert pool == Slots(of="state_keys", holders=[one], waiting=[two])
        assert (queue.of, {*queue.holders}, queue.waiting) == (QUEUE, {one, two}, [queued])
        known = slot_runs(instance, [one, two, queued, "gone"])
        assert [(known[run].table, known[run].window) for run in (one, two, queued)] == [
            ("keys", "2026-01-02"), ("keys", "2026-01-03..2026-01-05"), ("vacuum", "")
        ]  # fmt: skip
        assert known[one].process.startswith("process ") and known[one].over == known[two].process == ""
        assert (known[one].since or NOW.min) >= NOW and known["gone"] == SlotRun(run_id="gone")

        instance.report_run_failed(instance.get_run_by_id(one))  # type: ignore[arg-type]
        assert slots_in_use(instance)[0].holders == [one], "its slot is not free yet"
        assert slot_runs(instance, [one])[one].over == "The run has ended."


def test_a_slot_that_is_left_serves_another_run_and_is_waited_for_at_the_end() -> None:
    with dg.instance_for_test() as instance:
        storage = instance.event_log_storage
        storage.set_concurrency_slots("state_keys", 1)
        one, two = (started(instance, "load_keys", {}) for _ in range(2))
        assert storage.claim_concurrency_slot("state_keys", one, "keys").is_claimed
        with slot_left(instance, "state_keys", one, "keys"):
            assert storage.claim_concurrency_slot("state_keys", two, "keys").is_claimed
            Timer(0.5, storage.free_concurrency_slots_for_run, [two]).start()
        assert slots_in_use(instance)[0].holders == [one]
        with pytest.raises(ValueError, match="in a chunk"), slot_left(instance, "state_keys", one, "keys"):
            raise ValueError("in a chunk")
        assert slots_in_use(instance)[0].holders == [one]


@pytest.mark.parametrize("pool", [None, "state_keys", "unused"])
def test_a_run_without_a_slot_leaves_none(pool: str | None) -> None:
    with dg.instance_for_test() as instance:
        instance.event_log_storage.set_concurrency_slots("state_keys", 1)
        one = started(instance, "load_keys", {})
        with slot_left(instance, pool, one, "keys"):
            pass
        assert [slots for slots in slots_in_use(instance) if slots.of != QUEUE] == []
