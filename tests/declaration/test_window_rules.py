"""Which windows a table may have, and by what paths their files are told apart."""

from collections.abc import Callable
from typing import Any

import dagster as dg
import pytest

from incload_assets.assets import Debezium, Files, Several
from incload_assets.platform.errors import DeclarationError
from tests.support.tables import DAYS, declared

HOURS = dg.HourlyPartitionsDefinition("2026-01-01-00:00")
BERLIN = {"timezone": "Europe/Berlin"}


def windows(cron: str, start: str, fmt: str) -> dg.TimeWindowPartitionsDefinition:
    return dg.TimeWindowPartitionsDefinition(cron_schedule=cron, start=start, fmt=fmt, **BERLIN)


def test_more_windows_than_dagster_bears_well_are_told_once_with_the_remedy(caplog: pytest.LogCaptureFixture) -> None:
    hours = dg.HourlyPartitionsDefinition("2020-01-01-00:00", end_date="2022-04-13-08:00")
    declared(partitions_def=hours)
    assert caplog.messages == []
    declared(partitions_def=dg.HourlyPartitionsDefinition("2020-01-01-00:00", end_date="2022-04-13-09:00"))
    assert caplog.messages == [
        "items: it has 20,001 partitions since 2020-01-01, more than 20,000, and Dagster's pages and each look of its "
        "sensor go through all of them. Remedy: coarser partitions (if it is loaded already, with former_partitions), "
        "or a later start"
    ]


@pytest.mark.parametrize(
    ("partitions_def", "says"),
    [
        (
            dg.HourlyPartitionsDefinition("2026-01-01", fmt="%Y-%m-%d"),
            "has fmt '%Y-%m-%d', which gives consecutive windows the keys '2026-01-01', '2026-01-01', ",
        ),
        (dg.DailyPartitionsDefinition("2026-01", fmt="%Y-%m"), "the keys '2026-01', '2026-01', "),
        (dg.DailyPartitionsDefinition("01-02", fmt="%m-%d"), "the keys '12-30', '12-31', '01-01', "),
        (windows("*/15 * * * *", "2026-01-01-00", "%Y-%m-%d-%H"), "the keys '2026-01-01-00', '2026-01-01-00', "),
        (dg.MonthlyPartitionsDefinition("2026-01-01", end_date="2026-01-01"), "starts at 2026-01-01T00:00:00"),
        (dg.DailyPartitionsDefinition("2026-01-01", end_date="2025-01-01"), "ends at 2025-01-01T00:00:00+00:00. Rule"),
    ],
)
def test_windows_that_share_a_key_or_do_not_exist_are_refused(
    partitions_def: dg.TimeWindowPartitionsDefinition, says: str
) -> None:
    with pytest.raises(DeclarationError) as refused:
        declared(partitions_def=partitions_def)
    assert str(refused.value).startswith("items: partitions_def ")
    assert says in str(refused.value)
    assert refused.value.remedy


@pytest.mark.parametrize(
    "partitions_def",
    [
        dg.HourlyPartitionsDefinition("2026-03-01-00:00", **BERLIN),
        dg.HourlyPartitionsDefinition("2026-03-01-00:00", timezone="Australia/Lord_Howe"),
        dg.DailyPartitionsDefinition("01.03.2026", fmt="%d.%m.%Y", hour_offset=2, minute_offset=30, **BERLIN),
        dg.WeeklyPartitionsDefinition("2026-01-04", **BERLIN),
        dg.WeeklyPartitionsDefinition("2026-44-1", fmt="%G-%V-%u", day_offset=1),
        dg.MonthlyPartitionsDefinition("2036-01-01", end_offset=1),
        windows("*/15 * * * *", "2026-10-01-00:00", "%Y-%m-%d-%H:%M"),
        windows("0 0 * * 1-5", "2026-01-01", "%Y-%m-%d"),
        windows("0 0 1 1 *", "2026", "%Y"),
    ],
)
def test_windows_of_any_length_and_zone_with_keys_of_their_own_are_accepted(
    partitions_def: dg.TimeWindowPartitionsDefinition,
) -> None:
    declared(partitions_def=partitions_def, source=Files("{landing}/items/*.json"))


