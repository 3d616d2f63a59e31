"""Times in the files of table and log are what every reader knows: microseconds in 64 bits, from year 1 to 9999."""

from datetime import UTC, date, datetime
from pathlib import Path

import pandera.pyspark as pandera
import pyarrow.parquet as pq
import pyspark.sql.types as T
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from incload_assets.declaration.changes import Changes
from incload_assets.trial.literal_source import Record
from tests.support.readers import check_alike, check_deltalake, of_spark
from tests.support.tables import Loaded, day, make

OLD_TYPE = ("spark.sql.parquet.outputTimestampType", "INT96")


class Timed(pandera.DataFrameModel):
    """Ordered by an instant, with a date."""

    id: T.StringType = pandera.Field(nullable=False)
    seq: T.TimestampType = pandera.Field(nullable=True)
    born: T.DateType = pandera.Field(nullable=True)


def at(id: str, text: str, op: str = "u") -> Record:
    return {"id": id, "seq": f"{text}Z", "born": text[:10], "op": op}


def timed(spark: SparkSession, folder: Path, content: dict[str, list[Record]]) -> Loaded:
    changes = Changes(keys=["id"], sequence_by=["seq"], delete_when="op = 'd'")
    return make(spark, folder, content, contract=Timed, changes=changes)


def kinds(uri: str) -> set[str]:
    """How the instants of a table's files are stored."""
    found = set()
    for file in DeltaTable(uri).file_uris():
        schema = pq.ParquetFile(file).schema
        columns = map(schema.column, range(len(schema.names)))
        found |= {column.physical_type for column in columns if column.name == "seq"}
    return found


ENDS = [
    "0001-01-01T00:00:00",
    "1582-10-10T12:00:00.000001",
    "1677-09-21T00:12:43.145224",
    "1969-12-31T23:59:59.999999",
    "2026-01-01T00:00:00.123456",
    "2262-04-11T23:47:16.854776",
    "9999-12-31T23:59:59.999999",
]


def test_both_ends_of_the_range_are_read_back_by_all_readers(spark: SparkSession, tmp_path: Path) -> None:
    table = timed(spark, tmp_path, {day(1): [at(text, text) for text in ENDS]})
    table.load(1)
    log = table.lake.log_uri(table.table.key.path)
    for uri in (table.uri, log):
        assert kinds(uri) == {"INT64"}
        check_alike(spark, uri)
    assert table.rows() == {
        (text, datetime.fromisoformat(text).replace(tzinfo=UTC), date.fromisoformat(text[:10])) for text in ENDS
    }


def test_files_of_the_old_type_stay_readable_and_are_merged_with_new_ones(spark: SparkSession, tmp_path: Path) -> None:
    content = {
        day(1): [at(str(number), "2026-01-01T00:00:00.123456") for number in range(4)],
        day(2): [at("1", "2026-01-01T00:00:00.123457"), at("2", "2026-01-01T00:00:00.123455")],
        day(3): [at("3", "2026-01-01T00:00:00.123457", "d"), at("4", "9999-12-31T23:59:59.999999")],
    }
    table = timed(spark, tmp_path, content)
    log = table.lake.log_uri(table.table.key.path)
    before = spark.conf.get(OLD_TYPE[0])
    spark.conf.set(*OLD_TYPE)
    try:
        table.load(1)
        assert kinds(table.uri) == kinds(log) == {"INT96"}
    finally:
        spark.conf.set(OLD_TYPE[0], before)
    table.load(2)
    assert kinds(log) == {"INT96", "INT64"}
    check_deltalake(log, of_spark(spark, log))
    table.load(3)
    check_alike(spark, table.uri)
    instant = datetime(2026, 1, 1, microsecond=123456, tzinfo=UTC)
    assert table.rows("id", "seq") == {
        ("0", instant),
        ("1", instant.replace(microsecond=123457)),
        ("2", instant),
        ("4", datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)),
    }


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1), (2, 3, 1)])
def test_the_millisecond_to_which_delta_cuts_maxima_decides_nothing(
    spark: SparkSession, tmp_path: Path, order: tuple[int, ...]
) -> None:
    content = {
        day(1): [at("1", "2026-01-01T00:00:00.123400"), at("2", "2026-01-01T00:00:00.123999", "d")],
        day(2): [at("1", "2026-01-01T00:00:00.123900"), at("2", "2026-01-01T00:00:00.123998")],
        day(3): [at("1", "2026-01-01T00:00:00.123899"), at("3", "9999-12-31T23:59:59.999999")],
    }
    table = timed(spark, tmp_path, content)
    log = table.lake.log_uri(table.table.key.path)
    for number in order:
        table.load(number)
        spark.sql(f"ALTER TABLE delta.`{log}` SET TBLPROPERTIES ('delta.checkpointInterval' = '1')")
    assert table.rows("id", "seq") == {
        ("1", datetime(2026, 1, 1, microsecond=123900, tzinfo=UTC)),
        ("3", datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)),
    }
