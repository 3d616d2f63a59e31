"""Ticks of one sensor over several tables."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from threading import Event
from typing import Any

import dagster as dg
import pytest

from incload_assets.assets.incremental import table_of
from incload_assets.automation import looks, news, watching
from incload_assets.automation.pace import Pace
from incload_assets.automation.watching import Watching
from incload_assets.code_location import incremental_definitions
from incload_assets.declaration.source import Position
from incload_assets.declaration.table import Table
from incload_assets.platform.errors import SourceUnavailable
from incload_assets.platform.settings import Settings
from incload_assets.progress.progress import source_state
from incload_assets.trial.literal_source import LiteralSource
from tests.support.workshop import Workshop, partitions


class HangingSource(LiteralSource):
    """A source that answers when it is let."""

    answers: Event

    def detect(self, request: object) -> dict[str, Position]:
        """Waits; then nothing."""
        self.answers.wait(60)
        return {}


class SilentSource(LiteralSource):
    """A source that is down."""

    def detect(self, request: object) -> dict[str, Position]:
        """Raises."""
        raise SourceUnavailable("the shop's database does not answer", rule="it answers", remedy="start it")


def named(asset: dg.AssetsDefinition) -> Table:
    table = table_of(asset)
    assert table is not None
    return table


@dataclass
class Tower:
    """Ticks of one sensor over several tables, in one process."""

    workshop: Workshop
    assets: list[dg.AssetsDefinition]
    looked: list[str] = field(default_factory=list)
    cursor: str | None = None

    def __post_init__(self) -> None:
        self.tables = [named(asset) for asset in self.assets]
        self.watching = Watching(dict.fromkeys(self.tables, 32))
        self.repository = incremental_definitions(self.assets, Settings()).get_repository_def()

    def tick(self) -> Any:
        """A tick at which every table is due, and nothing keeps the sensor from a look at everything."""
        for one in self.watching:
            one.due, one.pace = 0.0, Pace()
        return self.paced()

    def paced(self) -> Any:
        """A tick."""
        self.looked.clear()
        with dg.build_sensor_context(
            instance=self.workshop.instance,
            repository_def=self.repository,
            cursor=self.cursor,
            resources={"lake": self.workshop.lake},
        ) as context:
            result = self.watching.tick(context)
            self.cursor = context.cursor
        return result

    def requests(self) -> list[str]:
        """The partitions that a tick requests."""
        result = self.tick()
        return partitions(list(result.run_requests or [])) if isinstance(result, dg.SensorResult) else []


@pytest.fixture
def towers(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Tower]]:
    made: list[Tower] = []

    def counted(table: Table, *arguments: Any) -> Any:
        made[-1].looked.append(table.name)
        return source_state(table, *arguments)

    monkeypatch.setattr(looks, "source_state", counted)
    monkeypatch.setattr(news, "CLOCKS", timedelta(0))  # there is one clock
    for limit in ("PATIENCE", "BUDGET"):  # a look may take long beside other tests
        monkeypatch.setattr(watching, limit, 60.0)

    def make(*others: dg.AssetsDefinition) -> Tower:
        made.append(Tower(workshop, [workshop.asset, *others]))
        return made[-1]

    yield make
