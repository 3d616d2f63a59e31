"""Days that wait are loaded by the one run that the sensor asks for, each with a checkpoint of its own."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest

from incload_assets.automation.window_requests import look, run_requests
from incload_assets.platform.settings import Settings
from tests.support.guest_table import House, guest, house, key

AT = datetime(2026, 1, 6, 12, tzinfo=UTC)
"""Days 1 to 5 are over."""


def asked(h: House, at: datetime) -> list[dg.RunRequest]:
    progress, planned = look(h.instance, h.table, h.lake, at)
    return run_requests(h.instance, h.table, progress, planned.asks, at)


def run(h: House, request: dg.RunRequest) -> dg.ExecuteInProcessResult:
    return h.run(h.loads, partition=request.partition_key, tags=dict(request.tags))


def materialized(h: House) -> set[str]:
    return set(h.instance.get_materialized_partitions(h.table.key))


def test_five_days_that_wait_are_one_run_and_the_one_that_cannot_be_loaded_is_tried_again_by_itself(
    tmp_path: Path, spark_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INCLOAD_LANDING", str(tmp_path / "landing"))
    with house(tmp_path, spark_settings) as h:
        for number in range(1, 6):
            h.deliver(number, guest(f"g{number}", room=0 if number == 3 else 1, day=number))
        [request] = asked(h, AT)
        assert not run(h, request).success
        assert materialized(h) == {key(number) for number in (1, 2, 4, 5)}
        assert asked(h, AT) == []
        [alone] = asked(h, datetime.now(UTC) + timedelta(minutes=2))
        assert alone.partition_key == key(3)
        h.deliver(3, guest("g3", day=3))
        [mended] = asked(h, datetime.now(UTC) + timedelta(minutes=2))
        assert run(h, mended).success
        assert materialized(h) == {key(number) for number in range(1, 6)}
        assert asked(h, datetime.now(UTC)) == []
