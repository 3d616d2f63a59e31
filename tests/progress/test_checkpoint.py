"""What Dagster's records of runs and materializations tell of a partition before it is loaded."""

import time
from collections.abc import Iterator
from typing import Any

import dagster as dg
import pytest

from incload_assets.progress import checkpoint
from incload_assets.progress.checkpoint import Checkpoint, checkpoint_of, untried
from incload_assets.progress.run_tags import LOADS_NOTHING, PARTITION_TAG, RANGE_END_TAG, RANGE_START_TAG
from tests.support.tables import DAYS, day

ITEMS = dg.AssetKey("items")
CLEAN, UNCLEAN = Checkpoint("held", clean=True), Checkpoint("held")


@dg.asset(key=ITEMS, partitions_def=DAYS)
def items(context: dg.AssetExecutionContext) -> dg.MaterializeResult[None]:
    if "fails" in context.run.tags:
        raise dg.Failure("as told", allow_retries=False)
    return dg.MaterializeResult(data_version=dg.DataVersion("held"))


@dg.asset(partitions_def=DAYS)
def others() -> None: ...


JOB = dg.Definitions([items, others], jobs=[dg.define_asset_job("loads")]).resolve_job_def("loads")


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


def load(instance: dg.DagsterInstance, number: int, **tags: str) -> str:
    """Run it for a day, to its end; the run's id."""
    done = dg.materialize([items], partition_key=day(number), instance=instance, tags=tags, raise_on_error=False)
    return done.run_id


def alive(instance: dg.DagsterInstance, tags: dict[str, str], *assets: dg.AssetKey) -> str:
    """A run that has begun and not ended."""
    run = instance.create_run_for_job(JOB, tags=tags, asset_selection=frozenset(assets) or None)
    instance.report_dagster_event(dg.DagsterEvent(dg.DagsterEventType.RUN_START.value, JOB.name), run.run_id)
    return run.run_id


def known(instance: dg.DagsterInstance, run_id: str = "this") -> Checkpoint:
    """What the run that asks is told of the first day."""
    return checkpoint_of(instance, ITEMS, DAYS, day(1), run_id)


def test_a_checkpoint_is_clean_until_another_run_that_covers_its_partition_fails_or_is_under_way(
    instance: dg.DagsterInstance,
) -> None:
    assert known(instance) == Checkpoint(untried=True)
    load(instance, 1, fails="yes")
    assert known(instance) == Checkpoint()
    time.sleep(1)  # the records of runs know seconds
    load(instance, 1)
    assert known(instance) == CLEAN  # what failed had ended before
    load(instance, 2, fails="yes")
    this = alive(instance, {PARTITION_TAG: day(1)}, ITEMS)
    alive(instance, {PARTITION_TAG: day(1)}, others.key)
    alive(instance, {PARTITION_TAG: day(1)} | LOADS_NOTHING, ITEMS)
    assert known(instance, this) == CLEAN  # itself does not count, nor do loads of other days and tables, nor no loads
    assert known(instance) == UNCLEAN
    instance.delete_run(this)
    assert known(instance) == CLEAN
    alive(instance, {RANGE_START_TAG: day(1), RANGE_END_TAG: day(3)}, ITEMS)
    assert known(instance) == UNCLEAN


def test_a_run_that_was_under_way_at_the_last_materialization_makes_it_unclean_however_it_ended(
    instance: dg.DagsterInstance,
) -> None:
    before = instance.get_run_by_id(alive(instance, {PARTITION_TAG: day(1)}, ITEMS))
    assert before is not None
    time.sleep(1)  # the records of runs know seconds
    load(instance, 1)
    assert known(instance) == UNCLEAN
    instance.report_run_failed(before)
    assert known(instance) == UNCLEAN
    time.sleep(1)
    load(instance, 1)
    assert known(instance) == CLEAN


@dg.op
def fails() -> None:
    raise dg.Failure("as told", allow_retries=False)


@dg.job
def report() -> None:
    fails()


@dg.asset(key="others", partitions_def=DAYS)
def failing() -> None:
    raise dg.Failure("as told", allow_retries=False)


@dg.asset_check(asset=ITEMS)
def failing_check() -> dg.AssetCheckResult:
    raise dg.Failure("as told", allow_retries=False)


def test_a_run_that_fails_without_a_part_in_the_table_leaves_its_partitions_clean_and_untried(
    instance: dg.DagsterInstance,
) -> None:
    load(instance, 1)
    time.sleep(1)  # the records of runs know seconds
    jobs: list[Any] = [
        report,
        dg.define_asset_job("load_others", [failing]),  # as a sensor launches it: the job is the selection
        dg.define_asset_job("look", dg.AssetSelection.checks(dg.AssetCheckKey(ITEMS, "failing_check"))),
    ]
    location = dg.Definitions([items, failing], asset_checks=[failing_check], jobs=jobs)
    for name, partition in (("report", None), ("load_others", day(1)), ("look", None)):
        job = location.resolve_job_def(name)
        assert not job.execute_in_process(instance=instance, partition_key=partition, raise_on_error=False).success
    assert known(instance) == CLEAN
    assert untried(instance, ITEMS, DAYS, [day(1), day(2)], "this") == {day(2)}
    loads = dg.Definitions([items, failing], jobs=[dg.define_asset_job("loads_both", [items, failing])])
    loads.resolve_job_def("loads_both").execute_in_process(
        instance=instance, partition_key=day(1), tags={"fails": "yes"}, raise_on_error=False
    )
    assert known(instance) == UNCLEAN


