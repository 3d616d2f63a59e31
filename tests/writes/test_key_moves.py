"""Rows that get new keys while large values are left alone, on literal rows."""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from incload_assets.assets import Changes, Merge
from incload_assets.change_log.log import ChangeLog
from incload_assets.checks.source_comparison import table_evidence
from incload_assets.declaration.window import window_of
from incload_assets.platform.errors import DeclarationError
from incload_assets.platform.settings import Settings
from incload_assets.platform.spark.resource import open_session
from incload_assets.trial.literal_source import Record
from tests.support.tables import DAYS, Loaded, day, item, make

MARKER = "__unavailable"
CHANGES = Changes(keys="id", sequence_by="seq", delete_when="op = 'd'", unavailable=MARKER, moved_when="op = 'c'")


def moved(old: str, new: str, seq: int, value: str = MARKER) -> list[Record]:
    """What a source tells of a new key."""
    return [item(old, None, seq, "d"), item(new, value, seq, "c")]


def table(spark: SparkSession, folder: Path, content: dict[str, list[Record]]) -> Loaded:
    return make(spark, folder, content, changes=CHANGES, write=Merge(buckets=5))


def test_a_value_is_handed_on_through_every_key_that_a_row_has_had_even_one_that_comes_late(
    spark: SparkSession, tmp_path: Path
) -> None:
    content = {
        day(1): [item("a", "first", 1, "c")],
        day(2): [*moved("a", "b", 4), item("b", MARKER, 5), *moved("b", "c", 6)],
        day(3): [item("a", "late", 3)],
        day(4): [*moved("c", "a", 8), item("c", "other", 9, "c")],
    }
    loaded = table(spark, tmp_path, content)
    assert loaded.load(2).evidence.waiting == 1
    assert loaded.rows() == set()
    loaded.load(1)
    assert loaded.rows() == {("c", "first", 6)}
    loaded.load(4)
    assert loaded.rows() == {("a", "first", 8), ("c", "other", 9)}
    loaded.load(3)
    assert loaded.rows() == {("a", "late", 8), ("c", "other", 9)}


def test_nothing_is_handed_on_from_before_a_deletion_of_the_old_key_nor_from_after_the_move(
    spark: SparkSession, tmp_path: Path
) -> None:
    content = {
        day(1): [item("a", "deleted", 1, "c"), item("a", None, 2, "d"), item("a", MARKER, 4), *moved("a", "b", 5)],
        day(2): [item("a", "again", 6, "c"), item("b", MARKER, 7)],
        day(3): [item("a", None, 3, "c")],
    }
    loaded = table(spark, tmp_path, content)
    loaded.load(1)
    assert loaded.rows() == set()
    loaded.load(2)
    assert loaded.rows() == {("a", "again", 6)}
    assert loaded.load(3).evidence.waiting == 0
    assert loaded.rows() == {("a", "again", 6), ("b", None, 7)}  # NULL is a value: the row had it under its old key


def test_a_row_waits_again_when_the_delete_of_its_old_key_is_taken_away(spark: SparkSession, tmp_path: Path) -> None:
    [delete, create] = moved("a", "b", 2)
    content = {day(1): [item("a", "value", 1, "c")], day(2): [delete], day(3): [create]}
    loaded = table(spark, tmp_path, content)
    for window in (3, 1, 2):
        loaded.load(window)
    assert loaded.rows() == {("b", "value", 2)}
    content[day(2)] = []
    loaded.load(2)
    assert loaded.rows() == {("a", "value", 1)}


def test_a_row_that_has_had_many_keys_has_the_value_of_its_first_one(spark: SparkSession, tmp_path: Path) -> None:
    keys = [f"k{number}" for number in range(25)]
    moves = [record for n, (old, new) in enumerate(pairwise(keys), 2) for record in moved(old, new, n)]
    loaded = table(spark, tmp_path, {day(1): [item(keys[0], "first", 1, "c")], day(2): moves})
    loaded.load(2)
    loaded.load(1)
    assert loaded.rows() == {(keys[-1], "first", 25)}
    loaded.load(2)
    assert loaded.rows() == {(keys[-1], "first", 25)}


def test_a_row_that_moves_is_loaded_in_a_session_that_is_not_the_active_one(
    spark: SparkSession, spark_url: str, tmp_path: Path
) -> None:
    assert spark.active() is spark
    with open_session(Settings(spark=spark_url)) as other:
        assert other is not spark
        loaded = table(other, tmp_path, {day(1): [item("a", "first", 1, "c"), *moved("a", "b", 4)]})
        with ThreadPoolExecutor(1) as thread_without_an_active_session:
            thread_without_an_active_session.submit(loaded.load, 1).result()
        loaded.content[day(2)] = moved("b", "c", 5)
        loaded.load(2)
        assert loaded.rows() == {("c", "first", 5)}


def test_moves_are_declared_together_with_deletes_and_a_text_for_what_is_unavailable(
    spark: SparkSession, tmp_path: Path
) -> None:
    changes = Changes(keys="id", sequence_by="seq", unavailable=MARKER, moved_when="op = 'c'")
    with pytest.raises(DeclarationError, match=r"changes.moved_when is \"op = 'c'\", without unavailable or without"):
        make(spark, tmp_path, changes=changes)


def test_moves_that_were_landed_count_as_upserts_when_they_are_no_longer_declared(
    spark: SparkSession, tmp_path: Path
) -> None:
    content = {day(1): [item("a", "value", 1, "c")], day(2): moved("a", "b", 2)}
    loaded = table(spark, tmp_path, content)
    for window in (1, 2):
        loaded.load(window)
    whole = Changes(keys="id", sequence_by="seq", delete_when="op = 'd'")
    content[day(3)] = [item("c", "new", 3)]
    without = make(spark, tmp_path, content, changes=whole, write=Merge(buckets=5), code_version="2")
    without.load(3)
    assert without.rows("id", "seq") == {("b", 2), ("c", 3)}
    log = ChangeLog(without.table, without.lake)
    evidence = table_evidence(spark, without.table, without.lake, log, window_of(DAYS, day(2)))
    assert evidence is not None and evidence.keys == 2  # what is folded of b now has no value: it is to be loaded again
