"""Rows of the lake by values: ranges of files leave out only files that have no such row."""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake

from incload_assets.platform.lake_rows import files_with, rows_where

AT = datetime(2026, 1, 5, 10, tzinfo=UTC)
NAN = float("nan")


@pytest.mark.parametrize(
    ("kind", "low", "high", "values", "kept"),
    [
        (pa.int64(), 3, 8, [8], True),
        (pa.int64(), 3, 8, [9], False),
        (pa.int64(), 3, 8, [2, 9], True),
        (pa.int64(), 3, 8, [None, 9], True),
        (pa.int64(), 3, 8, [], True),
        (pa.int64(), None, None, [9], True),
        (pa.int64(), None, 8, [9], False),
        (pa.int64(), None, 8, [2], True),
        (pa.date32(), date(2026, 1, 5), date(2026, 1, 6), [date(2026, 1, 7)], False),
        (pa.string(), "a" * 32, "a" * 32 + "\x7f", ["a" * 41], True),
        (pa.string(), "a" * 32, "a" * 32 + "\x7f", ["b"], False),
        (pa.string(), "b\U000fffff", "b\U000fffff", ["a"], True),
        (pa.string(), None, None, ["x" * 5000], True),
        (pa.float64(), 1.0, 1.0, [NAN], True),
        (pa.float64(), 1.0, NAN, [2.0], True),
        (pa.decimal128(4, 1), Decimal("1.0"), Decimal("2.0"), [Decimal("2.1")], True),
        (pa.timestamp("us", "UTC"), AT, AT, [datetime(9999, 12, 31, tzinfo=UTC)], True),
    ],
)
def test_a_range_leaves_out_a_file_only_if_it_proves_that_no_row_has_the_values(
    kind: pa.DataType, low: Any, high: Any, values: list[Any], kept: bool
) -> None:
    files = pa.table({"path": ["a"], "min.c": pa.array([low], kind), "max.c": pa.array([high], kind)})
    assert files_with(files, {"c": values}).num_rows == kept
    assert files_with(pa.table({"path": ["a"]}), {"c": values}).num_rows == 1, "no file has a range"


def test_a_partition_leaves_out_files_of_others() -> None:
    files = pa.table({"path": ["a", "b", "c"], "partition.day": ["1", "2", None]})
    assert files_with(files, {"day": ["2"]})["path"].to_pylist() == ["b", "c"]


ODD = [
    ("number", [1.5, NAN, None, -0.0], pa.float64()),
    ("number", [1.5, NAN], pa.float64()),
    ("number", [NAN, NAN], pa.float64()),
    ("number", [None, None], pa.float64()),
    ("text", ["x" * 5000, "x" * 5001, "\U0010ffff" * 80, "a", None], pa.string()),
    ("text", [None], pa.string()),
    ("at", [datetime(9999, 12, 31, 23, 59, 59, 999999, UTC), datetime(1969, 12, 31, 23, 59, 59, 999001, UTC)], None),
]


@pytest.mark.parametrize(("name", "values", "kind"), ODD)
def test_every_value_is_found_whatever_the_statistics_say(
    tmp_path: Path, name: str, values: list[Any], kind: pa.DataType | None
) -> None:
    kind = kind or pa.timestamp("us", "UTC")
    rows = pa.table({name: pa.array(values, kind), "row": range(len(values)), "part": ["p %/"] * len(values)})
    write_deltalake(tmp_path, rows, partition_by=["part"])
    delta = DeltaTable(tmp_path)
    for number, value in enumerate(values):
        found = rows_where(delta, {name: [value], "part": ["p %/"]}, columns=["row", "part", "unknown"])
        same = [n for n, other in enumerate(values) if other == value or repr(other) == repr(value)]
        assert (number in same, found.to_pydict()) == (True, {"row": same, "part": ["p %/"] * len(same)})
    assert rows_where(delta, {name: [], "part": ["p %/"]}).num_rows == 0
    assert rows_where(delta, {"unknown": [None]}, pc.field("row") == 0).num_rows == 1


def test_a_zero_has_no_sign(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"number": [0.0, -0.0, 1.0]}))
    assert rows_where(DeltaTable(tmp_path), {"number": [-0.0]}).num_rows == 2
    assert rows_where(DeltaTable(tmp_path), {"number": [-0.0, NAN]}, most=1).num_rows == 1
    assert rows_where(DeltaTable(tmp_path), {"number": [0.0, 1.0]}, most=2, columns=["number"]).num_rows == 2


def test_rows_are_found_in_files_of_other_writers(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"id": ["a", "b", "c"], "seq": [1, 2, 3]}))
    DeltaTable(tmp_path).delete("id = 'b'")  # which leaves a file whose texts are declared as views
    write_deltalake(tmp_path, pa.table({"id": ["x", "c"], "seq": [4, 5]}), mode="append")
    delta = DeltaTable(tmp_path)
    assert [rows_where(delta, {"id": ["c"]}, most=most).num_rows for most in (None, 1, 5)] == [2, 1, 2]
    found = rows_where(delta, {"id": ["c"]}, pc.field("seq") > 1)
    assert sorted(found["seq"].to_pylist()) == [3, 5] and found.schema == delta.to_pyarrow_dataset().schema
    assert rows_where(delta, {"id": ["b"]}).num_rows == 0
