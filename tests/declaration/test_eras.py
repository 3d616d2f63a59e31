"""Former partitions definitions: what they may be, and which windows they leave."""

from typing import Any

import dagster as dg
import pytest

from incload_assets.assets import Changes, Era, FullReload
from incload_assets.assets.incremental import table_of
from incload_assets.declaration.contract_of import stored_as
from incload_assets.declaration.table import Table
from incload_assets.load.range_fences import range_app_id
from incload_assets.platform.errors import DeclarationError, IncrementalLoadError
from incload_assets.sources.files.files import Files
from incload_assets.trial.literal_source import LiteralSource
from tests.support.tables import DAYS, Item, declared

HOURS = dg.HourlyPartitionsDefinition("2026-01-03-00:00")
UNTIL = "2026-01-03T00:00Z"


def table(*eras: Any, present: dg.PartitionsDefinition = HOURS, **options: Any) -> Table:
    usual = {"source": LiteralSource(), "contract": Item, "partitions_def": present, "former_partitions": eras}
    found = table_of(declared(**usual | options))
    assert found is not None
    return found


def test_windows_of_an_era_are_closed_and_end_by_its_end() -> None:
    changed = table(Era(DAYS, UNTIL))
    assert list(changed.closed) == ["2026-01-01", "2026-01-02"]
    assert [w.key for w in changed.known_windows(["2026-01-03-01:00", "2026-01-02", "2026-01-03", "x"])] == [
        "2026-01-02",
        "2026-01-03-01:00",
    ]
    assert changed.window_of("2026-01-03-00:00").end.hour == 1
    with pytest.raises(IncrementalLoadError, match="items: '2026-01-01': closed, a window of the former partitions"):
        changed.window_of("2026-01-01")


def test_an_era_may_end_and_the_next_one_start_in_the_hour_that_the_clock_repeats() -> None:
    berlin = dg.HourlyPartitionsDefinition("2026-10-24-22:00", timezone="Europe/Berlin")
    at = "2026-10-25T02:00+01:00"
    leaving = table(Era(berlin, at), present=dg.HourlyPartitionsDefinition("2026-10-25T01:00", fmt="%Y-%m-%dT%H:%M"))
    assert len(leaving.closed) == 5
    assert list(leaving.closed.values())[-1].end.isoformat() == "2026-10-25T01:00:00+00:00"


def test_the_property_names_all_definitions_and_begins_with_the_former_property() -> None:
    before = stored_as(table(present=DAYS)).properties["incload.windows"]
    after = stored_as(table(Era(DAYS, UNTIL))).properties["incload.windows"]
    assert after == f"{before} until 2026-01-03T00:00:00+00:00; 0 * * * * UTC %Y-%m-%d-%H:%M"


def test_ranges_of_two_eras_have_different_fences() -> None:
    before, after = table(present=DAYS), table(Era(DAYS, UNTIL))
    old, new = before.window_of("2026-01-01"), after.window_of("2026-01-03-00:00")
    assert range_app_id(before, old) == range_app_id(after, old) == "items/range 0"
    assert range_app_id(after, new) == "items/range 1.0"


def test_several_eras_follow_each_other_and_lead_from_days_of_one_zone_to_days_of_another() -> None:
    between = dg.HourlyPartitionsDefinition("2026-01-03-00:00")
    berlin = dg.DailyPartitionsDefinition("2026-01-04", timezone="Europe/Berlin")
    found = table(Era(DAYS, UNTIL), Era(between, "2026-01-04T00:00+01:00"), present=berlin)
    assert len(found.closed) == 2 + 23
    assert found.era_of(found.window_of("2026-01-04"))[0] == 2
    assert found.era_of(found.closed["2026-01-03-22:00"])[0] == 1


WRONG: dict[str, tuple[tuple[Any, ...], dg.PartitionsDefinition, str]] = {
    "a gap": ((Era(DAYS, "2026-01-02T00:00Z"),), HOURS, "starts at 2026-01-03T00:00.*: there is a gap"),
    "an overlap": ((Era(DAYS, "2026-01-04T00:00Z"),), HOURS, "starts at 2026-01-03T00:00.*: there is an overlap"),
    "no bound of a window": ((Era(DAYS, "2026-01-03T01:00Z"),), HOURS, "no window of .* ends then"),
    "before the first window": ((Era(DAYS, "2026-01-01T00:00Z"),), HOURS, "no window of .* ends then"),
    "no offset": ((Era(DAYS, "2026-01-03T00:00"),), HOURS, r"former_partitions\[0\]: until is '2026-01-03T00:00'"),
    "no instant": ((Era(DAYS, "tomorrow"),), HOURS, "until is 'tomorrow'"),
    "no era": ((DAYS,), HOURS, "former_partitions is "),
    "an end of the former definition": (
        (Era(dg.DailyPartitionsDefinition("2026-01-01", end_date="2026-01-02"), UNTIL),),
        HOURS,
        "its partitions_def ends at 2026-01-02",
    ),
    "days of another zone": (
        (Era(DAYS, UNTIL),),
        dg.DailyPartitionsDefinition("2026-01-03", timezone="Europe/Berlin"),
        "there is an overlap",
    ),
    "a key of two windows": (
        (Era(dg.HourlyPartitionsDefinition("2026-01-01-00:00"), UNTIL),),
        dg.HourlyPartitionsDefinition("2026-01-02-19:00", timezone="America/New_York"),
        "'2026-01-02-..:00' is the key of a window of a former definition",
    ),
    "no time windows": ((Era(dg.StaticPartitionsDefinition(["a"]), UNTIL),), HOURS, "partitioned by time"),
}


@pytest.mark.parametrize(("eras", "present", "message"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_former_definition_fails_when_the_module_is_imported(
    eras: tuple[Any, ...], present: dg.PartitionsDefinition, message: str
) -> None:
    with pytest.raises(DeclarationError, match=message):
        table(*eras, present=present)


def test_keys_of_another_format_tell_two_windows_apart() -> None:
    present = dg.HourlyPartitionsDefinition("2026-01-02T19", timezone="America/New_York", fmt="%Y-%m-%dT%H")
    hours = dg.HourlyPartitionsDefinition("2026-01-01-00:00")
    assert len(table(Era(hours, UNTIL), present=present).closed) == 48


def test_a_table_whose_windows_hold_all_of_it_needs_no_former_definitions() -> None:
    with pytest.raises(DeclarationError, match="each window of this table holds all of it"):
        table(Era(DAYS, UNTIL), write=FullReload(), changes=Changes())


def test_the_source_of_former_windows_is_given_if_the_present_one_cannot_be_asked() -> None:
    hourly = Files("{landing}/items/{window:%Y-%m-%d-%H}/*.json")
    with pytest.raises(DeclarationError, match="the present source cannot be asked for windows of this definition"):
        table(Era(DAYS, UNTIL), source=hourly)
    daily = Files("{landing}/items/{window:%Y-%m-%d}/*.json")
    assert table(Era(DAYS, UNTIL, source=daily), source=hourly).closed
