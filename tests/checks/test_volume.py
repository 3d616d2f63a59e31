"""Volume: unusual windows are told from Sundays, open days and short histories."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest

from incload_assets.change_log.window_records import WindowRecord
from incload_assets.checks.observation import Observation
from incload_assets.checks.volume import Expected, expected_rows, volume
from incload_assets.declaration.source import Position
from incload_assets.declaration.window import Window, window_of
from incload_assets.platform.settings import Settings
from incload_assets.progress.progress import SourceState, progress_from
from tests.support.guest_table import House, house

MONDAY = datetime(2026, 1, 5, tzinfo=UTC)
WEEK = [100, 110, 90, 105, 95, 60, 20]
"""Rows from Monday to Sunday."""


def days(sizes: list[int], start: datetime = MONDAY) -> list[tuple[Window, int]]:
    """Daily windows with their rows."""
    day = timedelta(days=1)
    bounds = [(start + n * day, start + (n + 1) * day) for n in range(len(sizes))]
    return [(Window(b, e, f"{b:%Y-%m-%d}"), rows) for (b, e), rows in zip(bounds, sizes, strict=True)]


def loaded(h: House, sizes: list[int], now: datetime, *, drifted: int | None = None) -> Observation:
    """A look at a table whose log says how many rows each day had."""
    windows = days(sizes)
    records = {
        window.key: WindowRecord(
            landing=1,
            fingerprint=window.key,
            position="{}",
            summary="",
            code_version="1",
            run_id="",
            landed_at=window.end,
            rows_read=rows,
            rejected=0,
            replaced=0,
            partitions=[],
            first_sequence=None,
        )
        for window, rows in windows
    }
    positions = {key: Position(key if n != drifted else "changed") for n, key in enumerate(records)}
    state = SourceState([window for window, _ in windows], positions, records)
    return Observation(h.table, h.lake, h.instance, now, state, progress_from(h.instance, h.table, state))


def verdicts(result: dg.AssetCheckResult) -> list[tuple[object, object]]:
    table = result.metadata["windows"]
    assert isinstance(table, dg.TableMetadataValue)
    return [(r.data["window"], r.data["verdict"]) for r in table.records]


@pytest.mark.parametrize("weeks", [1, 2, 3, 4, 8, 20])
def test_a_quiet_sunday_is_usual_from_the_second_week_on(weeks: int) -> None:
    *history, (sunday, rows) = days(WEEK * (weeks + 1))
    expected = expected_rows(sunday, history)
    assert expected is not None
    assert expected.low <= rows <= expected.high


def test_sundays_are_compared_with_sundays_once_there_are_four() -> None:
    *history, (sunday, _) = days(WEEK * 5)
    expected = expected_rows(sunday, history)
    assert expected is not None
    assert (round(expected.low), round(expected.high)) == (7, 33)  # 20 +- 3 standard deviations of a Poisson count
    assert (expected.typical, expected.basis) == (20, "4 Sundays before")


def test_a_sunday_with_the_rows_of_a_monday_is_too_many(tmp_path: Path, spark_settings: Settings) -> None:
    with house(tmp_path, spark_settings) as h:
        odd = volume(loaded(h, [*WEEK * 4, *WEEK[:6], 100], MONDAY + timedelta(weeks=5)))
        assert (odd.passed, odd.severity) == (False, dg.AssetCheckSeverity.WARN)
        assert verdicts(odd) == [("2026-02-06", "usual"), ("2026-02-07", "usual"), ("2026-02-08", "too many")]
        assert odd.description == (
            "2026-02-08 has 100 rows; usual are 7 to 33 (typically 20, 4 Sundays before). What to do: ask the "
            "source's owner whether this is real; replace a file that was truncated or sent twice."
        )


def test_a_day_that_was_cut_short_or_is_empty_is_too_few(tmp_path: Path, spark_settings: Settings) -> None:
    with house(tmp_path, spark_settings) as h:
        sizes = [*WEEK * 4, 0, 30, 90]
        assert verdicts(volume(loaded(h, sizes, MONDAY + timedelta(weeks=5)))) == [
            ("2026-02-02", "too few"),
            ("2026-02-03", "too few"),
            ("2026-02-04", "usual"),
        ]


def test_the_open_day_and_a_day_about_to_be_loaded_again_are_not_validated(
    tmp_path: Path, spark_settings: Settings
) -> None:
    with house(tmp_path, spark_settings) as h:
        sizes = [*WEEK * 2, 1]
        during_the_last_day = MONDAY + timedelta(weeks=2, hours=3)
        assert volume(loaded(h, sizes, during_the_last_day)).passed is True
        after_it = MONDAY + timedelta(weeks=2, days=1)
        assert volume(loaded(h, sizes, after_it)).passed is False
        assert volume(loaded(h, sizes, after_it, drifted=14)).passed is True


def test_a_short_history_passes_with_a_note(tmp_path: Path, spark_settings: Settings) -> None:
    with house(tmp_path, spark_settings) as h:
        short = volume(loaded(h, [100, 100, 100, 100, 100, 100, 1], MONDAY + timedelta(weeks=1)))
        assert (short.passed, short.description) == (
            True,
            "Too little history for a comparison: 7 closed windows loaded, 8 are needed.",
        )


def test_a_day_is_compared_with_the_days_of_its_name_where_it_is_one() -> None:
    london = dg.DailyPartitionsDefinition("2026-03-02", timezone="Europe/London")  # summer time begins on the 29th
    keys = london.get_partition_keys(current_time=datetime(2026, 4, 7, 12, tzinfo=UTC))
    history = [(window_of(london, key), 10 if number % 7 == 6 else 1000) for number, key in enumerate(keys)]
    assert history[-1][0].key == "2026-04-06"
    expected = expected_rows(history[-1][0], history[:-1])
    assert expected == Expected(low=500.0, high=1500.0, typical=1000, basis="5 Mondays before")


def test_hours_are_compared_with_the_same_hour() -> None:
    hour = timedelta(hours=1)
    sizes = [1000 if n % 24 == 9 else 10 for n in range(24 * 6)]
    history = [
        (Window(MONDAY + n * hour, MONDAY + (n + 1) * hour, str(n)), rows) for n, rows in enumerate(sizes[: 24 * 5 + 9])
    ]
    nine = Window(MONDAY + (24 * 5 + 9) * hour, MONDAY + (24 * 5 + 10) * hour, "nine")
    expected = expected_rows(nine, history)
    assert expected == Expected(low=500.0, high=1500.0, typical=1000, basis="5 days at 09:00")
