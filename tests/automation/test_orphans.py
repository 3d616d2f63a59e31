"""A run whose process is killed is over, its pool is free, and its partition is asked for again."""

import os
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.events import EngineEventData

from incload_assets.automation import fail_orphans, orphaned_runs
from incload_assets.progress.process import process_tags
from incload_assets.progress.run_tags import PROCESS_TAG, own_tags
from tests.support.workshop import Workshop, copied_tags, day, partitions

HANGING = """
import sys, time
import dagster as dg
from incload_assets.progress.process import mark_process

@dg.asset(key="items", partitions_def=dg.DailyPartitionsDefinition("2026-01-01", end_date="2026-01-15"), pool="items")
def load(context: dg.AssetExecutionContext):
    if sys.argv[2] == "marked":
        mark_process(context)
    print("loading", flush=True)
    time.sleep(600)

with dg.DagsterInstance.from_config(sys.argv[1]) as instance:
    dg.materialize([load], partition_key="2026-01-02", instance=instance)
"""


@pytest.fixture
def instance(tmp_path: Path) -> dg.DagsterInstance:
    home = tmp_path / "home"
    home.mkdir()
    (home / "dagster.yaml").write_text("concurrency: {pools: {granularity: op, default_limit: 1}}\n")
    return dg.DagsterInstance.from_config(str(home))


def killed_run(instance: dg.DagsterInstance, folder: Path, *, marked: bool = True) -> str:
    """The id of a run whose process was killed in the middle of its step."""
    process = subprocess.Popen(
        [sys.executable, "-c", HANGING, str(folder / "home"), "marked" if marked else ""],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    with process, process.stdout as lines:
        assert lines.readline() == b"loading\n"
        [run] = instance.get_runs()
        assert fail_orphans(instance) == []  # it lives
        os.kill(process.pid, signal.SIGKILL)
    return run.run_id


def test_a_killed_run_is_failed_and_its_pool_freed(workshop: Workshop) -> None:
    instance = workshop.instance
    run_id = killed_run(instance, workshop.folder)
    assert instance.event_log_storage.get_concurrency_info("items").active_run_ids == {run_id}

    assert fail_orphans(instance) == [run_id]

    assert instance.get_run_by_id(run_id).status is dg.DagsterRunStatus.FAILURE  # type: ignore[union-attr]
    assert instance.event_log_storage.get_concurrency_info("items").active_run_ids == set()
    [event] = instance.all_logs(run_id, of_type=dg.DagsterEventType.RUN_FAILURE)
    assert "is gone. The run is over; its partitions will be requested again." in event.user_message + event.message
    assert fail_orphans(instance) == []


def test_the_partition_of_a_killed_run_is_asked_for_again(workshop: Workshop) -> None:
    workshop.write(2)
    killed_run(workshop.instance, workshop.folder)
    assert workshop.requests(later=timedelta(minutes=2)) == []
    with dg.build_sensor_context(instance=workshop.instance, repository_name="any") as context:
        [found] = orphaned_runs.evaluate_tick(context).skip_message.split(": ")[1:]
    assert [found] == [run.run_id for run in workshop.instance.get_runs()]
    assert partitions(workshop.requests(later=timedelta(minutes=2))) == [day(2)]


def test_a_run_of_another_machine_is_left_alone(instance: dg.DagsterInstance) -> None:
    run = started(instance, "elsewhere:1:0.00")
    assert fail_orphans(instance) == []
    assert instance.get_run_by_id(run.run_id).status is dg.DagsterRunStatus.STARTED  # type: ignore[union-attr]


def test_a_process_id_that_was_given_to_another_process_is_not_the_run(instance: dg.DagsterInstance) -> None:
    host, pid, began = process_tags("")[PROCESS_TAG].strip().rsplit(":", 2)
    run = started(instance, f"{host}:{pid}:{float(began) - 3600:.2f}")
    assert fail_orphans(instance) == [run.run_id]


def test_a_retry_is_not_taken_for_the_run_whose_process_is_gone_though_it_has_its_tags(workshop: Workshop) -> None:
    instance = workshop.instance
    killed_run(instance, workshop.folder)
    [run_id] = fail_orphans(instance)
    parent = instance.get_run_by_id(run_id)
    assert parent is not None and PROCESS_TAG in parent.tags

    retry = started(instance, **copied_tags(parent))
    assert instance.event_log_storage.claim_concurrency_slot("items", retry.run_id, "items").is_claimed

    assert fail_orphans(instance) == []
    assert instance.get_run_by_id(retry.run_id).status is dg.DagsterRunStatus.STARTED  # type: ignore[union-attr]
    assert instance.event_log_storage.get_concurrency_info("items").active_run_ids == {retry.run_id}


def test_a_run_that_died_before_it_marked_itself_is_known_by_its_log(instance: dg.DagsterInstance) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    run = started(instance, **{"dagster/code_location": "incload"})
    instance.report_engine_event("Started process for run", run, EngineEventData.in_process(process.pid))
    assert fail_orphans(instance) == []  # perhaps launched on another machine
    assert fail_orphans(instance, "elsewhere") == []
    assert fail_orphans(instance, "incload") == [run.run_id]


def started(instance: dg.DagsterInstance, process: str | None = None, **tags: str) -> dg.DagsterRun:
    """A run that began, and that marked itself as in a process, if one is given."""

    @dg.job
    def nothing() -> None: ...

    run = instance.create_run_for_job(nothing, tags=tags, status=dg.DagsterRunStatus.NOT_STARTED)
    if process is not None:
        instance.add_run_tags(run.run_id, own_tags(run.run_id, {PROCESS_TAG: process}))
    instance.report_dagster_event(dg.DagsterEvent(dg.DagsterEventType.RUN_START.value, "nothing"), run.run_id)
    return run
