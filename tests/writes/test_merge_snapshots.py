"""Merge of changes with complete extracts among them, on literal rows."""

from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest
from pyspark.sql import SparkSession

from incload_assets.assets import Changes, Files, History, Merge, Quarantine
from incload_assets.ingest.full_extracts import MAX_SNAPSHOTS
from incload_assets.load.reconcile import Evidence
from incload_assets.platform.errors import ContractViolation, DeclarationError
from incload_assets.trial.literal_source import Record
from tests.support.files import write
from tests.support.tables import DatedItem, GoodItem, Item, day, item, make

CHANGES = Changes(keys="id", sequence_by="seq", delete_when="op = 'd'", snapshot_when="op = 's'")
ANY_SIZE = Merge(max_shrink=1.0)
FILES = Files("{landing}/{window:%Y-%m-%d}/*.csv")


def snapshot(seq: int | None, **values: str) -> list[Record]:
    """The rows of an extract that was taken at a position."""
    return [item(id, value, seq, "s") for id, value in values.items()]


def bins(evidence: Evidence) -> tuple[int, int, int, int]:
    return evidence.applied, evidence.stale, evidence.duplicate, evidence.quarantined


def table_of(spark: SparkSession, folder: Path, content: dict[str, list[Record]], **options: Any) -> Any:
    return make(spark, folder, content, **{"changes": CHANGES, "write": ANY_SIZE, **options})


CONTENT = {
    day(1): [item("gone", "a", 1), item("stays", "b", 2), item("old news", "c", 3)],
    day(2): [*snapshot(5, stays="B", new="N"), item("late", "d", 4)],
    day(3): [item("stays", None, 6, "d"), item("gone", "again", 7), item("new", "before", 4)],
}
RIGHT = {("gone", "again", 7), ("new", "N", 5)}


@pytest.mark.parametrize("order", list(permutations((1, 2, 3))))
def test_a_snapshot_and_the_changes_before_and_after_it_may_come_in_any_order(
    spark: SparkSession, tmp_path: Path, order: tuple[int, ...]
) -> None:
    table = table_of(spark, tmp_path, dict(CONTENT))
    reports = {number: table.load(number) for number in order}
    assert table.rows() == RIGHT
    stale = 2 if order.index(3) < order.index(2) else 1
    assert bins(reports[2].evidence) == (3 - stale, stale, 0, 0)
    files = table.files()
    table.replay(reports[2])
    assert table.files() == files


def test_a_snapshot_that_is_taken_back_gives_back_what_it_deleted(spark: SparkSession, tmp_path: Path) -> None:
    table = table_of(spark, tmp_path, {day(1): CONTENT[day(1)], day(2): snapshot(5, stays="B")})
    table.load(1)
    table.load(2)
    assert table.rows() == {("stays", "B", 5)}
    table.content[day(2)] = snapshot(2, stays="B")
    table.load(2)
    assert {row[0] for row in table.rows()} == {"stays", "old news"}
    table.content[day(2)] = [item("other", "o", 1)]
    table.load(2)
    assert table.rows() == {("gone", "a", 1), ("stays", "b", 2), ("old news", "c", 3), ("other", "o", 1)}


def test_several_snapshots_of_a_window_follow_each_other(spark: SparkSession, tmp_path: Path) -> None:
    content = {day(1): snapshot(5, a="2", c="2") + snapshot(3, a="1", b="1") + [item("b", "back", 6)]}
    table = table_of(spark, tmp_path, content)
    assert bins(table.load(1).evidence) == (3, 2, 0, 0)
    assert table.rows() == {("a", "2", 5), ("c", "2", 5), ("b", "back", 6)}


