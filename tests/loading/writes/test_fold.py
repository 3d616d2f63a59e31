"""Fold, sentence by sentence, on literal rows."""

from pathlib import Path

from pyspark.sql import SparkSession

from incload_assets.loading import Changes, Fold
from tests.loading.tables import day, item, make
from tests.loading.writes.case_fold import Tally


def test_a_late_window_is_added_and_one_landed_again_contributes_what_it_now_holds(
    spark: SparkSession, tmp_path: Path
) -> None:
    content = {
        day(1): [item("a", "old", 1, amount="5", least="x"), item("b", "only", 1, amount=None, least=None)],
        day(2): [item("a", "new", 2, amount="3", least="y"), item("a", "newer", 3, amount="1", least="y")],
    }
    table = make(
        spark,
        tmp_path,
        content,
        contract=Tally,
        write=Fold(sums=["amount"], mins=["least"]),
        changes=Changes(keys=["id"], sequence_by=["seq"]),
    )
    table.load(2)
    assert table.rows() == {("a", "newer", 3, 4, "y")}
    late = table.load(1)
    assert table.rows() == {("a", "newer", 3, 9, "x"), ("b", "only", 1, None, None)}
    assert (late.evidence.applied, late.merged.inserted, late.merged.updated) == (2, 1, 1)

    content[day(2)] = []
    table.load(2)
    assert table.rows() == {("a", "old", 1, 5, "x"), ("b", "only", 1, None, None)}
    content[day(1)] = [item("a", "old", 1, amount="5", least="x")]
    gone = table.load(1)
    assert table.rows() == {("a", "old", 1, 5, "x")}
    assert (gone.merged.deleted, gone.evidence.applied, gone.evidence.pending) == (1, 1, 0)
