"""What the reconciliation found wrong is asked for once; found wrong again, it waits for a person."""

import time

import dagster as dg
import pytest

from incload_assets.checks import findings, reconciliation
from tests.support.workshop import Workshop, day, partitions


def find(workshop: Workshop, *numbers: int) -> None:
    """A reconciliation that finds these days wrong."""
    time.sleep(0.01)  # later than the loads before it, by the clock
    metadata = {reconciliation.REPAIR: dg.MetadataValue.json([day(number) for number in numbers])} if numbers else {}
    workshop.instance.report_runless_asset_event(
        dg.AssetCheckEvaluation(
            asset_key=workshop.table.key, check_name=reconciliation.NAME, passed=not numbers, metadata=metadata
        )
    )
    time.sleep(0.01)


@pytest.mark.parametrize("few", [1, 100])
def test_partitions_found_wrong_are_asked_for_once(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(findings, "FEW", few)
    for number in (1, 2, 3):
        workshop.write(number)
    workshop.load_all()
    find(workshop, 1, 3)
    requests = workshop.tick()
    assert partitions(requests) == [day(1), day(3)]
    assert workshop.run(requests[0]).success
    assert partitions(workshop.tick()) == [day(3)]
    assert workshop.run(requests[1]).success
    assert workshop.tick() == []
    find(workshop)
    assert workshop.tick() == []


def test_what_is_found_wrong_after_its_repair_waits_for_a_person(workshop: Workshop) -> None:
    workshop.write(1)
    workshop.load_all()
    find(workshop, 1)
    [request] = workshop.tick()
    result = workshop.run(request)
    find(workshop, 1)
    planned = workshop.plan()
    assert (planned.asks, planned.stopped) == ([], {day(1): f"wrong again after a repair, run {result.run_id[:8]}"})
    workshop.write(1, value="b")
    [request] = workshop.tick()
    assert workshop.run(request).success, "news of its source are loaded as ever"
    find(workshop, 1)
    assert partitions(workshop.tick()) == [day(1)]


def test_a_failed_repair_is_tried_again_later(workshop: Workshop) -> None:
    workshop.write(1)
    workshop.load_all()
    find(workshop, 1)
    [request] = workshop.tick()
    assert not workshop.run(request, cause="transient").success
    planned = workshop.plan()
    assert (planned.asks, list(planned.later) + list(planned.stopped)) == ([], [day(1)])