def test_a_snapshot_with_a_quarantined_row_deletes_nothing_until_it_is_corrected(
    spark: SparkSession, tmp_path: Path
) -> None:
    content = {day(1): [item("a", "old", 1), item("b", "old", 1)], day(2): snapshot(2, a="new", c="bad")}
    table = table_of(spark, tmp_path, content, contract=GoodItem, quarantine=Quarantine(max_share=0.5))
    table.load(1)
    said: list[str] = []
    assert bins(table.load(2, info=said.append).evidence) == (1, 0, 0, 1)
    assert "items 2026-01-02: full extract taken at 2, 1 row, deletes nothing because of 1 quarantined row" in said
    assert table.rows() == {("a", "new", 2), ("b", "old", 1)}
    table.content[day(2)] = snapshot(2, a="new", c="good")
    table.load(2)
    assert table.rows() == {("a", "new", 2), ("c", "good", 2)}


def test_a_row_without_a_position_keeps_every_snapshot_of_its_window_from_deleting(
    spark: SparkSession, tmp_path: Path
) -> None:
    content = {day(1): [item("a", "old", 1)], day(2): snapshot(2, b="new") + snapshot(None, a="new")}
    table = table_of(spark, tmp_path, content, quarantine=Quarantine(max_share=0.5))
    table.load(1)
    assert bins(table.load(2).evidence) == (1, 0, 0, 1)
    assert table.rows() == {("a", "old", 1), ("b", "new", 2)}
    reasons = [(["seq: NULL, but it is the position of the full extract"],)]
    assert table.log("rejected", "_reasons") == reasons


@pytest.fixture
def landing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("INCLOAD_LANDING", str(tmp_path / "in"))
    write(tmp_path / "in/2026-01-01/a.csv", "id,value,seq,op\na,old,1,u\nb,old,1,u\n")
    return tmp_path / "in"


def test_the_part_of_a_snapshot_whose_file_is_gone_still_counts(spark: SparkSession, landing: Path) -> None:
    write(landing / "2026-01-02/1.csv", "id,value,seq,op\nb,new,5,s\nc,new,5,s\nd,new,5,s\n")
    write(landing / "2026-01-02/2.csv", "id,value,seq,op\ne,new,5,s\n")
    options: dict[str, Any] = {"source": FILES, "quarantine": Quarantine(max_share=0.9), "write": Merge()}
    table = table_of(spark, landing / "lake", {}, **options)
    table.load(1)
    table.load(2)
    (landing / "2026-01-02/1.csv").unlink()
    table.load(2)
    assert table.rows() == {(name, "new", 5) for name in "bcde"}

    class NotD(Item):
        id: T.StringType = pa.Field(nullable=False, ne="d")

    stricter = table_of(spark, landing / "lake", {}, contract=NotD, code_version="2", **options)
    stricter.load(2)  # what is kept of the file breaks the contract now
    assert stricter.rows() == {*((name, "new", 5) for name in "bce"), ("a", "old", 1)}


def test_a_bad_row_whose_file_is_gone_still_keeps_its_snapshot_from_deleting(
    spark: SparkSession, landing: Path
) -> None:
    write(landing / "2026-01-02/1.csv", "id,value,seq,op\nb,bad,5,s\n")
    write(landing / "2026-01-02/2.csv", "id,value,seq,op\na,new,5,s\n")
    loose = Quarantine(max_share=0.9)
    table = table_of(spark, landing / "lake", {}, source=FILES, contract=GoodItem, quarantine=loose)
    table.load(1)
    table.load(2)
    (landing / "2026-01-02/1.csv").unlink()
    table.load(2)
    assert table.rows() == {("a", "new", 5), ("b", "old", 1)}


def test_a_row_that_does_not_tell_whether_it_is_of_a_snapshot_keeps_it_from_deleting(
    spark: SparkSession, tmp_path: Path
) -> None:
    class Told(Item):
        full: T.BooleanType = pa.Field(nullable=True)

    content = {
        day(1): [item("a", "old", 1), item("b", "old", 1)],
        day(2): [item("a", "new", 5, full="true"), item("b", "new", 5, full="perhaps")],
    }
    changes = Changes(keys="id", sequence_by="seq", snapshot_when="full")
    table = table_of(spark, tmp_path, content, contract=Told, changes=changes, quarantine=Quarantine(max_share=0.5))
    table.load(1)
    table.load(2)
    assert table.rows("id", "value") == {("a", "new"), ("b", "old")}


