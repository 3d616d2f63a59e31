"""Statistics are exact or left out."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Schema
from deltalake.transaction import AddAction

from incload_assets.change_log.file_statistics import LONGEST_TEXT, statistics_of
from incload_assets.platform.lake import data_files

AT = datetime(2026, 1, 5, 10, 0, 0, 123_456, tzinfo=UTC)


def told(folder: Path, column: pa.Array, **options: Any) -> dict[str, Any]:
    pq.write_table(pa.table({"c": column}), folder / "a.parquet", **options)
    return dict(json.loads(statistics_of(pq.read_metadata(folder / "a.parquet"), ["c", "not there"])))


@pytest.mark.parametrize(
    ("column", "low", "high"),
    [
        (pa.array([3, None, 1]), 1, 3),
        (pa.array([date(2026, 1, 5), None, date(2025, 1, 5)]), "2025-01-05", "2026-01-05"),
        (
            pa.array([AT, None, AT], pa.timestamp("us", "UTC")),
            "2026-01-05T10:00:00.123456Z",
            "2026-01-05T10:00:00.123456Z",
        ),
        (pa.array([AT.replace(tzinfo=None), None, None], pa.timestamp("us")), *["2026-01-05T10:00:00.123456"] * 2),
        (pa.array(["b", None, 'a"']), 'a"', "b"),
        (pa.array([1.5, None, -2.0]), -2.0, 1.5),
        (pa.array([Decimal("1.50"), None, Decimal("-2.00")], pa.decimal128(30, 2)), -2.0, 1.5),
    ],
    ids=["integer", "date", "instant", "local time", "text", "number", "decimal"],
)
def test_rows_nulls_and_both_ends_are_told_as_delta_writes_them(
    tmp_path: Path, column: pa.Array, low: Any, high: Any
) -> None:
    nulls = column.null_count
    expected = {"numRecords": 3, "minValues": {"c": low}, "maxValues": {"c": high}, "nullCount": {"c": nulls}}
    assert told(tmp_path, column) == expected
    assert told(tmp_path, column, row_group_size=1) == expected


@pytest.mark.parametrize("text", ["\U0010ffff", "\U00020000", 'é"\\\n'])
def test_deltalake_reads_the_ends_of_texts_as_they_are(tmp_path: Path, text: str) -> None:
    pq.write_table(pa.table({text: [text]}), tmp_path / "a.parquet")
    statistics = statistics_of(pq.read_metadata(tmp_path / "a.parquet"), [text])
    table = DeltaTable.create(tmp_path, Schema.from_arrow(pa.schema([(text, pa.string())])))
    table.create_write_transaction([AddAction("a.parquet", 1, {}, 0, True, statistics)], "append", table.schema(), [])
    [file] = data_files(DeltaTable(tmp_path)).to_pylist()
    assert (file[f"min.{text}"], file[f"max.{text}"]) == (text, text)


@pytest.mark.parametrize(
    "column",
    [
        pa.array([None, None], pa.int64()),
        pa.array(["x" * (LONGEST_TEXT + 1), "a"]),
        pa.array([float("inf"), 1.0]),
        pa.array([2**31 - 1, 0], pa.int32()).cast(pa.date32()),
        pa.array([b"a", b"b"]),
        pa.array([True, False]),
    ],
    ids=["only nulls", "long text", "infinity", "a year that Python does not know", "bytes", "truth"],
)
def test_ends_that_have_no_exact_form_are_left_out(tmp_path: Path, column: pa.Array) -> None:
    found = told(tmp_path, column)
    assert (found["minValues"], found["maxValues"], found["nullCount"]) == ({}, {}, {"c": column.null_count})


def test_without_statistics_in_the_file_only_its_rows_are_told(tmp_path: Path) -> None:
    found = told(tmp_path, pa.array([1, 2]), write_statistics=False)
    assert found == {"numRecords": 2, "minValues": {}, "maxValues": {}, "nullCount": {}}
