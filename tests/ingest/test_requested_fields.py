"""Conditions ask for fields of the source: one that is not there is missed, where the source can tell."""

from pathlib import Path
from typing import Any

import pandera.pyspark as pa
import pyarrow as arrow
import pyarrow.parquet as parquet
import pyspark.sql.types as T
import pytest
from pyspark.sql import SparkSession

from incload_assets.assets import Changes, Files
from incload_assets.platform.errors import SourceUnreadable
from tests.support.tables import Item, Loaded, day, make

TYPO = "a condition of changes names 'stat', which no header of the files has"


class Stateful(Item):
    """An item that may say its state."""

    stat: T.StringType = pa.Field(nullable=True)


def table(spark: SparkSession, folder: Path, extension: str, condition: str, **options: Any) -> Loaded:
    changes = Changes(keys=["id"], sequence_by=["seq"], delete_when=condition)
    source = Files(f"{folder}/landing/{{window:%Y-%m-%d}}/*.{extension}")
    return make(spark, folder, source=source, changes=changes, **options)


def write(folder: Path, name: str, text: str) -> None:
    path = folder / "landing" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_a_column_that_no_header_has_fails_the_load_by_its_name(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, f"{day(1)}/items.csv", "id,value,seq,state\n1,a,1,new\n2,b,1,void\n")
    parquet.write_table(
        arrow.table({"id": ["1"], "value": ["a"], "seq": [1], "state": ["void"]}),
        tmp_path / "landing" / day(1) / "items.parquet",
    )
    for extension in ("csv", "parquet"):
        with pytest.raises(SourceUnreadable, match=f"items: {TYPO} .*items.{extension}.* Rule: .* Remedy: correct"):
            table(spark, tmp_path, extension, "stat = 'void'").load(1)
    corrected = table(spark, tmp_path, "csv", "state = 'void'")
    corrected.load(1)
    assert corrected.rows() == {("1", "a", 1)}


def test_a_column_that_only_some_files_have_is_null_in_the_others(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, f"{day(1)}/new.csv", "id,value,seq\n1,a,1\n2,b,1\n")
    write(tmp_path, f"{day(1)}/gone.csv", "id,value,seq,state\n1,,2,void\n")
    items = table(spark, tmp_path, "csv", "state = 'void'")
    items.load(1)
    assert items.rows() == {("2", "b", 1)}


def test_a_column_that_files_may_lack_is_one_of_the_contract(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, f"{day(1)}/items.csv", "id,value,seq\n1,a,1\n")
    items = table(spark, tmp_path, "csv", "stat = 'void'", contract=Stateful)
    items.load(1)
    assert items.rows() == {("1", "a", 1, None)}


def test_a_member_that_no_object_has_yet_may_come(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, f"{day(1)}/items.json", '{"id": "1", "seq": 1}\n{"id": "2", "value": "b", "seq": 1}\n')
    write(tmp_path, f"{day(2)}/items.json", '{"id": "1", "seq": 2, "op": "d"}\n')
    items, told = table(spark, tmp_path, "json", "op = 'd'"), list[str]()
    for window in (1, 2):
        items.load(window, info=told.append)
    assert items.rows() == {("2", "b", 1)}
    missed = "no record has a value in 'op', which a condition of changes uses"
    assert [line for line in told if "no record" in line] == [f"items 2026-01-01: {missed}"]


def test_the_operation_column_of_sql_server_marks_deletes_in_backticks(spark: SparkSession, tmp_path: Path) -> None:
    header = "__$operation,id,value,seq\n"
    write(tmp_path, f"{day(1)}/items.csv", header + "2,1,a,1\n2,2,b,1\n4,2,c,2\n1,1,a,2\n")
    items = table(spark, tmp_path, "csv", "`__$operation` = 1")
    items.load(1)
    assert items.rows() == {("2", "c", 2)}
