"""The tables whose logs the sensor of replays reads in each tick."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from incload_assets.change_log.log import ChangeLog
from incload_assets.code_location import incremental_definitions
from incload_assets.declaration.table import Table
from incload_assets.platform.lake import Lake
from incload_assets.platform.settings import Settings
from incload_assets.quarantine import replay_sensor
from tests.automation.tower import named
from tests.support.window_records import land
from tests.support.workshop import day, items_asset


class Ticks:
    """Ticks of the sensor over three tables, in one process."""

    def __init__(self, root: Path, instance: dg.DagsterInstance) -> None:
        assets = [items_asset(name=name) for name in ("one", "two", "three")]
        self.instance, self.lake, self.cursor = instance, Lake(str(root / "lake")), ""
        self.tables = {table.name: table for table in map(named, assets)}
        self.sensor = replay_sensor.replay_sensor([*self.tables.values()])
        self.repository = incremental_definitions(assets, Settings()).get_repository_def()
        self.looked: list[str] = []
        self.seconds = 0.0

    def requests(self, table: Table, lake: Lake) -> Iterator[dg.RunRequest]:
        """Takes the place of what reads the log of a table."""
        self.looked.append(table.name)
        time.sleep(self.seconds)
        yield from ()

    def tick(self) -> list[str]:
        """The tables whose logs a tick reads."""
        self.looked.clear()
        resources: dict[str, Any] = {"lake": self.lake}
        with dg.build_sensor_context(
            self.instance, cursor=self.cursor, repository_def=self.repository, resources=resources
        ) as context:
            self.cursor = self.sensor.evaluate_tick(context).cursor or ""
        return [*self.looked]


@pytest.fixture
def ticks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ticks]:
    monkeypatch.setenv("INCLOAD_HOME", str(tmp_path))
    with dg.DagsterInstance.ephemeral() as instance:
        made = Ticks(tmp_path, instance)
        monkeypatch.setattr(replay_sensor, "replay_requests", made.requests)
        yield made


def test_a_log_is_read_again_when_it_has_got_a_commit(ticks: Ticks) -> None:
    assert ticks.tick() == ["one", "two", "three"]
    assert ticks.tick() == []
    land(ChangeLog(ticks.tables["two"], ticks.lake), {day(1): "a"})
    assert (ticks.tick(), ticks.tick()) == (["two"], [])


def test_a_tick_that_takes_too_long_goes_on_with_the_next_table_in_the_following_one(
    ticks: Ticks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay_sensor, "BUDGET", 0.2)
    ticks.seconds = 0.3
    assert [ticks.tick(), ticks.tick(), ticks.tick(), ticks.tick()] == [["one"], ["two"], ["three"], []]
    land(ChangeLog(ticks.tables["three"], ticks.lake), {day(1): "a"})
    assert ticks.tick() == ["three"]