def test_a_snapshot_without_rows_deletes_nothing_and_one_that_is_suddenly_small_stops(
    spark: SparkSession, tmp_path: Path
) -> None:
    old = [item(name, "old", 1) for name in "abcd"]
    table = table_of(spark, tmp_path, {day(1): old, day(2): []}, write=Merge())
    table.load(1)
    table.load(2)
    assert len(table.rows()) == 4
    table.content[day(2)] = snapshot(2, a="new")
    with pytest.raises(ContractViolation, match="taken at 2 has 1 row, the table's rows up to then are 4"):
        table.load(2)
    assert len(table.rows()) == 4
    table.content[day(2)] = snapshot(2, a="new", b="new")
    table.load(2)
    assert table.rows() == {("a", "new", 2), ("b", "new", 2)}
    table.content[day(2)] = snapshot(2, a="new", b="new", c="new", d="new", e="new") + snapshot(3, a="newer")
    with pytest.raises(ContractViolation, match="taken at 3 has 1 row, the one before it had 5"):
        table.load(2)


def test_an_old_snapshot_is_held_against_what_is_as_old(spark: SparkSession, tmp_path: Path) -> None:
    content = {day(1): [item(name, "new", 9) for name in "abcd"], day(2): snapshot(2, e="old")}
    table = table_of(spark, tmp_path, content, write=Merge())
    table.load(1)
    table.load(2)
    assert table.rows() == {("a", "new", 9), ("b", "new", 9), ("c", "new", 9), ("d", "new", 9), ("e", "old", 2)}


def test_rows_that_each_have_a_position_of_their_own_are_no_snapshot(spark: SparkSession, tmp_path: Path) -> None:
    rows = [item(str(n), "v", n, "s") for n in range(MAX_SNAPSHOTS + 1)]
    with pytest.raises(ContractViolation, match=r"more than 300 different values in 'seq'.*same value"):
        table_of(spark, tmp_path, {day(1): rows}).load(1)


def test_snapshots_mark_rows_where_deletes_do_and_end_what_was_known_of_columns(
    spark: SparkSession, tmp_path: Path
) -> None:
    content = {day(1): [item("a", "old", 1), item("b", "old", 1)], day(2): [{"id": "a", "seq": "2", "op": "s"}]}
    soft = table_of(spark, tmp_path / "soft", content, write=Merge(soft_delete="gone", max_shrink=1.0))
    partial = table_of(spark, tmp_path / "partial", content, write=Merge(partial=True, max_shrink=1.0))
    for table in (soft, partial):
        table.load(1)
        table.load(2)
    assert soft.rows("id", "value", "seq", "gone") == {("a", None, 2, False), ("b", "old", 2, True)}
    assert partial.rows() == {("a", None, 2)}


def test_snapshots_are_refused_where_they_cannot_reach_the_whole_table(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match=r"snapshot_when is .* and write\.partition_by is 'day'"):
        make(spark, tmp_path, contract=DatedItem, changes=CHANGES, write=Merge(partition_by="day"))
    with pytest.raises(DeclarationError, match="but History does not support full extracts"):
        make(spark, tmp_path, changes=CHANGES, write=History())
    with pytest.raises(DeclarationError, match=r"snapshot_when is .*, but 'seq', .* is also in changes\.keys"):
        make(spark, tmp_path, changes=replace(CHANGES, keys=["seq", "id"]))
    with pytest.raises(DeclarationError, match=r"write\.max_shrink is 2"):
        make(spark, tmp_path, changes=CHANGES, write=Merge(max_shrink=2))
