"""Of table and log a load reads what may concern its keys; of a small table, all rows."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from incload_assets.assets import Changes, Fold, History, Merge
from incload_assets.change_log import read_view
from incload_assets.declaration.write import Write
from incload_assets.writes.merge_into import app_id
from tests.support.tables import DatedItem, Loaded, day, item, make

WAYS = {"merge": Merge(), "soft delete": Merge(soft_delete="is_deleted"), "fold": Fold(), "history": History()}


@pytest.mark.parametrize("size", ["large", "small"])
@pytest.mark.parametrize("write", WAYS.values(), ids=WAYS)
def test_rows_of_other_keys_stay_as_they_are_whether_a_table_counts_as_large_or_small(
    spark: SparkSession, tmp_path: Path, write: Write, size: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_view, "WORTH_FILTERING_BYTES", 0 if size == "large" else 2**40)
    changes = Changes(keys=["id"], sequence_by=["seq"], delete_when="op = 'd'" if write.deletes else None)
    content = {
        day(1): [item("kept", "a", 1), item("changed", "a", 1), item("wrong", "a", 1)],
        day(2): [item("changed", "b", 2), item("new", "b", 2)],
    }
    table = make(spark, tmp_path, content, write=write, changes=changes)
    table.load(1)
    table.load(2)
    former = {("changed", "a", 1)} if isinstance(write, History) else set()
    rows = {("kept", "a", 1), ("changed", "b", 2), ("new", "b", 2)} | former
    assert table.rows("id", "value", "seq") == rows | {("wrong", "a", 1)}
    table.content[day(1)] = content[day(1)][:2]
    table.load(1)
    assert table.rows("id", "value", "seq") == rows


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
