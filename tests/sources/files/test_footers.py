"""Files with their columns in a footer: what is the same for Parquet and ORC."""

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from incload_assets.platform.errors import SourceUnreadable
from incload_assets.sources.files.files import Files
from tests.support.files import column, day, extracted, raw, write

FOLDER = day(1).key
NOON = dt.datetime(2026, 1, 1, 12, 0, 0, 123456)
KINDS = pytest.mark.parametrize("kind", ["parquet", "orc"])


def put(path: Path, **columns: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    (orc if path.suffix == ".orc" else pq).write_table(pa.table(columns), path)
    return path


def source(kind: str) -> Files:
    return Files(f"{{landing}}/{{window:%Y-%m-%d}}/*.{kind}")


@KINDS
def test_files_with_other_columns_are_read_by_name(spark: SparkSession, landing: Path, kind: str) -> None:
    put(landing / FOLDER / f"a.{kind}", id=pa.array([1]), name=pa.array(["a"]))
    put(landing / FOLDER / f"b.{kind}", name=pa.array(["b"]), id=pa.array([2]))
    put(landing / FOLDER / f"c.{kind}", id=pa.array([3]), city=pa.array(["Rome"]))
    rows = extracted(spark, source(kind), ["id", "name"])
    assert raw(rows) == [(1, "a"), (2, "b"), (3, None)]
    assert column(rows, "_rescued") == [None, None, '{"city":"Rome"}']


@KINDS
def test_a_field_on_whose_type_files_disagree_is_a_string_everywhere(
    spark: SparkSession, landing: Path, kind: str
) -> None:
    put(landing / FOLDER / f"a.{kind}", id=pa.array([1]), v=pa.array([10], pa.int64()))
    put(landing / FOLDER / f"b.{kind}", id=pa.array([2]), v=pa.array([{"x": 1}]))
    put(landing / FOLDER / f"c.{kind}", id=pa.array([3]))
    assert raw(extracted(spark, source(kind), ["id", "v"])) == [(1, "10"), (2, '{"x":1}'), (3, None)]


@KINDS
def test_formats_side_by_side(spark: SparkSession, landing: Path, kind: str) -> None:
    put(landing / FOLDER / f"a.{kind}", id=pa.array([1]), at=pa.array([NOON], pa.timestamp("us", "UTC")))
    write(landing / FOLDER / "b.csv", "id,at\n2,2026-01-01\n")
    write(landing / FOLDER / "c.json", '{"id":3}')
    rows = extracted(spark, Files("{landing}/{window:%Y-%m-%d}/*"), ["id", "at"])
    assert raw(rows) == [("1", "2026-01-01 12:00:00.123456"), ("2", "2026-01-01"), ("3", None)]


@KINDS
def test_odd_names(spark: SparkSession, landing: Path, kind: str) -> None:
    odd = ["_metadata", "x.y", "a b,;{}()=", "tick`" if kind == "parquet" else "tick'", "select"]
    put(landing / FOLDER / f"a.{kind}", **{name: pa.array([number]) for number, name in enumerate(odd)})
    rows = extracted(spark, source(kind), odd)
    assert raw(rows) == [(0, 1, 2, 3, 4)]
    assert rows[0]["_source"]["file"] == f"2026-01-01/a.{kind}"


@KINDS
def test_an_empty_file_has_no_rows(spark: SparkSession, landing: Path, kind: str) -> None:
    write(landing / FOLDER / f"a.{kind}", b"")
    put(landing / FOLDER / f"b.{kind}", id=pa.array([], pa.int64()))
    assert extracted(spark, source(kind), ["id"]) == []


@pytest.mark.parametrize("cut", [1, 20, -100])
@KINDS
def test_a_file_cut_off_is_named(spark: SparkSession, landing: Path, kind: str, cut: int) -> None:
    path = put(landing / FOLDER / f"a.{kind}", id=pa.array([1]))
    write(path, path.read_bytes()[:-cut])
    with pytest.raises(SourceUnreadable, match=rf"the file 2026-01-01/a.{kind} is not a whole (Parquet|ORC) file"):
        extracted(spark, source(kind), ["id"])


@KINDS
def test_columns_that_differ_in_case_only_are_refused(spark: SparkSession, landing: Path, kind: str) -> None:
    put(landing / FOLDER / f"a.{kind}", id=pa.array([1]), Id=pa.array([1]))
    with pytest.raises(SourceUnreadable, match=rf"a.{kind} has several columns 'id'"):
        extracted(spark, source(kind), ["id"])


@KINDS
def test_a_text_that_is_not_utf8_is_told_of(spark: SparkSession, landing: Path, kind: str) -> None:
    broken = pa.Array.from_buffers(pa.string(), 2, pa.array([b"ok", b"\xff"], pa.binary()).buffers())
    put(landing / FOLDER / f"a.{kind}", id=pa.array([1, 2]), name=broken)
    rows = extracted(spark, source(kind), ["id", "name"])
    assert raw(rows) == [(1, "ok"), (2, "\ufffd")]
    assert column(rows, "_malformed") == [None, "name: not valid UTF-8"]