def test_where_there_are_too_many_runs_to_look_at_each_nothing_is_untried(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "RUNS_LOOKED_AT", 1)
    assert untried(instance, ITEMS, DAYS, [day(2)], "this") == {day(2)}
    alive(instance, {PARTITION_TAG: day(1)}, others.key)
    assert untried(instance, ITEMS, DAYS, [day(2)], "this") == set()


def test_untried_is_what_no_other_run_covers_by_its_partition_or_its_range(instance: dg.DagsterInstance) -> None:
    days = [day(n) for n in range(1, 7)]
    load(instance, 1)
    load(instance, 2, fails="yes")
    assert untried(instance, ITEMS, DAYS, days, "this") == set(days[2:])
    this = alive(instance, {RANGE_START_TAG: day(3), RANGE_END_TAG: day(4)}, ITEMS)
    assert untried(instance, ITEMS, DAYS, days, this) == set(days[2:])
    assert untried(instance, ITEMS, DAYS, days, "this") == set(days[4:])
    alive(instance, {}, others.key)
    assert untried(instance, ITEMS, DAYS, days, "this") == set(days[4:])
    alive(instance, {})  # of everything, for who knows which partition
    assert untried(instance, ITEMS, DAYS, days, "this") == set()


def alive_over(instance: dg.DagsterInstance, first: str, last: str) -> None:
    """A run over a range, of which Dagster does not know whose partitions these are."""
    instance.add_run(dg.DagsterRun("anything", tags={RANGE_START_TAG: first, RANGE_END_TAG: last}))


GERMAN = dg.DailyPartitionsDefinition("28-01-2026", fmt="%d-%m-%Y")
QUARTERS = dg.TimeWindowPartitionsDefinition(
    cron_schedule="*/15 * * * *", start="2026-10-25-00:00", fmt="%Y-%m-%d-%H:%M", timezone="Europe/Berlin"
)


@pytest.mark.parametrize(
    ("partitions_def", "first", "inside", "last", "outside"),
    [
        (GERMAN, "30-01-2026", "31-01-2026", "02-02-2026", ["28-01-2026", "29-01-2026", "03-02-2026", "01-03-2026"]),
        (DAYS, "2026-01-03", "2026-01-04", "2026-01-05", ["2026-01-02", "2026-01-06"]),
    ],
)
def test_a_range_covers_what_is_between_its_ends_in_time_however_keys_are_written(
    instance: dg.DagsterInstance,
    partitions_def: dg.TimeWindowPartitionsDefinition,
    first: str,
    inside: str,
    last: str,
    outside: list[str],
) -> None:
    alive_over(instance, first, last)
    asked = [first, inside, last, *outside]
    assert untried(instance, ITEMS, partitions_def, asked, "this") == set(outside)


def test_a_range_over_the_hour_that_there_is_twice_covers_each_of_its_quarters(instance: dg.DagsterInstance) -> None:
    keys = QUARTERS.get_partition_keys()[:24]
    alive_over(instance, keys[4], keys[13])
    assert keys[11:14] == ["2026-10-25-02:45", "2026-10-25-02:00+0100", "2026-10-25-02:15+0100"]
    assert untried(instance, ITEMS, QUARTERS, keys, "this") == {*keys[:4], *keys[14:]}


def test_the_runs_of_a_backfill_of_a_year_of_hours_leave_the_partitions_of_each_other_untried(
    instance: dg.DagsterInstance,
) -> None:
    hours = dg.HourlyPartitionsDefinition("2025-01-01-00:00", end_date="2026-01-01-00:00")
    keys = hours.get_partition_keys()
    stretches = [keys[first : first + 32] for first in range(0, len(keys), 32)]
    for stretch in stretches[1:]:
        alive_over(instance, stretch[0], stretch[-1])
    assert untried(instance, ITEMS, hours, [*stretches[0], *stretches[1]], "this") == {*stretches[0]}


@pytest.mark.parametrize("bounds", [("2025-12-31", day(2)), (day(2), "2027-01-01"), ("2026-01", "2026-02")])
def test_a_range_with_an_end_that_is_no_window_may_have_tried_everything(
    instance: dg.DagsterInstance, bounds: tuple[str, str]
) -> None:
    alive_over(instance, *bounds)
    assert untried(instance, ITEMS, DAYS, [day(1), day(3)], "this") == set()
