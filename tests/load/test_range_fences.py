"""Which windows a table has merged is seen by the table alone, for every write strategy."""

import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.window_records import window_records_of
from incload_assets.load.hold import hold_window
from incload_assets.load.range_fences import not_merged
from tests.support.tables import Loaded, day, item, make
from tests.writes.case import Case
from tests.writes.cases import DAILY


def lacking(table: Loaded) -> list[str]:
    log, delta = DeltaTable(table.lake.log_uri(table.table.key.path)), DeltaTable(table.uri)
    records = window_records_of(log)
    return not_merged(table.table, {w: records[w.key] for w in table.table.known_windows(records)}, delta)


@pytest.mark.parametrize("case", {type(case.write): case for case in DAILY}.values(), ids=lambda case: case.name)
def test_a_table_lacks_what_was_merged_after_it_was_copied_and_nothing_else(
    spark: SparkSession, tmp_path: Path, case: Case
) -> None:
    table = make(spark, tmp_path, **case.declared)
    table.content |= {day(1): [item("a", "x", 1, day=day(1))], day(2): [item("b", "x", 1, day=day(2))]}
    table.load(1, run_id="run 1")
    table.load(2, run_id="run 2")
    shutil.copytree(table.uri, tmp_path / "older")
    table.content[day(2)] = [item("b", "new", 9, day=day(2))]
    table.load(2, run_id="run 3")
    window = table.table.window_of(day(1))
    assert (
        hold_window(LoadContext(spark, table.table, table.lake), window, actor="a test", because="a test") is not None
    )
    assert lacking(table) == []
    shutil.rmtree(table.uri)
    shutil.copytree(tmp_path / "older", table.uri)
    spark.sql(f"UPDATE {table.lake.sql_name(table.uri)} SET value = 'edited'")  # versions that hide that it is older
    assert lacking(table) == [day(2)]
