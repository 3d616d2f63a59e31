"""Which runs the queue launches beside which, by the project's own ``dagster.yaml``: real processes, a real queue."""

import subprocess
import sys
from collections.abc import Iterator

import dagster as dg
import pytest

from incload_assets.progress.run_tags import RANGE_END_TAG, RANGE_START_TAG
from tests.support.run_queue import Queue, queue_of

JOBS = """
import time
from datetime import timedelta
import dagster as dg
from incload_assets.assets import Freshness
from incload_assets.code_location import incremental_definitions
from incload_assets.platform.settings import Settings
from incload_assets.progress.run_tags import REQUESTED_PARTITIONS_TAG, SERIALIZED_TAG, TABLE_TAG, UPKEEP
from incload_assets.shop.definitions import advance_shop
from tests.support.workshop import items_asset

@dg.op
def slow():
    time.sleep(600)

def job_of(name, **tags):
    @dg.job(name=name, executor_def=dg.in_process_executor, tags=tags)
    def made():
        slow()
    return made

load = {TABLE_TAG: "orders"}
tables = [items_asset(freshness=Freshness(within=timedelta(minutes=10))), items_asset(name="others")]
other_jobs = [
    dg.define_asset_job("nightly", dg.AssetSelection.assets("items")),
    job_of("state", **{TABLE_TAG: "customers", SERIALIZED_TAG: "customers"}),
    job_of("load", **load),
    job_of("backlog", **load, **{REQUESTED_PARTITIONS_TAG: "2026-01-01...2026-01-05"}),
    job_of("upkeep", **UPKEEP),
    job_of("clock", **advance_shop.tags),
]
defs = dg.Definitions.merge(incremental_definitions(tables, Settings()), dg.Definitions(jobs=other_jobs))
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Queue]:
    folder = tmp_path_factory.mktemp("queue")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INCLOAD_HOME", str(folder / "home"))
        with queue_of(folder, JOBS) as place:
            yield place


@pytest.fixture
def queue(place: Queue) -> Iterator[Queue]:
    yield place
    place.clear()


def test_the_shops_clock_does_not_wait_behind_loads_nor_loads_and_upkeep_for_each_other(queue: Queue) -> None:
    queue.submit("load", "load", "load", "upkeep", "upkeep", "clock")
    assert queue.launched() == ["load", "load", "upkeep", "clock"]
    assert queue.launched() == ["load", "load", "upkeep", "clock"]


def test_a_backlog_leaves_a_place_to_other_loads(queue: Queue) -> None:
    queue.submit("backlog", "backlog", "load", "load")
    assert queue.launched() == ["backlog", "load"]


def test_a_load_that_has_to_wait_for_another_of_its_table_takes_no_place(queue: Queue) -> None:
    queue.submit("state", "state", "load")
    assert queue.launched() == ["state", "load"]


def test_whoever_starts_a_run_of_a_table_it_has_the_tags_of_its_limits_and_an_urgent_one_goes_first(
    queue: Queue,
) -> None:
    def tags(run_id: str) -> dict[str, str]:
        return queue.tags(run_id, "dagster/priority")

    one = {"dagster/partition": "2026-01-03"}
    several = {RANGE_START_TAG: "2026-01-03", RANGE_END_TAG: "2026-01-05"}
    items = {"incload/table": "items", "incload/serialized": "items"}
    page = queue.launch("__ASSET_JOB", assets=["items"], tags=one)
    assert tags(page) == {**items, "dagster/priority": "1"}
    assert tags(queue.launch("__ASSET_JOB", assets=["items"], tags=several)) == {
        **items, "incload/partitions": "2026-01-03...2026-01-05",
    }  # fmt: skip
    assert tags(queue.launch("__ASSET_JOB", assets=["items"], tags=one | {"dagster/backfill": "b"})) == items
    assert tags(queue.launch("__ASSET_JOB", assets=["items", "others"], tags=one))["incload/table"] == "items, others"
    assert tags(queue.launch("__ASSET_JOB", assets=["others"], tags=one | {"incload/table": "mine"})) == {
        "incload/table": "mine", "incload/serialized": "others",
    }  # fmt: skip
    assert tags(queue.launch("__ASSET_JOB", assets=[], checks={"items": "gaps"})) == {}
    queue.submit("nightly", tags=one)
    assert tags(queue.instance.get_runs(limit=1)[0].run_id) == {**items, "dagster/priority": "1"}


def test_a_run_whose_assets_cannot_be_looked_up_is_queued_as_it_is(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("incload_assets.runs.run_coordinator.RUN_TAGS", ["not a name"])
    run_id = queue.launch("__ASSET_JOB", assets=["items"], tags={"dagster/partition": "2026-01-03"})
    [run] = queue.instance.get_runs()
    assert (run.run_id, run.status, queue.tags(run_id)) == (run_id, dg.DagsterRunStatus.QUEUED, {})


def test_dagsters_own_processes_need_not_load_spark_to_queue_and_launch_runs() -> None:
    code = "import sys, incload_assets.runs; print({'pyspark', 'pandera', 'deltalake'} & sys.modules.keys())"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "set()\n"
