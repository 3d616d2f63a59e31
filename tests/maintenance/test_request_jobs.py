"""The jobs by which people ask for undos, releases, replays and fills: a real queue, backfill daemon and form."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import dagster as dg
import pytest

from incload_assets.assets.incremental import table_of
from incload_assets.automation.attempts import last_attempts
from incload_assets.platform.dagster_private import BulkActionsFilter, BulkActionStatus
from incload_assets.platform.lake import Lake
from incload_assets.platform.settings import Settings
from incload_assets.progress.progress import progress_of
from incload_assets.progress.request import Request
from tests.support.run_queue import Queue, queue_of
from tests.support.workshop import day, items_asset

CODE = """
from incload_assets.assets import Files
from incload_assets.code_location import incremental_definitions
from incload_assets.platform.settings import Settings
from tests.support.workshop import items_asset

typed = items_asset(name="typed", source=Files("{landing}/typed/{window:%Y-%m-%d}.parquet"))
defs = incremental_definitions([items_asset(max_partitions_per_run=2), typed], Settings())
"""
ASKED = {
    "undo_loads": {"incload/undo": "last", "incload/because": "wrong file"},
    "release_partitions": {"incload/release": "true", "incload/because": "wrong file"},
    "replay_rows": {"incload/replay": "wrong file"},
    "fill_columns": {"incload/fill": "wrong file"},
}
CHOSEN = [day(5), f"..{day(3)}"]


@pytest.fixture(scope="module")
def queue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Queue]:
    folder = tmp_path_factory.mktemp("requests")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("home", "lake", "landing"):
            patch.setenv(f"INCLOAD_{name.upper()}", str(folder / name))
        file = folder / "landing" / "items" / day(3) / "part.json"
        file.parent.mkdir(parents=True)
        file.write_text('{"id": "3", "value": "a", "seq": 1}\n')
        with queue_of(folder, CODE) as queue:
            yield queue


def asked(queue: Queue, job: str, **config: object) -> list[dg.DagsterRun]:
    """The runs that Dagster queues after a person, whom it knows as ada, has launched a job; they are killed."""
    run_id = queue.launch(job, {"table": "items", "because": "wrong file", **config}, tags={"user": "ada"})
    deadline = time.monotonic() + 120
    while not (run := queue.instance.get_run_by_id(run_id)) or not run.is_finished:
        queue.launched()
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert run.is_success
    runs = queue.backfill()
    for run in runs:
        queue.instance.report_run_failed(run, "its process is gone")
    return list(runs)


@pytest.mark.parametrize("job", ASKED)
def test_a_job_asks_for_runs_over_the_chosen_partitions_and_no_others_with_reason_and_person(
    queue: Queue, job: str
) -> None:
    runs = asked(queue, job, partitions=CHOSEN)
    requests = [Request.from_tags(run.tags) for run in runs]
    assert [(request.first, request.last) for request in requests] == [
        (day(1), day(2)), (day(3), day(3)), (day(5), day(5)),
    ]  # fmt: skip
    of_table = {"incload/table": "items", "incload/serialized": "items", "user": "ada"}
    assert queue.tags(runs[1].run_id, "user") == {**of_table, **ASKED[job]}
    assert {run.tags["dagster/backfill"] for run in runs} == {
        each.backfill_id for each in queue.instance.get_backfills(limit=1)
    }
    [backfill] = queue.instance.get_backfills(limit=1)
    what = job.split("_")[0].capitalize()
    assert (backfill.title, backfill.description) == (
        f"{what} of items, 4 partitions", f"wrong file; {day(1)}..{day(3)}, {day(5)}",
    )  # fmt: skip


def test_a_person_may_say_how_far_an_undo_goes_back(queue: Queue) -> None:
    [run] = asked(queue, "undo_loads", partitions=[day(7)], before="2026-01-08T12:00")
    assert Request.from_tags(run.tags).before == "2026-01-08T12:00"


def test_a_run_that_is_killed_leaves_its_partition_failed_and_to_be_loaded(queue: Queue) -> None:
    table = table_of(items_asset())
    assert table is not None
    [run] = asked(queue, "undo_loads", partitions=[day(3)])
    found = progress_of(queue.instance, table, Lake.of(Settings()), datetime.now(UTC))
    [window] = [window for window in found if window.key == day(3)]
    [attempt] = last_attempts(queue.instance, table, [window]).values()
    assert (window.status, attempt.run_id, attempt.outcome) == ("failed", run.run_id, "transient")


def test_what_cannot_be_done_is_refused_when_it_is_launched_with_rule_and_remedy(queue: Queue) -> None:
    before = len(queue.instance.get_runs())

    def refusal(job: str, **config: object) -> str:
        return queue.launch(job, {"table": "items", "partitions": [day(1)], **config})

    assert refusal("undo_loads", table="item") == "Value at path root:table not in enum type tables got item"
    assert "Missing required config entry" in queue.launch("undo_loads", {"table": "items"})
    assert "Rule: its partitions go from 2026-01-01 to 2026-01-14. Remedy: name one" in refusal(
        "release_partitions", partitions=[f"{day(1)}..2026-02-01"]
    )
    assert "names no partition. Rule:" in refusal("undo_loads", partitions=[])
    for job, what in (
        ("replay_rows", "rejected rows cannot be validated"),
        ("fill_columns", "columns cannot be filled"),
    ):
        why = refusal(job, table="typed")
        assert f"typed: its {what}" in why and "Remedy: load the" in why
    assert len(queue.instance.get_runs()) == before
    unfinished = BulkActionsFilter(statuses=[BulkActionStatus.REQUESTED])
    assert all(each.title != "Replay of typed, 1 partition" for each in queue.instance.get_backfills(unfinished))
