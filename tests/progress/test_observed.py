"""What a sensor keeps of each tick: statuses, since when news wait, and how far behind the table is."""

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import dagster as dg
import pytest

from incload_assets.automation import looks, watching
from incload_assets.automation.pace import Pace
from incload_assets.automation.watching import Watching
from incload_assets.change_log.window_records import WindowRecord
from incload_assets.code_location import incremental_definitions
from incload_assets.declaration.source import Source
from incload_assets.declaration.window import window_of
from incload_assets.platform.settings import Settings
from incload_assets.progress.lateness import Lateness
from incload_assets.progress.observed import Observed, observation, observed_in, observed_tables, pass_in
from incload_assets.progress.progress import WindowProgress
from incload_assets.sources.kafka.kafka import Kafka
from incload_assets.sources.kafka.topic import Identity
from incload_assets.sources.kafka.windows import position_of
from tests.support.guest_table import DAYS, NOON, House, guest, house, key
from tests.support.tables import make


def ticks(h: House) -> Callable[[], Observed]:
    """Ticks of one sensor; what it keeps of the table."""
    watching = Watching({h.table: 1})
    repository = incremental_definitions([h.asset], Settings(home=h.root)).get_repository_def()

    def tick() -> Observed:
        for one in watching:
            one.due, one.pace = 0.0, Pace()
        watching.tick(dg.build_sensor_context(h.instance, resources={"lake": h.lake}, repository_def=repository))
        return observed_tables(h.instance, [h.table])["guests"]

    return tick


def at(monkeypatch: pytest.MonkeyPatch, hours: float) -> None:
    """Set the clock to some hours after noon of January 5th."""
    for module in (looks, watching):
        monkeypatch.setattr(module, "now", lambda: NOON + timedelta(hours=hours))


def test_news_wait_since_they_were_first_seen_until_they_are_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with house(tmp_path, Settings(home=tmp_path)) as h:
        tick = ticks(h)
        at(monkeypatch, 0)
        nothing = tick()
        assert (nothing.windows["waiting"], nothing.pending, nothing.oldest) == (4, {}, timedelta(0))
        h.deliver(3, guest("1", day=3))
        at(monkeypatch, 1)
        first = tick()
        at(monkeypatch, 3)
        h.deliver(4, guest("2", day=4))
        second = tick()
        assert list(second.pending) == [key(3), key(4)]
        assert second.oldest == timedelta(hours=2)
        assert second.waiting_bytes > first.waiting_bytes > 0
        assert second.waiting_records is None  # files do not say how many records they hold
        assert (second.verdict, second.overdue) == ("late", 9 * 3600.0)


def test_records_wait_by_topic_partition_beyond_those_that_were_ingested(tmp_path: Path) -> None:
    topic = Identity("cluster", "topic")
    first = position_of(topic, {0: (0, 100), 1: (0, 40)}, closed=True)
    part, whole = (position_of(topic, {0: (100, end)}, closed=False) for end in (150, 180))
    record = WindowRecord(
        fingerprint=part.fingerprint, position=json.dumps(part.detail), summary="", code_version="1", run_id="",
        landing=1, rows_read=50, rejected=0, replaced=0, landed_at=NOON,
    )  # fmt: skip
    windows = [window_of(DAYS, key(number)) for number in (1, 2)]
    progress = [
        WindowProgress(window=windows[0], status="missing", position=first),
        WindowProgress(window=windows[1], status="missing", position=whole, record=record),
    ]
    late = Lateness(verdict="fresh")

    def seen(source: Source) -> Observed:
        return observation(make(None, tmp_path, source=source).table, progress, late, "", {}, None, NOON)  # type: ignore[arg-type]

    found = seen(Kafka("shop", "orders"))
    assert (found.waiting_records, found.waiting_by_part) == (170, {"0": 130, "1": 40})
    assert observed_in(found.as_text()) == found


def test_what_somebody_has_set_is_as_good_as_none() -> None:
    for text in (None, "", "7", "[1]", '{"no": "observation"}', "not JSON"):
        assert (observed_in(text), pass_in(text)) == (None, None)
