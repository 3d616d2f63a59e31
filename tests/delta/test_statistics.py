"""Windows that bring nothing but news are merged without a look at the table before; the result is the same."""

import shutil
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pandera.pyspark as pandera
import pyarrow as pa
import pyspark.sql.types as T
import pytest
from pyspark.sql import SparkSession

from incload_assets.change_log import context
from incload_assets.declaration.window import window_of
from incload_assets.delta.session import CachedFrame
from incload_assets.delta.statistics import is_newer
from incload_assets.writes import row_fold as folding
from tests.support.tables import Loaded, day, item, make

INSTANT = datetime(2026, 1, 5, 10, 0, 0, 123_000, tzinfo=UTC)


@pytest.mark.parametrize(
    ("first", "kind", "newest", "expected"),
    [
        ("9", T.LongType(), [3, 8], True),
        ("10", T.LongType(), [9], True),
        ("8", T.IntegerType(), [3, 8], False),
        ("9", T.LongType(), [3, None], False),
        ("1", T.LongType(), [], True),
        ("b", T.StringType(), ["a"], False),
        ("9.5", T.DecimalType(3, 1), [9], False),
        ("2026-01-06", T.DateType(), [date(2026, 1, 5)], True),
        ("2026-01-05", T.DateType(), [date(2026, 1, 5)], False),
        ("2026-01-05 10:00:00.1239", T.TimestampType(), [INSTANT], False),
        ("2026-01-05 10:00:00.1241", T.TimestampType(), [INSTANT], True),
        ("2026-01-05 10:00:01", T.TimestampNTZType(), [INSTANT.replace(tzinfo=None)], True),
        ("+12026-01-05 10:00:00", T.TimestampType(), [INSTANT], False),
    ],
)
def test_changes_are_news_if_they_are_newer_than_whatever_the_files_may_hold(
    first: str, kind: T.DataType, newest: list[Any], expected: bool
) -> None:
    files = pa.table({"size_bytes": [1] * len(newest), "max.seq": newest})
    assert is_newer(first, "seq", kind, files) is expected


def test_without_statistics_nothing_is_known_to_be_news() -> None:
    assert not is_newer("9", "seq", T.LongType(), pa.table({"size_bytes": [1]}))


CONTENT = {
    day(1): [item("kept", "a", 1), item("changed", "a", 1), item("deleted", "a", 2)],
    day(2): [item("changed", "b", 3), item("changed", "c", 4), item("deleted", None, 4, "d"), item("new", "b", 4)],
    day(3): [item("changed", "late", 2), item("deleted", "late", 3), item("kept", "a", 1), item("gone", None, 1, "d")],
}
RIGHT = {("kept", "a", 1), ("changed", "c", 4), ("new", "b", 4)}


def test_news_are_merged_without_a_look_at_the_table_before(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without, unseen = [], folding._unseen
    monkeypatch.setattr(folding, "_unseen", lambda wanted: without.append(wanted) or unseen(wanted))
    table = make(spark, tmp_path, CONTENT)
    table.load(1)
    report = table.load(2)
    assert len(without) == 2
    assert (report.merged.inserted, report.merged.updated, report.merged.deleted) == (1, 1, 1)
    assert table.rows() == RIGHT


def test_a_window_behind_the_table_is_compared_before_and_writes_no_file(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path, CONTENT)
    table.load(1)
    table.load(2)
    files = table.files()
    report = table.load(3)
    assert (report.evidence.applied, report.evidence.stale) == (2, 2)
    assert (table.files(), table.rows()) == (files, RIGHT)


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1), (2, 1, 3), (2, 3, 1, 2)])
def test_taken_for_news_whatever_they_are_changes_make_the_same_table(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: tuple[int, ...]
) -> None:
    monkeypatch.setattr(context, "is_newer", lambda *_: True)
    table = make(spark, tmp_path, CONTENT)
    reports = [table.load(number) for number in order]
    assert table.rows() == RIGHT
    assert all(report.evidence.pending == 0 for report in reports)


def test_what_a_killed_load_had_spark_hold_is_not_taken_for_the_rows_of_a_log_made_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(value: str) -> Loaded:
        table = make(spark, tmp_path / "lake", {day(1): [item("1", value, 1)]})
        table.load(1)
        return table

    with monkeypatch.context() as killed:
        killed.setattr(CachedFrame, "release", lambda _: None)
        load("before")
    shutil.rmtree(tmp_path / "lake")
    assert load("after").rows() == {("1", "after", 1)}


@pytest.mark.parametrize(("window", "sequence", "others_delete"), [(1, 2, False), (1, 1, True), (2, 9, False)])
def test_deletes_of_other_windows_are_looked_at_only_where_one_may_be_newer(
    spark: SparkSession, tmp_path: Path, window: int, sequence: int, others_delete: bool
) -> None:
    content = {day(1): [item("1", "a", sequence)], day(2): [item("1", None, 1, "d")], day(3): [item("2", "x", 1)]}
    table = make(spark, tmp_path, content)
    for number in (1, 2, 3):
        table.load(number)
    seen = context.LoadContext(spark, table.table, table.lake)
    of = window_of(table.table.partitions_def, day(window))
    assert seen.read_view((of,), "any").others_delete is others_delete
    table.load(1)
    assert table.rows() == {("2", "x", 1)} | ({("1", "a", sequence)} if sequence > 1 else set())


class InstantItem(pandera.DataFrameModel):
    """Ordered by an instant."""

    id: T.StringType = pandera.Field(nullable=False)
    value: T.StringType = pandera.Field(nullable=True)
    seq: T.TimestampType = pandera.Field(nullable=True)


@pytest.mark.parametrize("deleted", ["2262-04-12T00:00:00Z", "9999-12-31T00:00:00Z"])
def test_a_delete_of_a_far_year_stays_newer_when_the_log_has_a_checkpoint(
    spark: SparkSession, tmp_path: Path, deleted: str
) -> None:
    change = {"id": "1", "value": "a", "seq": "2026-01-01T00:00:00Z", "op": "u"}
    content = {
        day(1): [change, {**change, "id": "2"}],
        day(2): [{**change, "value": None, "seq": deleted, "op": "d"}],
        day(3): [{**change, "id": "3"}],
    }
    table = make(spark, tmp_path, content, contract=InstantItem)
    table.load(2)
    log = table.lake.log_uri(table.table.key.path)
    spark.sql(f"ALTER TABLE delta.`{log}` SET TBLPROPERTIES ('delta.checkpointInterval' = '1')")
    table.load(3)
    assert list(Path(log, "_delta_log").glob("*.checkpoint*.parquet"))
    report = table.load(1)
    assert table.rows("id") == {("2",), ("3",)}
    assert (report.evidence.applied, report.evidence.stale) == (1, 1)
