"""How much of a source a sensor looks at, and how often."""

from datetime import UTC, datetime
from typing import Any

import dagster as dg
import pytest

from incload_assets.automation import pace
from incload_assets.automation.window_requests import look
from tests.support.workshop import Workshop, day


class Clock:
    """Time as a test says; each question takes some."""

    def __init__(self) -> None:
        self.now, self.each = 0.0, 0.0

    def __call__(self) -> float:
        self.now += self.each
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("time.monotonic", clock)
    return clock


def test_a_look_at_everything_takes_a_twentieth_of_the_time(clock: Clock) -> None:
    own = pace.Pace()
    assert own.is_due()
    own.took(2)
    clock.now = 39.9
    assert not own.is_due()
    clock.now = 40
    assert own.is_due()


def test_a_failed_partition_that_is_not_looked_at_waits_for_a_look_at_it(workshop: Workshop) -> None:
    """Were it taken for what was landed, it would have changed its position at each second look, and be tried again."""
    workshop.write(2)
    workshop.load_all()
    workshop.write(2, "b")
    [request] = workshop.requests()
    assert not workshop.run(request, cause="contract").success

    def at(newest: int | None) -> tuple[Any, Any]:
        progress, planned = look(workshop.instance, workshop.table, workshop.lake, datetime.now(UTC), newest=newest)
        return progress[1], planned

    window, planned = at(3)
    assert (window.status, window.position, planned.asks, planned.stopped) == ("failed", None, [], {})
    window, planned = at(None)
    assert (window.status, planned.asks, list(planned.stopped)) == ("failed", [], [day(2)])


def test_what_is_older_and_rolled_back_waits_for_a_look_at_it(workshop: Workshop) -> None:
    """A log without the partition: a look at everything finds it, one at the newest does not guess."""
    workshop.write(2)
    fingerprint = workshop.progress()[1].position.fingerprint
    version = dg.AssetMaterialization(workshop.table.key, partition=day(2), tags={"dagster/data_version": fingerprint})
    workshop.instance.report_runless_asset_event(version)
    for newest, asks in ((3, []), (None, [day(2)])):
        planned = look(workshop.instance, workshop.table, workshop.lake, datetime.now(UTC), newest=newest)[1]
        assert [ask.partition for ask in planned.asks] == asks
