"""A source whose rows leave a window when they change again: what was landed stays, and the table is right."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from pyspark.sql import SparkSession

from incload_assets.assets import Quarantine
from incload_assets.change_log.log import ChangeLog
from incload_assets.checks.source_comparison import content_of, log_content, source_rows
from incload_assets.declaration.window import window_of
from incload_assets.trial.literal_source import LiteralSource
from tests.support.detection import detected
from tests.support.tables import GoodItem, Loaded, day, item, make


@dataclass(frozen=True)
class CurrentRows(LiteralSource):
    """Each row stands in the window of its newest change only."""

    retains_absent_keys: ClassVar[bool] = True


def table_of(spark: SparkSession, folder: Path, **windows: list[dict[str, str | None]]) -> Loaded:
    content = {day(int(name[1:])): rows for name, rows in windows.items()}
    return make(
        spark, folder, content, source=CurrentRows(content), contract=GoodItem, quarantine=Quarantine(max_share=0.5)
    )


def test_a_row_that_left_its_window_stays_until_it_is_loaded_where_it_went(spark: SparkSession, tmp_path: Path) -> None:
    table = table_of(spark, tmp_path, d1=[item("a", "1", 1), item("b", "1", 1), item("c", "1", 1), item("d", "1", 1)])
    table.load(1)
    table.content[day(1)] = [item("b", "2", 2), item("c", "bad", 2), item("e", "late", 1)]  # a went, d was deleted
    report = table.load(1)
    assert table.rows() == {("a", "1", 1), ("b", "2", 2), ("c", "1", 1), ("d", "1", 1), ("e", "late", 1)}
    assert report.evidence.rows_read == 6, "three that are shown, and the former rows of a, c and d"
    assert (report.evidence.applied, report.evidence.quarantined) == (5, 1)
    table.content[day(2)] = [item("a", "9", 9), item("c", "3", 3)]
    table.load(2)
    assert table.rows() == {("a", "9", 9), ("b", "2", 2), ("c", "3", 3), ("d", "1", 1), ("e", "late", 1)}
    table.content[day(1)] = []
    table.load(1)
    assert table.rows() == {("a", "9", 9), ("b", "2", 2), ("c", "3", 3), ("d", "1", 1), ("e", "late", 1)}
    assert table.log("rejected", "id") == [], "what is rejected is so only as long as the source shows it"


def test_reconciliation_asks_whether_all_that_the_source_shows_was_landed(spark: SparkSession, tmp_path: Path) -> None:
    table = table_of(spark, tmp_path, d1=[item("a", "1", 1), item("b", "1", 1)])
    table.load(1)

    def agrees() -> bool:
        window, log = window_of(table.table.partitions_def, day(1)), ChangeLog(table.table, table.lake)
        position = detected(table.table.source, "", [window], {})[day(1)]
        version = log.version()
        assert version is not None
        with source_rows(spark, table.table, table.lake, window, position) as rows:
            return content_of(rows) == log_content(spark, table.table, log, version, window, position, rows)

    assert agrees()
    table.content[day(1)] = [item("b", "1", 1)]
    assert agrees(), "a row that changed again is somebody else's"
    table.content[day(1)] = [item("b", "1", 1), item("c", "late", 1)]
    assert not agrees(), "a row that was committed late is found"
    table.load(1)
    assert agrees()
