"""The windows of a definition at an instant, which tables with equal definitions share."""

from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest

from incload_assets.declaration import window
from incload_assets.declaration.window import windows_at

START, BERLIN = "2026-03-27", {"timezone": "Europe/Berlin"}


def cron(schedule: str, **options: object) -> dg.TimeWindowPartitionsDefinition:
    fmt = "%Y-%m-%d-%H:%M"
    return dg.TimeWindowPartitionsDefinition(cron_schedule=schedule, start=f"{START}-00:00", fmt=fmt, **options)  # type: ignore[arg-type]


DEFINITIONS = [
    dg.HourlyPartitionsDefinition(f"{START}-00:00"),
    dg.HourlyPartitionsDefinition(f"{START}-00:00", **BERLIN),
    dg.HourlyPartitionsDefinition("2026-10-24-00:00", **BERLIN),
    dg.HourlyPartitionsDefinition("2026-10-24-00:00+0200", fmt="%Y-%m-%d-%H:%M%z", end_offset=1, **BERLIN),
    dg.HourlyPartitionsDefinition("2026-04-04-00:00", timezone="Australia/Lord_Howe", minute_offset=15),
    dg.HourlyPartitionsDefinition("2026-03-27-00", fmt="%Y-%m-%d-%H", minute_offset=30),
    dg.DailyPartitionsDefinition(START, **BERLIN),
    dg.DailyPartitionsDefinition(START, end_offset=2),
    dg.DailyPartitionsDefinition(START, end_offset=-2),
    dg.DailyPartitionsDefinition(START, end_date="2026-04-02"),
    dg.DailyPartitionsDefinition("27.03.2026", fmt="%d.%m.%Y", hour_offset=2, minute_offset=30, **BERLIN),
    dg.DailyPartitionsDefinition(START, exclusions=["0 0 * * 0", datetime(2026, 3, 31, tzinfo=UTC)]),
    dg.WeeklyPartitionsDefinition(START, **BERLIN),
    dg.MonthlyPartitionsDefinition(START, end_offset=1),
    cron("*/15 * * * *", **BERLIN),
    cron("0 */5 * * *", **BERLIN),
    cron("0 6,18 * * 1-5", end_offset=1, **BERLIN),
]


@pytest.mark.parametrize("definition", DEFINITIONS, ids=str)
def test_windows_are_those_of_dagster_at_any_instant_in_any_order(
    definition: dg.TimeWindowPartitionsDefinition,
) -> None:
    first = definition.start.astimezone(UTC)
    for hours in [3, 0, 50, 53.5, 49, 70, 400, 51.25, -1, 399]:
        at = first + timedelta(hours=hours)
        keys = definition.get_partition_keys(current_time=at)
        bounds = definition.time_windows_for_partition_keys(frozenset(keys), validate=False)
        expected = [(b.start.astimezone(UTC), b.end.astimezone(UTC), k) for k, b in zip(keys, bounds, strict=True)]
        assert [(window.start, window.end, window.key) for window in windows_at(definition, at)] == expected


def test_equal_definitions_share_their_windows_until_one_is_added() -> None:
    one, other = (dg.HourlyPartitionsDefinition(f"{START}-00:00") for _ in range(2))
    at = datetime(2026, 3, 28, 12, 30, tzinfo=UTC)
    found = windows_at(one, at)
    assert windows_at(other, at + timedelta(minutes=29))[-1] is found[-1]
    assert windows_at(other, at + timedelta(minutes=30))[-2] == found[-1]


def test_definitions_that_start_at_different_times_share_their_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window, "_kept", {})
    at, days = datetime(2026, 3, 30, tzinfo=UTC), [28, 29, 26, 27]
    definitions = [dg.HourlyPartitionsDefinition(f"2026-03-{day}-00:00") for day in days]
    found = [windows_at(definition, at) for definition in definitions]
    assert [(len(windows), windows[0].start.day) for windows in found] == [(48, 28), (24, 29), (96, 26), (72, 27)]
    [(_, kept)] = window._kept.values()
    assert len(kept) == 96
    monkeypatch.setattr(window, "_windows_until", None)  # nothing is computed again
    assert [windows_at(definition, at) for definition in definitions] == found
    assert len(windows_at(definitions[0], at - timedelta(hours=5))) == 43


def test_no_more_windows_are_kept_than_a_process_bears(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window, "KEPT", 100)
    monkeypatch.setattr(window, "_kept", {})
    at, zones = datetime(2026, 3, 28, tzinfo=UTC), ["UTC", "Etc/GMT+1", "Etc/GMT+2", "Etc/GMT-1"]
    definitions = [dg.HourlyPartitionsDefinition("2026-03-26-12:00", timezone=zone) for zone in zones]
    found = [windows_at(definition, at) for definition in definitions]
    assert [len(windows) for windows in found] == [36, 35, 34, 37]
    assert windows_at(definitions[-1], at)[0] is found[-1][0]
    assert windows_at(definitions[0], at) == found[0]
    assert sum(len(kept) for _, kept in window._kept.values()) <= 100
