"""WindowRecord rows are read from their file once."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from incload_assets.change_log import window_records as control_rows
from incload_assets.change_log.log import ChangeLog
from tests.support.tables import day, item, make


def test_a_control_row_is_read_again_only_when_its_window_was_landed_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(spark, tmp_path, {day(n): [item(str(n), "a", 1)] for n in (1, 2)})
    log, read, asked = ChangeLog(table.table, table.lake), control_rows._read, []
    records = {report.window.key: report.record for report in (table.load(1), table.load(2))}
    version = log.version()
    monkeypatch.setattr(control_rows, "_remembered", {})

    def reading(delta: DeltaTable, files: pa.Table) -> dict[str, control_rows.WindowRecord]:
        asked.append(sorted(files["partition._window"].to_pylist()))
        return read(delta, files)

    monkeypatch.setattr(control_rows, "_read", reading)
    assert log.records() == log.records() == records
    assert (log.records(only=[]), log.record(day(1)), log.record(day(3))) == ({}, records[day(1)], None)
    assert asked == [[day(1), day(2)]]
    table.content[day(2)] = [item("2", "b", 2)]
    again = table.load(2).record
    assert (again.landing, log.records()) == (2, records | {day(2): again})
    assert log.records(version) == records, "the rows of an earlier version are in files of their own"
    assert all(keys == [day(2)] for keys in asked[1:])


def test_no_more_control_rows_are_remembered_than_stated(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(spark, tmp_path, {day(n): [item(str(n), "a", 1)] for n in (1, 2)})
    monkeypatch.setattr(control_rows, "_remembered", {})
    monkeypatch.setattr(control_rows, "REMEMBERED", 1)
    table.load(1)
    table.load(2)
    assert set(ChangeLog(table.table, table.lake).records()) == {day(1), day(2)}
    assert len(control_rows._remembered) == 1
