"""Overwrite, sentence by sentence, on literal rows."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import dagster as dg
import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest
from pyspark.sql import SparkSession

from incload_assets.assets import Changes, Overwrite
from incload_assets.change_log.context import LoadContext
from incload_assets.declaration.table import Quarantine
from incload_assets.declaration.window import Window, window_of
from incload_assets.load.ranges import load_first_windows
from incload_assets.platform.errors import DeclarationError
from incload_assets.platform.settings import Settings
from incload_assets.platform.spark.resource import open_session
from incload_assets.writes.merge_into import app_id
from tests.load.test_load import bins
from tests.support.tables import DatedItem, Item, Loaded, StampedItem, day, item, make
from tests.writes.case_full_reload import held

OF_DAY = Overwrite(partition_by="day")


class KeyedItem(Item):
    """An item with the partition key it belongs to."""

    hour: T.StringType = pa.Field(nullable=False)


def declared(spark: SparkSession, folder: Path, content: dict[str, Any], **options: Any) -> Loaded:
    given = {"contract": DatedItem, "write": OF_DAY, "changes": Changes(), "quarantine": Quarantine(max_share=1.0)}
    return make(spark, folder, content, **(given | options))


def counts(table: Loaded) -> dict[tuple[Any, ...], int]:
    return {row[:2]: n for row, n in held(table)}


def test_a_partition_is_what_its_window_holds_repeats_included(spark: SparkSession, tmp_path: Path) -> None:
    content = {
        day(1): [item("1", "a", 1, day=day(1)), item("1", "a", 1, day=day(1)), item("2", "b", None, day=day(1))],
        day(2): [item("1", "c", 9, day=day(2))],
    }
    table = declared(spark, tmp_path, content)
    assert bins(table.load(1).evidence) == (3, 0, 0, 0)
    table.load(2)
    assert counts(table) == {("1", "a"): 2, ("2", "b"): 1, ("1", "c"): 1}
    second = {file for file in table.files() if day(2) in file}
    content[day(1)] = [item("1", "a", 1, day=day(1)), item("3", "d", 0, day=day(1))]
    merged = table.load(1).merged
    assert (merged.inserted, merged.updated, merged.deleted) == (1, 0, 2)
    assert counts(table) == {("1", "a"): 1, ("3", "d"): 1, ("1", "c"): 1}
    assert second <= table.files()
    content[day(1)] = []
    assert table.load(1).merged.deleted == 2
    assert counts(table) == {("1", "c"): 1}


def test_rows_of_another_window_are_quarantined(spark: SparkSession, tmp_path: Path) -> None:
    rows = [item("1", "a", 1, day=day(1)), item("2", "b", 1, day=day(2)), item("3", "c", 1, day=None)]
    table = declared(spark, tmp_path, {day(1): rows})
    assert bins(table.load(1).evidence) == (1, 0, 0, 2)
    assert counts(table) == {("1", "a"): 1}
    assert table.log("rejected", "id", "_reasons") == [
        ("2", ["day: '2026-01-02' does not lie in the window 2026-01-01"]),
        ("3", ["day: NULL is not allowed"]),
    ]


def test_a_personal_value_of_another_window_is_not_shown(spark: SparkSession, tmp_path: Path) -> None:
    class Born(Item):
        """An item with the day of somebody's birth."""

        born: T.DateType = pa.Field(nullable=False, metadata={"personal": True})

    content = {day(1): [item("1", "a", 1, born="1970-02-03")]}
    table = declared(spark, tmp_path, content, contract=Born, write=Overwrite(partition_by="born"))
    table.load(1)
    assert table.log("rejected", "_reasons") == [(["born: *** does not lie in the window 2026-01-01"],)]


def test_content_that_is_the_same_is_not_written_again(spark: SparkSession, tmp_path: Path) -> None:
    content = {day(1): [item("1", "a", 1, day=day(1)), item("1", "a", 1, day=day(1))]}
    table = declared(spark, tmp_path, content)
    first = table.load(1)
    files = table.files()
    content[day(1)] = [*content[day(1)], item("2", "b", 1, day=day(2))]  # one more row, to quarantine
    again = table.load(1)
    assert (again.ingested, again.committed, again.table_version) == (True, True, first.table_version + 1)
    assert table.files() == files


def test_a_plan_whose_fence_has_moved_is_not_carried_out(spark: SparkSession, tmp_path: Path) -> None:
    content = {day(1): [item("1", "old", 1, day=day(1))]}
    table = declared(spark, tmp_path, content)
    table.load(1)
    context, window = LoadContext(spark, table.table, table.lake), window_of(table.table.partitions_def, day(1))
    table.lake.delta(table.uri).delete()  # type: ignore[union-attr] # so that the plan has something to write
    at = context.read_view((window,), app_id(table.table, window))
    forgotten = OF_DAY.plan(context, at, full=True)
    content[day(1)] = [item("1", "new", 1, day=day(1))]
    table.load(1)
    before = table.files()
    assert OF_DAY.apply(context, at, forgotten) is None
    assert (table.files(), counts(table)) == (before, {("1", "new"): 1})