@pytest.mark.parametrize(
    ("partitions_def", "path", "says"),
    [
        (
            DAYS,
            "{window:%Y-%m-%d-%H}.json",
            "path names %H of the start of a window, which is the same for all windows",
        ),
        (DAYS, "{window:%Y-%m-%d}/{window:%H%M}/*.json", "path names %H%M of"),
        (HOURS, "{window:%Y-%m-%dT%H:%M}.json", "path names %M of"),
        (dg.WeeklyPartitionsDefinition("2026-01-04", **BERLIN), "{window:%Y-%m-%dT%H}.json", "path names %H of"),
        (
            dg.DailyPartitionsDefinition("2026-01-01", hour_offset=1, **BERLIN),
            "{window:%Y-%m-%dT%H}.json",
            "path names %H of",
        ),
        (DAYS, "{window:%Y-%m}.json", "path reads the same for the windows 2026-01-01 and 2026-01-02"),
        (HOURS, "{window:%Y-%m-%d}.json", "path reads the same for the windows 2026-01-01-00:00 and 2026-01-01-01:00"),
    ],
)
@pytest.mark.parametrize(
    ("source", "place"),
    [
        (Files, "items: source: "),
        (lambda path: Debezium(Files(path), table="public.items", keys=["id"]), "items: source: "),
        (lambda path: Several({"a": Files("{landing}/*.json"), "b": Files(path)}), "items@b: source: "),
    ],
    ids=["Files", "Debezium", "Several"],
)
def test_a_path_that_tells_less_than_the_window_of_a_file_or_more_is_refused(
    source: Callable[[str], Any], place: str, partitions_def: dg.TimeWindowPartitionsDefinition, path: str, says: str
) -> None:
    with pytest.raises(DeclarationError) as refused:
        declared(partitions_def=partitions_def, source=source("{landing}/items/" + path))
    assert str(refused.value).startswith(place + says)
    assert refused.value.remedy


def hourly(zone: str) -> dg.TimeWindowPartitionsDefinition:
    return dg.HourlyPartitionsDefinition("2026-01-01-00:00", timezone=zone)


@pytest.mark.parametrize(
    ("partitions_def", "fields"),
    [
        (hourly("Europe/Berlin"), "%Y-%m-%dT%H"),
        (hourly("America/New_York"), "%Y-%m-%d/%H"),
        (hourly("Australia/Lord_Howe"), "%Y-%m-%dT%H"),  # where clocks are turned back by half an hour
        (windows("*/15 * * * *", "2026-10-01-00:00", "%Y-%m-%d-%H:%M"), "%Y-%m-%dT%H%M"),
    ],
)
def test_an_hour_that_comes_twice_is_no_name_of_a_window(
    partitions_def: dg.TimeWindowPartitionsDefinition, fields: str
) -> None:
    def accept(partitions_def: dg.TimeWindowPartitionsDefinition, path: str) -> None:
        declared(partitions_def=partitions_def, source=Files("{landing}/items/" + path + ".json"))

    with pytest.raises(
        DeclarationError, match=r"has the same hour twice. Remedy: write \{window_utc:...\} in the path for"
    ):
        accept(partitions_def, f"{{window:{fields}}}")
    accept(partitions_def, f"{{window_utc:{fields}}}")
    day = fields.partition("%d")[0] + "%d"
    zone, start = partitions_def.timezone, "2026-01-01"
    accept(dg.DailyPartitionsDefinition(start, timezone=zone), f"{{window:{day}}}{fields.removeprefix(day)[0]}*")
    if "%M" not in fields:
        accept(hourly("UTC"), f"{{window:{fields}}}")


@pytest.mark.parametrize("zone", ["Asia/Kolkata", "Asia/Tokyo", "UTC"])
def test_hours_of_a_zone_that_never_turns_its_clocks_are_names_of_windows(zone: str) -> None:
    declared(partitions_def=hourly(zone), source=Files("{landing}/items/{window:%Y-%m-%dT%H}.json"))


@pytest.mark.parametrize(
    ("partitions_def", "path"),
    [
        (HOURS, "{window:%Y-%m-%dT%H}00.json"),
        (dg.MonthlyPartitionsDefinition("2026-01-01"), "{window:%Y-%m-%d}.json"),
        (dg.WeeklyPartitionsDefinition("2026-01-04"), "{window:%Y-%m-%d}/*.json"),
        (windows("0 */6 * * *", "2026-01-01-00", "%Y-%m-%d-%H"), "{window:%Y-%m-%d-%H}.json"),
        # where summer time begins two days begin within one day of UTC
        (dg.DailyPartitionsDefinition("2026-01-01", hour_offset=1, **BERLIN), "{window_utc:%Y-%m-%dT%H}.json"),
    ],
)
def test_a_path_with_what_tells_windows_apart_and_the_date_of_a_longer_one_is_accepted(
    partitions_def: dg.TimeWindowPartitionsDefinition, path: str
) -> None:
    declared(partitions_def=partitions_def, source=Files("{landing}/items/" + path))
