"""What a load reads of table and log."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from incload_assets.assets import Merge
from incload_assets.declaration.write import Write
from incload_assets.writes.merge_into import app_id
from tests.support.tables import DatedItem, Loaded, day, item, make


def windows_read(table: Loaded, number: int) -> set[str]:
    """The windows whose files of the log may have changes of the keys of a window."""
    context, window = table.context(), table.table.window_of(day(number))
    at = context.read_view((window,), app_id(table.table, window))
    assert at.log_files is not None and at.log_bytes == at.log_files.size
    return {str(window) for window, _ in at.log_files.names}


@pytest.mark.parametrize(
    ("write", "read"),
    [
        (Merge(partition_by="day"), {1: {1, 3}, 2: {2}, 3: {1, 2, 3}}),
        (Merge(partition_by="value"), {1: {1, 3}, 3: {1, 2, 3}}),
        (Merge(), {1: {1, 2, 3}, 2: {1, 2, 3}}),
        (Merge(buckets=2), {1: {1, 2, 3}, 2: {1, 2, 3}}),
    ],
    ids=["by day", "by a text", "no partitions", "buckets"],
)
def test_keys_are_folded_from_files_of_the_log_that_may_have_changes_of_their_partitions(
    spark: SparkSession, tmp_path: Path, write: Write, read: dict[int, set[int]]
) -> None:
    content = {
        day(1): [item("1", "a", 1, day=day(1))],
        day(2): [item("2", "b", 1, day=day(2)), item("3", "b", 1, day=day(2))],
        day(3): [item("4", "a", 1, day=day(1)), item("5", "c", 1, day=day(3))],
    }
    table = make(spark, tmp_path, content, contract=DatedItem, write=write)
    for number in (1, 2, 3):
        table.load(number)
    assert {number: windows_read(table, number) for number in read} == {n: {*map(day, w)} for n, w in read.items()}
    content[day(1)] = []
    table.load(1)
    assert {row[0] for row in table.rows()} == {"2", "3", "4", "5"}