def test_different_windows_are_replaced_at_once(spark: SparkSession, spark_settings: Settings, tmp_path: Path) -> None:
    content = {day(n): [item("1", "a", n, day=day(n))] for n in (1, 2, 3)}
    table = declared(spark, tmp_path, content)
    table.load(3)

    def load(number: int) -> list[str]:
        said: list[str] = []
        with open_session(spark_settings) as session:
            Loaded(session, table.table, table.lake, content).load(number, info=said.append)
        return said

    with ThreadPoolExecutor(2) as threads:
        said = [line for lines in threads.map(load, (1, 2)) for line in lines]
    assert [line for line in said if "another load" in line] == []
    assert {row[2] for row, _ in held(table)} == {1, 2, 3}


def test_several_windows_are_replaced_in_one_commit(spark: SparkSession, tmp_path: Path) -> None:
    content = {day(n): [item("1", "a", n, day=day(n))] * n for n in (1, 2, 3)}
    table = declared(spark, tmp_path, content | {day(4): []})
    context = LoadContext(spark, table.table, table.lake)
    windows = [window_of(table.table.partitions_def, day(n)) for n in (1, 2, 3, 4)]

    def first(found: Sequence[Window]) -> list[str]:
        return [window.key for window in found]

    loaded = load_first_windows(context, windows, first)
    reports = [report for together in loaded for report in together]
    assert [bins(report.evidence) for report in reports] == [(1, 0, 0, 0), (2, 0, 0, 0), (3, 0, 0, 0), (0, 0, 0, 0)]
    assert [report.merged.inserted for report in reports] == [1, 2, 3, 0]
    assert {row[2]: n for row, n in held(table)} == {1: 1, 2: 2, 3: 3}
    assert len({report.table_version for report in reports}) == 1


def test_an_instant_or_a_date_lies_in_the_window_of_its_time_zone_and_a_string_is_the_key(
    spark: SparkSession, tmp_path: Path
) -> None:
    berlin = dg.DailyPartitionsDefinition("2026-01-01", timezone="Europe/Berlin")
    at = ["2025-12-31T22:59:59.999999Z", "2025-12-31T23:00:00Z", "2026-01-01T22:59:59.999999Z", "2026-01-01T23:00:00Z"]
    stamped = declared(
        spark,
        tmp_path / "stamped",
        {day(1): [item(str(n), "a", 1, at=text) for n, text in enumerate(at)]},
        contract=StampedItem,
        write=Overwrite(partition_by="at"),
        partitions_def=berlin,
    )
    assert bins(stamped.load(1).evidence) == (2, 0, 0, 2)
    assert {row[0] for row, _ in held(stamped)} == {"1", "2"}
    days = [item(str(n), "a", 1, day=text) for n, text in enumerate(["2025-12-31", day(1), day(2)])]
    dated = declared(spark, tmp_path / "dated", {day(1): days}, partitions_def=berlin)
    assert bins(dated.load(1).evidence) == (1, 0, 0, 2)
    assert {row[0] for row, _ in held(dated)} == {"1"}
    hours = dg.HourlyPartitionsDefinition("2026-01-01-00:00")
    key = "2026-01-01-05:00"
    keyed = declared(
        spark,
        tmp_path / "keyed",
        {key: [item("1", "a", 1, hour=key), item("2", "b", 1, hour="2026-01-01-06:00")]},
        contract=KeyedItem,
        write=Overwrite(partition_by="hour"),
        partitions_def=hours,
    )
    assert bins(keyed.load(key).evidence) == (1, 0, 0, 1)
    assert held(keyed) == {(("1", "a", 1, key), 1)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"write": Overwrite()}, r"items: write is Overwrite\(\) without partition_by.*Overwrite\(partition_by="),
        ({"write": Overwrite(partition_by="seq")}, "items: write.partition_by names 'seq' of type bigint.*a date, a t"),
        (
            {"partitions_def": dg.HourlyPartitionsDefinition("2026-01-01-00:00")},
            r"names 'day' of type date, and the first window is \[2026-01-01T00:00:00\+00:00, "
            "2026-01-01T01.*midnight.*a string that is the partition key",
        ),
        ({"changes": Changes(delete_when="op = 'd'")}, "changes.delete_when.*Overwrite does not support deletes"),
    ],
)
def test_declarations_that_cannot_work_are_refused(
    spark: SparkSession, tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(DeclarationError, match=message):
        declared(spark, tmp_path, {}, **options)
