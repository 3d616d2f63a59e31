"""Of a large table only rows of the keys concerned are looked at; of a small one, all."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from incload_assets.assets import Changes, Fold, History, Merge
from incload_assets.change_log import read_view
from incload_assets.declaration.write import Write
from tests.support.tables import day, item, make

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
