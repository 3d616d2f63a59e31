"""Beliefs, ``History(known=True)``: what was known when, sentence by sentence, on literal rows."""

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from incload_assets.assets import History
from tests.support.tables import Loaded, day, item, make

Belief = tuple[Any, ...]


def beliefs(table: Loaded) -> dict[bool, set[Belief]]:
    """Key, value and period of the versions, by whether they are still believed."""
    rows = table.rows("id", "value", "valid_from", "valid_to", "is_current", "is_known", "known_from", "known_to")
    assert all((row[7] is None) == row[5] and (row[5] or row[6] < row[7]) for row in rows)
    return {held: {row[:5] for row in rows if row[5] == held} for held in (True, False)}


def test_a_correction_ends_a_belief_and_does_not_rewrite_it(spark: SparkSession, tmp_path: Path) -> None:
    content = {day(1): [item("k", "a", 1), item("other", "x", 1)], day(2): [item("k", "b", 5)]}
    table = make(spark, tmp_path, content, write=History(known=True))
    table.load(1)
    assert beliefs(table) == {True: {("k", "a", 1, None, True), ("other", "x", 1, None, True)}, False: set()}
    table.load(2)
    assert beliefs(table) == {
        True: {("k", "a", 1, 5, False), ("k", "b", 5, None, True), ("other", "x", 1, None, True)},
        False: {("k", "a", 1, None, False)},
    }
    files = table.files()
    table.replay(table.load(2))
    assert table.files() == files
    content[day(2)] = [item("k", "c", 5)]
    table.load(2)
    assert beliefs(table) == {
        True: {("k", "a", 1, 5, False), ("k", "c", 5, None, True), ("other", "x", 1, None, True)},
        False: {("k", "a", 1, None, False), ("k", "b", 5, None, False)},
    }
