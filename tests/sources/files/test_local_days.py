"""Files of days that are days somewhere: the fields of a path are in the time zone of the table's partitions."""

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from incload_assets.assets import Append, Changes, Debezium, Files, Merge, Several
from incload_assets.automation.window_requests import look
from incload_assets.change_log.context import LoadContext
from incload_assets.declaration.source import Source
from incload_assets.declaration.window import window_of
from incload_assets.load.ranges import load_first_windows
from incload_assets.platform.errors import SchemaMismatch
from incload_assets.progress.status import table_status
from tests.support.detection import detected
from tests.support.files import keys, write
from tests.support.tables import Loaded, declared, make

BERLIN = dg.DailyPartitionsDefinition("2026-03-20", timezone="Europe/Berlin", end_date="2026-04-03")
LOCAL = Files("{landing}/items/{window:%Y-%m-%d}.csv")
IN_UTC = Files("{landing}/items/{window_utc:%Y-%m-%d}.csv")
"""As every path was read once, before there was a choice."""
NOW = datetime(2026, 4, 3, 12, tzinfo=UTC)

Declare = Callable[..., Loaded]


@pytest.fixture
def landing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files of six days; each has one row, its name."""
    root = tmp_path / "landing"
    monkeypatch.setenv("INCLOAD_LANDING", str(root))
    for day in (f"2026-03-{number}" for number in range(24, 30)):
        write(root / f"items/{day}.csv", f"id,value,seq\n{day},{day},1\n")
    return root


@pytest.fixture
def a_table(spark: SparkSession, tmp_path: Path, landing: Path) -> Declare:
    """Declares one table over those files, in whatever way."""

    def declare(source: Source, **options: Any) -> Loaded:
        usual = {"partitions_def": BERLIN, "changes": Changes(keys=["id"], sequence_by=["seq"]), "code_version": None}
        return make(spark, tmp_path / "lake", source=source, **(usual | options))

    return declare


@pytest.mark.parametrize(
    ("partitions_def", "key", "path", "name"),
    [
        (BERLIN, "2026-03-26", "%Y-%m-%d", "2026-03-26"),
        (BERLIN, "2026-03-29", "%Y-%m-%d", "2026-03-29"),  # a day of 23 hours
        (BERLIN, "2026-03-26", "%Y/%j", "2026/085"),
        (dg.WeeklyPartitionsDefinition("2026-03-02", day_offset=1, timezone="Europe/Berlin"), "2026-03-23",
         "%G-W%V", "2026-W13"),
        (dg.MonthlyPartitionsDefinition("2026-01-01", timezone="Europe/Berlin"), "2026-03-01", "%Y-%m", "2026-03"),
        (dg.DailyPartitionsDefinition("2026-01-01", timezone="America/New_York"), "2026-03-26", "%Y%m%d", "20260326"),
        (dg.DailyPartitionsDefinition("2026-01-01", timezone="Asia/Kolkata"), "2026-03-26", "%Y-%m-%d", "2026-03-26"),
        (dg.DailyPartitionsDefinition("2026-01-01", timezone="Pacific/Kiritimati"), "2026-03-26", "%Y-%m-%d",
         "2026-03-26"),
        # days that begin at one o'clock, because clocks are set at midnight
        (dg.DailyPartitionsDefinition("2026-01-01", timezone="America/Havana"), "2026-03-08", "%Y-%m-%d", "2026-03-08"),
        (dg.DailyPartitionsDefinition("2026-01-01", timezone="Africa/Cairo"), "2026-04-24", "%Y-%m-%d", "2026-04-24"),
        (dg.DailyPartitionsDefinition("2026-01-01", timezone="Atlantic/Azores"), "2026-03-29", "%Y-%m-%d",
         "2026-03-29"),
        (dg.DailyPartitionsDefinition("2026-01-01", hour_offset=3, timezone="Europe/Berlin"), "2026-03-26",
         "%Y-%m-%d", "2026-03-26"),
        (dg.DailyPartitionsDefinition("2026-01-01", hour_offset=2, minute_offset=30, timezone="Europe/Berlin"),
         "2026-03-29", "%Y-%m-%d", "2026-03-29"),  # there is no half past two that night
        (dg.HourlyPartitionsDefinition("2026-03-01-00:00", timezone="Asia/Kolkata"), "2026-03-26-01:00",
         "%Y-%m-%dT%H", "2026-03-26T01"),
    ],
)  # fmt: skip
def test_a_window_has_the_files_that_are_named_by_its_start_in_the_zone_of_its_partitions(
    landing: Path, partitions_def: dg.TimeWindowPartitionsDefinition, key: str, path: str, name: str
) -> None:
    source = Files(f"{{landing}}/at/{{window:{path}}}.csv")
    declared(partitions_def=partitions_def, source=source)
    write(landing / f"at/{name}.csv", "id\n1\n")
    every = partitions_def.get_partition_keys(current_time=datetime(2026, 6, 1, tzinfo=UTC))
    found = detected(source, "items", [window_of(partitions_def, each) for each in every], {})
    assert {window: keys(position) for window, position in found.items()} == {key: [f"at/{name}.csv"]}


def test_a_path_can_be_in_utc_all_the_same(landing: Path) -> None:
    found = detected(IN_UTC, "items", [window_of(BERLIN, "2026-03-26")], {})
    assert keys(found["2026-03-26"]) == ["items/2026-03-25.csv"]


def test_each_day_is_loaded_with_the_file_of_its_name(a_table: Declare) -> None:
    table = a_table(LOCAL)
    assert [record.summary for record in (table.load("2026-03-26").record, table.load("2026-03-29").record)] == [
        "1 file, 37 B"
    ] * 2
    assert table.rows("id") == {("2026-03-26",), ("2026-03-29",)}
    assert sorted(table.log("upsert", "_window", "id")) == [("2026-03-26",) * 2, ("2026-03-29",) * 2]


@pytest.mark.parametrize(
    "around",
    [
        lambda files: files,
        lambda files: Several({"a": files, "b": Files("{landing}/other/*.csv", absent="empty")}),
    ],
    ids=["Files", "Several"],
)
@pytest.mark.parametrize("write", [Merge(), Append()], ids=["merge", "append"])
def test_a_table_whose_files_would_be_of_other_windows_now_is_not_loaded_until_that_is_settled(
    a_table: Declare, spark: SparkSession, around: Callable[[Files], Source], write: Any
) -> None:
    changes = Changes(keys=["id"]) if isinstance(write, Append) else Changes(keys=["id"], sequence_by=["seq"])
    before = a_table(around(IN_UTC), write=write, changes=changes)
    before.load("2026-03-25")
    before.load("2026-03-26")
    rows, versions = before.rows(), before.versions()
    assert {id for id, *_ in rows} == {"2026-03-24", "2026-03-25"}

    after = a_table(around(LOCAL), write=write, changes=changes)
    refused = r"items\S* 2026-03-2[56]: the window holds the file items/2026-03-2[45].csv, .* Europe/Berlin"
    for window in ("2026-03-26", "2026-03-24", "2026-03-27"):  # landed, before what was landed, after it
        with pytest.raises(SchemaMismatch, match=refused):
            after.load(window)
    new = [window_of(BERLIN, f"2026-03-{number}") for number in (27, 28)]
    with pytest.raises(SchemaMismatch, match=refused):
        list(load_first_windows(LoadContext(spark, after.table, after.lake), new, lambda windows: []))
    with dg.DagsterInstance.ephemeral() as instance:
        for looking in (table_status, look):  # of a person, and of the sensor
            with pytest.raises(SchemaMismatch, match=r"Remedy: write \{window_utc:...\} instead of \{window:...\}"):
                looking(instance, after.table, after.lake, NOW)  # type: ignore[operator]
    assert (after.rows(), after.versions()) == (rows, versions)

    kept = a_table(around(IN_UTC), write=write, changes=changes)
    assert not kept.replay(kept.load("2026-03-26")).ingested
    assert kept.rows() == rows
    again = a_table(around(LOCAL), write=write, changes=changes, name="items_by_day")
    again.load("2026-03-25")
    assert again.log("upsert", "_window", "id") == [("2026-03-25", "2026-03-25")]


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("{landing}/turned/{window:%Y-%m-%d}.csv", "{landing}/turned/{window:%Y-%d-%m}.csv"),
        ("{landing}/turned/*.csv", "{landing}/turned/{window:%Y-%m-%d}.csv"),
    ],
    ids=["other fields", "fields at all"],
)
def test_a_path_by_which_files_are_of_other_windows_is_refused(
    a_table: Declare, landing: Path, was: str, now: str
) -> None:
    april = dg.DailyPartitionsDefinition("2026-04-01", end_date="2026-06-01")
    os.utime(write(landing / "turned/2026-04-05.csv", "id,value,seq\na,a,1\n"), (0, 0))
    window = "2026-04-01" if "*" in was else "2026-04-05"
    a_table(Files(was), partitions_def=april).load(window)
    after = a_table(Files(now), partitions_def=april)
    with pytest.raises(SchemaMismatch, match=r"turned/2026-04-05.csv, .* Remedy: restore the path to leave"):
        after.load(window)
    assert a_table(Files(was), partitions_def=april).load(window).evidence.keys == 1


def test_files_that_a_new_path_does_not_know_are_gone_and_their_rows_stay(a_table: Declare, landing: Path) -> None:
    a_table(LOCAL).load("2026-03-26")
    (landing / "items").rename(landing / "things")
    moved = a_table(Files("{landing}/things/{window:%Y-%m-%d}.csv"))
    assert moved.load("2026-03-27").evidence.keys == 1
    assert moved.rows("id") == {("2026-03-26",), ("2026-03-27",)}
    assert moved.load("2026-03-26").record.summary == "1 file, 37 B, 1 more no longer at the source"


def test_a_table_in_utc_reads_its_path_as_it_always_did(a_table: Declare) -> None:
    utc = dg.DailyPartitionsDefinition("2026-03-20", end_date="2026-04-03")
    first = a_table(IN_UTC, partitions_def=utc)
    fingerprint = first.load("2026-03-26").record.fingerprint
    assert a_table(LOCAL, partitions_def=utc).load("2026-03-26").record.fingerprint == fingerprint
    assert first.rows("id") == {("2026-03-26",)}


def test_a_source_around_files_asks_them(landing: Path) -> None:
    around = Debezium(Files("{landing}/items/{window:%Y-%m-%d}.csv"), table="public.items", keys=["id"])
    held = detected(IN_UTC, "items", [window_of(BERLIN, "2026-03-26")], {})
    with pytest.raises(SchemaMismatch, match=r"holds the file items/2026-03-25\.csv"):
        around.check_landed("items", [(window_of(BERLIN, "2026-03-26"), held["2026-03-26"])])
