"""What is not loaded, against how long the source keeps it."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest

from incload_assets.checks.headroom import headroom
from incload_assets.checks.observation import Observation
from incload_assets.declaration.source import Position, RetentionMargin
from incload_assets.declaration.window import Window
from incload_assets.platform.errors import SourceUnreadable
from incload_assets.platform.lake import Lake
from incload_assets.progress.progress import SourceState, Status, WindowProgress
from incload_assets.trial.literal_source import LiteralSource
from tests.support.tables import day, make

START = datetime(2026, 1, 1, tzinfo=UTC)
WEEK = timedelta(days=7)


class Forgetful(LiteralSource):
    """It keeps rows for a week from the start of their window on, and something reads it, or not, or nobody knows."""

    read: bool | None = None
    kept: int | None = None

    def headroom(self, table: str, positions: Mapping[Window, Position], now: datetime) -> list[RetentionMargin]:
        removed = min((window.start for window in positions), default=now) + WEEK
        return [RetentionMargin("the log ends some day", (removed - now) / WEEK, self.read, removed, self.kept)]


class Unread(Forgetful):
    read, kept = False, 48_000_000


class Silent(LiteralSource):
    """It does not say for how long."""

    def headroom(self, table: str, positions: Mapping[Window, Position], now: datetime) -> list[RetentionMargin]:
        raise SourceUnreadable(f"{table}: the topic is refused", remedy="allow it")


def seen(
    folder: Path, after: timedelta, source: LiteralSource, *states: Status, trouble: str | None = None
) -> Observation:
    """A look, so long after the first of some daily windows began."""
    progress = []
    for number, status in enumerate(states):
        begin = START + timedelta(number)
        window = Window(begin, begin + timedelta(days=1), day(number + 1))
        progress.append(WindowProgress(window=window, status=status, position=Position("p")))
    table = make(None, folder, source=source).table  # type: ignore[arg-type]
    with dg.DagsterInstance.ephemeral() as instance:
        return Observation(
            table, Lake(str(folder)), instance, START + after, SourceState([], {}, {}), progress, trouble
        )


@pytest.mark.parametrize(
    ("after", "passed", "severity", "left", "said"),
    [
        (WEEK * 0.7, True, "WARN", "3 days 2 hours", "2 windows not loaded; the log ends some day."),
        (WEEK, False, "WARN", "1 day", "2 windows not loaded; the log ends some day. What to do: load the remaining "),
        (WEEK * 1.5, False, "ERROR", "0 seconds", "the log ends some day. What to do: have the lost data sent "),
    ],
)
def test_what_is_not_loaded_is_told_before_the_source_removes_it(
    tmp_path: Path, after: timedelta, passed: bool, severity: str, left: str, said: str
) -> None:
    found = headroom(seen(tmp_path, after, Forgetful({}), "loaded", "failed", "missing"))
    assert (found.passed, found.severity.value) == (passed, severity)
    assert said in (found.description or "")
    assert (found.metadata["windows_not_loaded"].value, found.metadata["time_left"].value) == (2, left)


def test_a_log_that_nothing_reads_is_told_although_everything_in_the_topic_is_loaded(tmp_path: Path) -> None:
    found = headroom(seen(tmp_path, WEEK, Unread({}), "loaded"))
    assert (found.passed, found.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert found.metadata["bytes_kept"].value == 48_000_000
    assert (found.description or "").startswith("Everything that the source holds is loaded; the log ends some day. ")


def test_nothing_is_said_where_all_is_loaded_or_nothing_is_removed(tmp_path: Path) -> None:
    late = WEEK * 2
    loaded = headroom(seen(tmp_path, late, LiteralSource({}), "loaded", "loaded"))
    kept = headroom(seen(tmp_path, late, LiteralSource({}), "missing"))
    assert (loaded.passed, loaded.description) == (True, "Everything that the source holds is loaded.")
    said = "1 window not loaded; the source removes no data because of its age."
    assert (kept.passed, kept.description) == (True, said)


def test_a_source_that_does_not_answer_or_does_not_tell_says_so(tmp_path: Path) -> None:
    down = headroom(seen(tmp_path, WEEK, Forgetful({}), "missing", trouble="it is down"))
    silent = headroom(seen(tmp_path, WEEK, Silent({}), "missing"))
    assert (down.passed, down.description) == (False, "The source could not be checked: it is down")
    assert silent.passed
    assert (silent.description or "").startswith("How much longer the source keeps unloaded data is unknown: ")
