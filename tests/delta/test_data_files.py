"""Data files of a version that are read as such: the same rows as Delta reads, or Delta reads them."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from urllib.parse import unquote

import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from incload_assets.delta import data_files as module
from incload_assets.delta.data_files import ParquetFiles, parquet_files
from incload_assets.platform.lake import Lake, data_files

ROWS = "id long, place string, number int, day date, at timestamp, tags array<struct<`a.b`: string>>"
ODD = ["a b", "a:b", "a%20b", "a/b=c", "é'\"", "x+y&z;", "2026-01-01T00:00", "[1]", "*"]


@dataclass(frozen=True)
class Stored:
    """A Delta table under test."""

    spark: SparkSession
    folder: str

    @property
    def delta(self) -> DeltaTable:
        found = Lake(".").delta(self.folder)
        assert found is not None
        return found

    def sql(self, text: str) -> None:
        """Run a statement; ``{}`` is the table."""
        self.spark.sql(text.format(f"delta.`{self.folder}`"))

    def write(self, *rows: tuple[object, ...], place: tuple[str, ...] = ()) -> None:
        """Append rows of ``ROWS``, as one file for each place."""
        frame = self.spark.createDataFrame(rows, ROWS).coalesce(1)
        frame.write.format("delta").mode("append").partitionBy(*place).save(self.folder)

    def files(self) -> ParquetFiles | None:
        return parquet_files(self.delta, self.folder, data_files(self.delta))

    def as_delta_reads(self) -> DataFrame:
        return self.spark.read.format("delta").load(self.folder)

    def assert_read_alike(self, files: ParquetFiles | None) -> None:
        assert files is not None
        read, expected = files.read(self.spark), self.as_delta_reads()
        assert read.schema.simpleString() == expected.schema.simpleString()
        assert sorted(map(repr, read.collect())) == sorted(map(repr, expected.collect()))


@pytest.fixture
def stored(spark: SparkSession, tmp_path: Path) -> Stored:
    return Stored(spark, f"{tmp_path}/a table +é")


def row(id: int, place: str | None = None, number: int | None = None, day: date | None = None) -> tuple[object, ...]:
    return (id, place, number, day, None, [(f"tag {id}",)])


@pytest.mark.parametrize("of", [ODD[:6], [*ODD[6:], None]], ids=repr)
def test_rows_of_partitions_with_odd_names_are_read_as_delta_reads_them(stored: Stored, of: list[str | None]) -> None:
    for number, place in enumerate(of):
        stored.write(row(number, place, number), place=("place",))
    stored.assert_read_alike(stored.files())


@pytest.mark.parametrize("place", [("number",), ("day",), ("day", "number"), ("place", "day")], ids=repr)
def test_partition_values_get_the_type_that_they_have_in_the_table(stored: Stored, place: tuple[str, ...]) -> None:
    rows = [row(1, "", -7, date(2026, 1, 5)), row(2, "x", 2**31 - 1, date(1, 1, 1)), row(3, None, None, None)]
    stored.write(*rows, place=place)
    stored.assert_read_alike(stored.files())


def test_a_day_that_other_calendars_left_out_is_itself(stored: Stored) -> None:
    days = "SELECT 1 AS id, DATE '1582-10-10' AS day"
    stored.sql(f"CREATE TABLE {{}} USING delta PARTITIONED BY (day) AS {days}")
    files = stored.files()
    assert files is not None
    assert files.read(stored.spark).selectExpr("string(day) AS day").first() == ("1582-10-10",)


def test_a_column_that_was_added_later_is_null_in_older_files(stored: Stored) -> None:
    stored.write(row(1, "x"), place=("place",))
    stored.sql("ALTER TABLE {} ADD COLUMNS (`a.later.one` string)")
    stored.sql("INSERT INTO {} VALUES (2, 'x', 1, NULL, NULL, NULL, 'there')")
    stored.assert_read_alike(stored.files())


def test_those_files_are_read_that_were_named_whatever_the_table_has_become(stored: Stored) -> None:
    stored.write(row(1), row(2))
    files = stored.files()
    stored.sql("DELETE FROM {} WHERE id = 1")
    stored.write(row(3))
    assert files is not None
    assert {found.id for found in files.read(stored.spark).collect()} == {1, 2}
    stored.assert_read_alike(stored.files())


def test_no_file_makes_no_row(stored: Stored) -> None:
    stored.write(row(1))
    none = parquet_files(stored.delta, stored.folder, data_files(stored.delta).slice(0, 0))
    assert none is not None
    assert none.read(stored.spark).collect() == []


def test_a_file_that_is_gone_is_an_error_and_never_fewer_rows(stored: Stored) -> None:
    stored.write(row(1))
    stored.write(row(2))
    files, skips = stored.files(), "spark.sql.files.ignoreMissingFiles"
    assert files is not None
    stored.spark.conf.set(skips, "true")
    try:
        rows = files.read(stored.spark)
        Path(unquote(stored.delta.file_uris()[0])).unlink()
        with pytest.raises(PySparkException, match=r"PATH_NOT_FOUND|FILE_NOT_EXIST"):
            rows.collect()
    finally:
        stored.spark.conf.unset(skips)


def _deletion_vectors(stored: Stored) -> None:
    stored.sql("ALTER TABLE {} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    stored.write(*map(row, range(10, 20)))
    stored.sql("DELETE FROM {} WHERE id = 12")


def _renamed_columns(stored: Stored) -> None:
    stored.sql("ALTER TABLE {} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    stored.sql("ALTER TABLE {} RENAME COLUMN number TO renamed")


def _many_files(stored: Stored) -> None:
    spread = stored.as_delta_reads().unionByName(stored.spark.createDataFrame([row(i) for i in range(99)], ROWS))
    spread.repartition(module.MAX_FILES + 1).write.format("delta").mode("overwrite").save(stored.folder)


def _many_places(stored: Stored) -> None:
    _overwrite(stored, [row(i, number=i) for i in range(module.MAX_PARTITIONS + 1)], "number")


def _instants(stored: Stored) -> None:
    _overwrite(stored, [(1, "x", 1, None, datetime(2026, 1, 5, 10), None)], "at")


def _overwrite(stored: Stored, rows: list[tuple[object, ...]], place: str) -> None:
    frame = stored.spark.createDataFrame(rows, ROWS).write.format("delta").mode("overwrite")
    frame.option("overwriteSchema", "true").partitionBy(place).save(stored.folder)


def _far_years(stored: Stored) -> None:
    stored.sql(
        "CREATE OR REPLACE TABLE {} USING delta PARTITIONED BY (day) AS SELECT 1 AS id, make_date(12026, 1, 5) AS day"
    )


OTHERWISE = [_deletion_vectors, _renamed_columns, _many_files, _many_places, _instants, _far_years]


@pytest.mark.parametrize("become", OTHERWISE, ids=lambda become: become.__name__.strip("_").replace("_", " "))
def test_delta_reads_what_is_more_than_a_few_parquet_files(stored: Stored, become: Callable[[Stored], None]) -> None:
    stored.write(row(1))
    assert stored.files() is not None
    become(stored)
    assert stored.files() is None


def test_delta_reads_a_clone_whose_files_are_another_tables(stored: Stored, tmp_path: Path) -> None:
    stored.write(row(1))
    clone = Stored(stored.spark, f"{tmp_path}/clone")
    clone.sql(f"CREATE TABLE {{}} SHALLOW CLONE delta.`{stored.folder}`")
    assert clone.files() is None


@pytest.mark.parametrize("name", ["a*", "a?", "[a]", "{a,b}"])
def test_delta_reads_where_the_folder_is_a_pattern_to_spark(stored: Stored, name: str) -> None:
    stored.write(row(1))
    assert parquet_files(stored.delta, f"/lake/{name}", data_files(stored.delta)) is None


def test_small_files_are_read_by_one_task_so_that_nothing_is_shuffled(stored: Stored) -> None:
    for number in range(3):
        stored.write(row(number, f"place {number}"), place=("place",))
    files = stored.files()
    assert files is not None
    assert files.size == pc.sum(data_files(stored.delta)["size_bytes"]).as_py()
    parts = files.read(stored.spark).selectExpr("spark_partition_id() AS part").distinct()
    assert parts.count() == 1
