"""Merge with truncates, on literal rows."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from incload_assets.assets import Changes, Merge, Quarantine
from incload_assets.load.reconcile import Evidence
from incload_assets.platform.errors import DeclarationError
from incload_assets.trial.literal_source import Record
from incload_assets.writes.history import History
from tests.support.tables import DatedItem, day, item, make

CHANGES = Changes(keys="id", sequence_by="seq", delete_when="op = 'd'", truncate_when="op = 't'")


def truncate(seq: int | None) -> Record:
    return item(None, None, seq, "t")


def bins(evidence: Evidence) -> tuple[int, int, int, int]:
    return evidence.applied, evidence.stale, evidence.duplicate, evidence.quarantined


CONTENT = {
    day(1): [item("older", "a", 1), item("equal", "b", 3), item("newer", "c", 5), item("back", "d", 2)],
    day(2): [truncate(3), truncate(3), item("back", "e", 4), item("back", None, 3, "d")],
    day(3): [item("late", "f", 2), truncate(1)],
}
KEPT = {("equal", "b", 3), ("newer", "c", 5), ("back", "e", 4)}


def test_a_truncate_deletes_what_is_older_and_a_replay_of_it_writes_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = make(spark, tmp_path, dict(CONTENT), changes=CHANGES)
    table.load(1)
    second = table.load(2)
    assert bins(second.evidence) == (2, 1, 1, 0)
    assert (second.merged.deleted, second.merged.updated) == (1, 1)
    assert table.rows() == KEPT
    assert bins(table.load(3).evidence) == (0, 2, 0, 0)
    assert table.rows() == KEPT
    files = table.files()
    table.load(2)
    assert table.files() == files


def test_a_truncate_that_comes_first_keeps_out_what_is_older_until_it_is_withdrawn(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = make(spark, tmp_path, dict(CONTENT), changes=CHANGES)
    for window in (2, 3, 1):
        table.load(window)
    assert table.rows() == KEPT
    table.content[day(2)] = [item("back", "e", 4)]
    table.load(2)
    assert table.rows() == {*KEPT, ("older", "a", 1), ("late", "f", 2)}


def test_a_truncate_alone_in_another_window_is_seen(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path, {day(1): [truncate(3)], day(2): CONTENT[day(1)]}, changes=CHANGES)
    table.load(1)
    assert bins(table.load(2).evidence) == (2, 2, 0, 0)
    assert table.rows() == {("equal", "b", 3), ("newer", "c", 5)}


def test_a_truncate_without_a_sequence_is_quarantined_and_a_soft_one_marks_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    content = {day(1): [item("older", "a", 1), item("newer", "b", 4)], day(2): [truncate(3), truncate(None)]}
    table = make(
        spark,
        tmp_path,
        content,
        changes=CHANGES,
        write=Merge(soft_delete="is_deleted"),
        quarantine=Quarantine(max_share=0.5),
    )
    table.load(1)
    assert bins(table.load(2).evidence) == (1, 0, 0, 1)
    assert table.rows("id", "value", "seq", "is_deleted") == {("older", "a", 3, True), ("newer", "b", 4, False)}
    reason = ["seq: NULL, but a truncate deletes older rows"]
    assert table.log("rejected", "_reasons") == [(reason,)]


def test_what_columns_held_before_a_truncate_does_not_show_through_after_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    content = {day(1): [item("k", "a", 1)], day(2): [truncate(2)], day(3): [{"id": "k", "seq": "3", "op": "u"}]}
    for number, order in enumerate([(1, 2, 3), (3, 1, 2)]):
        table = make(spark, tmp_path / str(number), content, changes=CHANGES, write=Merge(partial=True))
        for window in order:
            table.load(window)
        assert table.rows() == {("k", None, 3)}


def test_a_truncate_is_refused_where_it_cannot_reach_the_whole_table(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match=r"and write\.partition_by is 'day'"):
        make(spark, tmp_path, contract=DatedItem, changes=CHANGES, write=Merge(partition_by="day"))
    with pytest.raises(DeclarationError, match="but History does not support truncates"):
        make(spark, tmp_path, changes=CHANGES, write=History())
