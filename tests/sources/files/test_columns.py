"""A file without the columns of its table is refused by its name: it would make rows of NULLs, or none."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandera.pyspark as pandera
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pyspark.sql.types as T
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from incload_assets.assets import Append, Changes, Files, FullReload, Merge
from incload_assets.platform.errors import SourceUnreadable
from tests.support.files import column, day, extracted, write
from tests.support.tables import Item, Loaded, make

FOLDER = day(1).key
CSV = Files("{landing}/{window:%Y-%m-%d}/*.csv")


class Pair(pandera.DataFrameModel):
    """Two columns, of which none has to be there."""

    a: T.StringType = pandera.Field(nullable=True)
    b: T.StringType = pandera.Field(nullable=True)


class Order(pandera.DataFrameModel):
    """A key, a column that has to be there, and one that is made of it."""

    id: T.LongType = pandera.Field(nullable=False)
    at: T.TimestampType = pandera.Field(nullable=False)
    country: T.StringType = pandera.Field(nullable=False)
    day: T.DateType = pandera.Field(nullable=False)


def pairs(spark: SparkSession, folder: Path, **options: Any) -> Loaded:
    return make(spark, folder, source=CSV, contract=Pair, **{"write": Append(), "changes": Changes()} | options)


def orders(spark: SparkSession, folder: Path, function: Any, **options: Any) -> Loaded:
    changes = options.pop("changes", Changes(keys=["id"], sequence_by=["at"]))
    return make(spark, folder, source=CSV, contract=Order, changes=changes, function=function, **options)


def with_day(changes: DataFrame) -> DataFrame:
    return changes.withColumn("day", F.to_date("at"))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("1,x\n2,y\n", 2),
        ("1,x", 2),
        ("5,5\n", 2),
        ("A,B\n1,x\n", 2),
        ('"a,b"\n"1,x"\n', 1),
        ("a;b\n1;x\n", 1),
        ("\n \n1", 1),
    ],
)
def test_a_first_line_that_is_no_header_is_refused_and_its_values_are_not_told(
    spark: SparkSession, landing: Path, tmp_path: Path, text: str, names: int
) -> None:
    write(landing / FOLDER / "a.csv", text)
    with pytest.raises(SourceUnreadable) as raised:
        pairs(spark, tmp_path / "lake").load(1)
    message = str(raised.value)
    problem = "items: the header of 2026-01-01/a.csv has none of the contract's columns"
    assert f"{problem}: none of its {names} names is 'a', 'b'" in message
    assert "5" not in message and "x" not in message.replace("next", "").split("Rule")[0]


def test_a_name_that_differs_in_case_is_told(spark: SparkSession, landing: Path, tmp_path: Path) -> None:
    write(landing / FOLDER / "a.csv", "A,B\n1,x\n")
    with pytest.raises(SourceUnreadable, match=re.escape("('A' is not 'a', 'B' is not 'b')")):
        pairs(spark, tmp_path / "lake").load(1)


@pytest.mark.parametrize("write_", [Append(), FullReload()])
def test_one_of_the_columns_is_enough_where_none_has_to_be_there(
    spark: SparkSession, landing: Path, tmp_path: Path, write_: Any
) -> None:
    write(landing / FOLDER / "a.csv", "\ufeff a ,other\n1,2\n")
    table = pairs(spark, tmp_path / "lake", write=write_)
    table.load(1)
    assert table.rows("a", "b") == {("1", None)}


def test_a_single_line_of_data_is_no_file_without_rows(spark: SparkSession, landing: Path, tmp_path: Path) -> None:
    write(landing / FOLDER / "a.csv", "1,a\n")
    with pytest.raises(SourceUnreadable, match=r"the header of 2026-01-01/a.csv has none of the contract's columns"):
        make(spark, tmp_path / "lake", source=CSV, changes=Changes(keys=["id"], sequence_by=["seq"])).load(1)


@pytest.mark.parametrize("content", [b"", b"\n\r\n", b"a,b", b"b,a\r\n"])
def test_a_file_with_its_header_alone_or_with_nothing_has_no_rows(
    spark: SparkSession, landing: Path, tmp_path: Path, content: bytes
) -> None:
    write(landing / FOLDER / "a.csv", content)
    assert pairs(spark, tmp_path / "lake").load(1).record.rows_read == 0


@pytest.mark.parametrize(
    ("header", "lacking"),
    [("ID,at,country", "'id'"), ("id,country", "'at'"), ("id,at", "'country'"), ("country", "'id', 'at'")],
)
def test_a_header_without_a_column_that_no_row_can_do_without_is_refused(
    spark: SparkSession, landing: Path, tmp_path: Path, header: str, lacking: str
) -> None:
    write(landing / FOLDER / "a.csv", header + "\n")
    count = len(header.split(","))
    with pytest.raises(SourceUnreadable, match=rf"a.csv lacks columns: none of its {count} names is {lacking}"):
        orders(spark, tmp_path / "lake", with_day).load(1)


def test_what_the_function_makes_need_not_be_in_the_file(spark: SparkSession, landing: Path, tmp_path: Path) -> None:
    def made(changes: DataFrame) -> DataFrame:
        return with_day(changes).withColumn("country", F.coalesce("country", F.lit("DE")))

    write(landing / FOLDER / "a.csv", "id,at\n1,2026-01-01T10:00:00Z\n")
    write(landing / FOLDER / "b.csv", "id,at,country\n2,2026-01-01T10:00:00Z,FR\n")
    table = orders(spark, tmp_path / "lake", made)
    table.load(1)
    assert table.rows("id", "country") == {(1, "DE"), (2, "FR")}


def test_files_of_deletes_have_little_more_than_the_key(spark: SparkSession, landing: Path, tmp_path: Path) -> None:
    write(landing / FOLDER / "a.csv", "id,at,country,op\n1,2026-01-01T10:00:00Z,DE,u\n2,2026-01-01T10:00:00Z,DE,u\n")
    write(landing / FOLDER / "b.csv", "id,at,op\n1,2026-01-01T11:00:00Z,d\n")
    changes = Changes(keys=["id"], sequence_by=["at"], delete_when="op = 'd'")
    table = orders(spark, tmp_path / "lake", with_day, changes=changes)
    table.load(1)
    assert table.rows("id") == {(2,)}


def test_a_header_without_the_sequence_is_refused_because_all_would_be_older(
    spark: SparkSession, landing: Path, tmp_path: Path
) -> None:
    write(landing / FOLDER / "a.csv", "id,value,Seq,op\n1,a,1,u\n")
    with pytest.raises(SourceUnreadable, match=r"names is 'seq' \('Seq' is not 'seq'\)"):
        make(spark, tmp_path / "lake", source=CSV, contract=Item).load(1)


@pytest.mark.parametrize(("kind", "written"), [("parquet", pq.write_table), ("orc", orc.write_table)])
def test_typed_files_are_held_against_the_contract_as_csv_is(
    spark: SparkSession, landing: Path, tmp_path: Path, kind: str, written: Callable[[pa.Table, Path], None]
) -> None:
    source = Files(f"{{landing}}/{{window:%Y-%m-%d}}/*.{kind}")
    (landing / FOLDER).mkdir()
    written(pa.table({"A": ["1"], "B": ["x"]}), landing / FOLDER / f"a.{kind}")
    table = make(spark, tmp_path / "lake", source=source, contract=Pair, changes=Changes(), write=Append())
    with pytest.raises(SourceUnreadable, match=rf"the file 2026-01-01/a.{kind} has none of the contract's columns"):
        table.load(1)
    written(pa.table({"id": [1], "Seq": [1]}), landing / FOLDER / f"a.{kind}")
    table = make(spark, tmp_path / "lake", source=source, name="others")
    with pytest.raises(SourceUnreadable, match=rf"the file 2026-01-01/a.{kind} lacks columns.*'Seq' is not 'seq'"):
        table.load(1)


def test_an_object_with_none_of_the_fields_is_quarantined(spark: SparkSession, landing: Path) -> None:
    lines = ['{"A":1,"B":2}', "{}", '{"b":null}', '{"a":"1","x":2}', "[]", ""]
    write(landing / FOLDER / "a.json", "\n".join(lines))
    rows = extracted(spark, Files("{landing}/{window:%Y-%m-%d}/*.json"), ["a", "b"])
    none = "none of the table's fields is in the object"
    assert column(rows, "_malformed") == [none, none, None, None, "not a JSON object"]
    assert column(rows, "_rescued")[0] == '{"A":1,"B":2}'


def test_a_header_once_more_is_no_record(spark: SparkSession, landing: Path) -> None:
    write(landing / FOLDER / "a.csv", 'a,b\n1,x\na,b\n"a","b"\n\ufeffa,b\na,a\n')
    rows = extracted(spark, CSV, ["a", "b"])
    again = "a repeated header, as in concatenated files"
    assert column(rows, "_malformed") == [None, again, again, again, None]


@pytest.mark.parametrize("write_", [Merge(), FullReload()])
def test_a_bad_header_among_good_ones_keeps_the_window_from_loading(
    spark: SparkSession, landing: Path, tmp_path: Path, write_: Any
) -> None:
    write(landing / FOLDER / "a.csv", "id,value,seq,op\n1,a,1,u\n")
    write(landing / FOLDER / "b.csv", "2,b,1,u\n3,c,1,u\n")
    changes = Changes(keys=["id"], sequence_by=["seq"]) if isinstance(write_, Merge) else Changes()
    table = make(spark, tmp_path / "lake", source=CSV, write=write_, changes=changes)
    with pytest.raises(SourceUnreadable, match=r"the header of 2026-01-01/b.csv"):
        table.load(1)
    assert not table.rows()
