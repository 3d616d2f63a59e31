"""Merge of changes that set only some columns, on literal rows."""

from pathlib import Path

import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from incload_assets.assets import Changes, Files, Merge, Snapshot
from incload_assets.declaration.window import window_of
from incload_assets.declaration.write import Write
from incload_assets.load.reconcile import Evidence
from incload_assets.platform.errors import DeclarationError
from tests.support.detection import detected
from tests.support.tables import DAYS, day, make


class Pair(pa.DataFrameModel):
    """A row that needs its column a, and not b."""

    id: T.StringType = pa.Field(nullable=False)
    a: T.StringType = pa.Field(nullable=False)
    b: T.StringType = pa.Field(nullable=True)
    seq: T.LongType = pa.Field(nullable=False)


class Document(pa.DataFrameModel):
    """A number, a large text, and what the function computes of it."""

    id: T.StringType = pa.Field(nullable=False)
    number: T.LongType = pa.Field(nullable=True)
    body: T.StringType = pa.Field(nullable=True)
    size: T.IntegerType = pa.Field(nullable=True)
    seq: T.LongType = pa.Field(nullable=False)


def bins(evidence: Evidence) -> dict[str, int]:
    names = ("applied", "stale", "duplicate", "waiting", "quarantined")
    return {name: getattr(evidence, name) for name in names if getattr(evidence, name)}


def test_each_column_has_its_newest_value_and_a_change_waits_for_what_the_contract_requires(
    spark: SparkSession, tmp_path: Path
) -> None:
    content = {
        day(1): [
            {"id": name, "a": "a1", "b": "b1", "seq": "1"} for name in ("both", "late base", "null", "reborn", "waits")
        ],
        day(2): [
            {"id": "both", "b": "b3", "seq": "3"},
            {"id": "late base", "b": "b2", "seq": "2"},
            {"id": "null", "b": None, "seq": "2"},
            {"id": "reborn", "op": "d", "seq": "2"},
            {"id": "reborn", "a": "a3", "seq": "3"},
            {"id": "waits", "op": "d", "seq": "2"},
            {"id": "waits", "b": "b3", "seq": "3"},
            {"id": "null", "a": None, "seq": "9"},
        ],
        day(3): [{"id": "both", "a": "a2", "seq": "2"}, {"id": "waits", "a": "a4", "seq": "4"}],
    }
    table = make(spark, tmp_path, content, contract=Pair, write=Merge(partial=True))
    assert bins(table.load(2).evidence) == {"applied": 1, "stale": 2, "waiting": 4, "quarantined": 1}
    assert table.rows() == {("reborn", "a3", None, 3)}
    assert table.log("rejected", "id", "_reasons") == [("null", ["a: NULL is not allowed"])]
    assert bins(table.load(1).evidence) == {"applied": 3, "stale": 2}
    assert table.rows() == {
        ("both", "a1", "b3", 3),
        ("late base", "a1", "b2", 2),
        ("null", "a1", None, 2),
        ("reborn", "a3", None, 3),
    }
    assert bins(table.load(3).evidence) == {"applied": 2}
    assert table.rows() == {
        ("both", "a2", "b3", 3),
        ("late base", "a1", "b2", 2),
        ("null", "a1", None, 2),
        ("reborn", "a3", None, 3),
        ("waits", "a4", "b3", 4),
    }


def test_an_unavailable_value_keeps_what_the_column_had_and_so_does_what_is_computed_of_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    def with_size(changes: DataFrame) -> DataFrame:
        return changes.withColumn("size", F.length("body"))

    content = {
        day(1): [{"id": "1", "number": "5", "body": "text", "seq": "1"}, {"id": "2", "number": "5", "seq": "1"}],
        day(2): [
            {"id": "1", "number": "6", "body": "__unavailable", "seq": "2"},
            {"id": "2", "number": "__unavailable", "body": "longer", "seq": "2"},
            {"id": "3", "number": "7", "body": "__unavailable", "seq": "2"},
        ],
        day(3): [{"id": "1", "body": "whole", "seq": "3"}],
    }
    changes = Changes(keys="id", sequence_by="seq", unavailable="__unavailable")
    table = make(spark, tmp_path, content, contract=Document, changes=changes, function=with_size)
    for window in (2, 1):
        table.load(window)
    assert table.rows() == {("1", 6, "text", 4, 2), ("2", 5, "longer", 6, 2), ("3", 7, None, None, 2)}
    table.load(3)  # it lacks the number: in a whole row that is NULL
    assert ("1", None, "whole", 5, 3) in table.rows()


def test_json_tells_null_from_absent_and_csv_has_the_columns_of_its_header(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / day(1)
    folder.mkdir()
    (folder / "a.json").write_text('{"id": "1", "a": null}\n{"id": "2", "b": 1, "other": 2}\n')
    (folder / "b.csv").write_text("id,b\n3,\n")
    source = Files(f"{tmp_path}/{{window:%Y-%m-%d}}/*")
    position = detected(source, "pairs", [window_of(DAYS, day(1))], {})[day(1)]
    rows = source.extract(spark, "pairs", position, ["id", "a", "b"]).select("_raw.id", "_present").collect()
    assert {row["id"]: sorted(row["_present"]) for row in rows} == {
        "1": ["a", "id"],
        "2": ["b", "id"],
        "3": ["b", "id"],
    }


def test_an_empty_marker_is_refused_and_so_is_one_where_whole_rows_are_written(
    spark: SparkSession, tmp_path: Path
) -> None:
    def declare(marker: str, write: Write) -> None:
        make(spark, tmp_path, changes=Changes(keys="id", sequence_by="seq", unavailable=marker), write=write)

    with pytest.raises(DeclarationError, match=r"changes.unavailable is ''\. Rule: it is the text that stands for an"):
        declare("", Merge())
    with pytest.raises(DeclarationError, match=r"changes.unavailable is '\?', but Snapshot writes whole rows"):
        declare("?", Snapshot())
