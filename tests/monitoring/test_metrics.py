"""Values of metrics that need more than a look at one number."""

from datetime import UTC, datetime, timedelta

import pytest

from incload_assets.monitoring.facts import Facts, TableFacts, Watch
from incload_assets.monitoring.metrics import METRICS, samples
from tests.support.tables import make

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("tick", "success", "up"),
    [
        (-5 * SECOND, -4 * SECOND, 1),
        (-1 * SECOND, -17 * SECOND, 1),  # the tick is still looking
        (-1 * SECOND, -300 * SECOND, 0),  # ticks have failed for minutes
        (-200 * SECOND, -220 * SECOND, 0),  # it can no longer be looking
        (-1 * SECOND, None, 0),
    ],
)
def test_a_source_is_down_if_ticks_fail_and_not_while_one_is_looking(
    tmp_path_factory: pytest.TempPathFactory, tick: timedelta, success: timedelta | None, up: int
) -> None:
    table = make(None, tmp_path_factory.mktemp("lake")).table  # type: ignore[arg-type]
    watch = Watch(tick=NOON + tick, success=None if success is None else NOON + success)
    facts = Facts(at=NOON, tables={table.name: TableFacts(table=table, watch=watch)})
    [found] = samples(facts, [metric for metric in METRICS if metric.name == "incload_source_up"])
    assert found.value == up
