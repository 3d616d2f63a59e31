"""A file that comes into a window costs what it holds, and the log has what the whole window would have put there."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest
from pyspark.sql import SparkSession

from incload_assets.assets import Append, Changes, Files, History, Merge, Quarantine
from incload_assets.declaration.write import Write
from incload_assets.ingest import gains
from incload_assets.ingest import ingest as landing
from incload_assets.ingest.facts import Facts
from incload_assets.load.load import LoadReport
from incload_assets.platform.errors import ContractViolation
from tests.support.tables import GoodItem, Item, Loaded, day, item, make
from tests.writes.case import SEED

GAINED = "new rows beside"
KEYED = Changes(keys=["id"], sequence_by=["seq"], delete_when="op = 'd'")


class Named(Item):
    """An item whose value no other key has."""

    class Config:
        """Of the model."""

        unique = ["value"]  # noqa: RUF012 - pandera reads it


@pytest.fixture
def area(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The landing area."""
    monkeypatch.setenv("INCLOAD_LANDING", str(tmp_path / "landing"))
    return tmp_path / "landing"


def deliver(area: Path, name: str, *records: dict[str, Any]) -> Path:
    file = area / "items" / day(1) / f"{name}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    return file


def table_of(spark: SparkSession, lake: Path, **declared: Any) -> Loaded:
    declared = {"contract": GoodItem, "quarantine": Quarantine(max_share=1.0)} | declared
    return make(spark, lake, source=Files("{landing}/items/{window:%Y-%m-%d}/*.json"), **declared)


def load(table: Loaded) -> tuple[LoadReport, str]:
    """The report, and what was said."""
    said: list[str] = []
    return table.load(1, info=said.append), "\n".join(said)


def landed(table: Loaded) -> list[tuple[Any, ...]]:
    """The rows of the log, but for what tells when and how often they were landed."""
    names = (*table.table.columns, "_hash", "_reasons", "_source")
    return [(kind, *row) for kind in ("upsert", "delete", "rejected", "replaced") for row in table.log(kind, *names)]


def told(report: LoadReport) -> dict[str, Any]:
    """The window's record, but for what tells when and in how many parts it was landed."""
    of_parts = ("landing", "landed_at", "former", "largest_key", "largest_place")
    return {name: value for name, value in vars(report.record).items() if name not in of_parts}


def log_files(table: Loaded) -> set[str]:
    delta = table.lake.delta(table.lake.log_uri(table.table.key.path))
    assert delta is not None
    return {uri for uri in delta.file_uris() if "_kind=control" not in uri}


def before_the_commit(patch: pytest.MonkeyPatch, happens: Callable[[], object]) -> None:
    """Have something happen once, when the next new file is read and not yet committed."""
    with_before = landing.with_before

    def meanwhile(*args: Any) -> Facts:
        patch.setattr(landing, "with_before", with_before)
        happens()
        return with_before(*args)

    patch.setattr(landing, "with_before", meanwhile)


def test_a_file_that_comes_into_a_window_is_landed_beside_what_was_there(
    spark: SparkSession, tmp_path: Path, area: Path
) -> None:
    table = table_of(spark, tmp_path / "lake")
    deliver(area, "a", item("1", "a", 1), item("2", "a", 1), item("3", "bad", 1))
    load(table)
    before = log_files(table)
    deliver(area, "b", item("1", "b", 2), item("2", None, 2, "d"), item("4", "b", 9), item("5", "bad", 1))

    report, said = load(table)

    assert f"read 4 {GAINED} 3 ingested before, 1 to quarantine" in said
    assert before < log_files(table)
    assert table.rows() == {("1", "b", 2), ("4", "b", 9)}
    e = report.evidence
    assert (e.rows_read, e.applied, e.stale, e.quarantined) == (7, 3, 2, 2)


@pytest.mark.parametrize(
    ("write", "changes"),
    [
        (Merge(), KEYED),
        (Merge(soft_delete="gone"), KEYED),
        (History(), KEYED),
        (Append(), Changes(keys=["id"], sequence_by=["seq"])),
        (Append(), Changes()),
    ],
    ids=["merge", "soft delete", "history", "append by key", "append"],
)
def test_file_by_file_the_log_and_the_table_become_what_one_landing_of_all_makes_them(
    spark: SparkSession, tmp_path: Path, area: Path, write: Write, changes: Changes
) -> None:
    chance = random.Random(SEED)
    table = table_of(spark, tmp_path / "lake", write=write, changes=changes)
    for number in range(4):
        ops = "uuud" if changes.delete_when else "u"
        values = ["a", "b", "bad", None] if number else ["a", "b"]
        rows = [
            item(str(chance.randrange(6)), chance.choice(values), chance.randrange(1, 9), chance.choice(ops))
            for _ in range(chance.randrange(1, 8))
        ]
        deliver(area, f"{number}", *rows)
        report, said = load(table)
        assert (GAINED in said) == (number > 0)
    whole = table_of(spark, tmp_path / "whole", write=write, changes=changes)
    at_once, said = load(whole)
    assert GAINED not in said
    assert (landed(table), told(report)) == (landed(whole), told(at_once)), f"INCLOAD_TEST_SEED={SEED}"
    assert (table.rows(), report.evidence) == (whole.rows(), at_once.evidence), f"INCLOAD_TEST_SEED={SEED}"


def test_what_is_more_than_new_files_is_landed_as_a_whole(spark: SparkSession, tmp_path: Path, area: Path) -> None:
    table = table_of(spark, tmp_path / "lake")
    first = deliver(area, "a", item("1", "a", 1), item("2", "a", 1))
    load(table)
    deliver(area, "b", item("3", "b", 1))
    deliver(area, "a", item("1", "A", 1))
    _, said = load(table)
    assert GAINED not in said, "a file has changed"
    assert table.rows() == {("1", "A", 1), ("3", "b", 1)}
    deliver(area, "c", item("4", "c", 1))
    _, said = load(table)
    assert GAINED not in said, "the log has the mark of the row that was taken away"
    first.unlink()
    deliver(area, "d", item("5", "d", 1))
    _, said = load(table)
    assert GAINED not in said, "a file is gone"
    other = table_of(spark, tmp_path / "lake", code_version="2")
    deliver(area, "e", item("6", "e", 1))
    _, said = load(other)
    assert GAINED not in said, "other code validates otherwise"
    assert other.rows() == {("1", "A", 1), *((str(n), value, 1) for n, value in zip(range(3, 7), "bcde", strict=True))}


def test_a_window_of_many_files_in_the_log_is_landed_as_a_whole_in_few(
    spark: SparkSession, tmp_path: Path, area: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gains, "MOST_FILES", 2)
    table = table_of(spark, tmp_path / "lake")
    counts = []
    for name in "abcde":
        deliver(area, name, item(name, name, 1))
        load(table)
        counts.append(len(log_files(table)))
    assert counts == [1, 2, 3, 1, 2]
    assert table.rows() == {(name, name, 1) for name in "abcde"}


def test_where_a_row_is_validated_by_others_the_window_is_landed_as_a_whole(
    spark: SparkSession, tmp_path: Path, area: Path
) -> None:
    table = table_of(spark, tmp_path / "lake", contract=Named)
    deliver(area, "a", item("1", "same", 1), item("2", "other", 1))
    load(table)
    deliver(area, "b", item("3", "same", 1), item("4", "new", 1))
    report, said = load(table)
    assert GAINED not in said
    assert (report.record.rejected, table.rows()) == (2, {("2", "other", 1), ("4", "new", 1)})


class DatedGood(GoodItem):
    """The same with the day it belongs to."""

    day: T.DateType = pa.Field(nullable=False)


def dated(key: str, value: str, of: int, seq: int = 1) -> dict[str, Any]:
    return item(key, value, seq, day=day(of))


def test_rows_of_one_partition_are_landed_beside_what_was_there_without_a_look_at_others(
    spark: SparkSession, tmp_path: Path, area: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_of(spark, tmp_path / "lake", contract=DatedGood, write=Merge(partition_by="day"))
    deliver(area, "a", dated("1", "a", 1), dated("2", "a", 1))
    load(table)
    monkeypatch.setattr(gains, "has_torn_keys", None)
    deliver(area, "b", dated("2", "b", 1, 2), dated("3", "b", 1))
    _, said = load(table)
    assert f"read 2 {GAINED} 2 ingested before" in said
    assert table.rows("id", "value") == {("1", "a"), ("2", "b"), ("3", "b")}


@pytest.mark.parametrize("key", ["1", "2", "7"])
def test_a_key_that_comes_in_a_second_partition_is_rejected_with_its_former_rows(
    spark: SparkSession, tmp_path: Path, area: Path, key: str
) -> None:
    """The second key is in quarantine, where another contract may have put it; the last one is new."""
    table = table_of(spark, tmp_path / "lake", contract=DatedGood, write=Merge(partition_by="day"))
    deliver(area, "a", dated("1", "a", 1), dated("2", "bad", 1), dated("3", "a", 1), dated("4", "a", 2))
    load(table)
    deliver(area, "b", dated(key, "b", 2), dated("3", "b", 1, 2))
    report, said = load(table)
    assert (GAINED in said) == (key == "7")
    whole = table_of(spark, tmp_path / "whole", contract=DatedGood, write=Merge(partition_by="day"))
    at_once, _ = load(whole)
    replaced = [row for row in landed(table) if row[0] != "replaced"]
    assert (replaced, report.record.rejected) == (landed(whole), at_once.record.rejected)
    assert table.rows() == whole.rows()
    assert ("3", "b") in table.rows("id", "value")


def test_too_many_rejected_rows_of_the_whole_window_stop_a_new_file_and_leave_the_log(
    spark: SparkSession, tmp_path: Path, area: Path
) -> None:
    table = table_of(spark, tmp_path / "lake", quarantine=Quarantine(max_share=0.5))
    deliver(area, "a", *(item(str(number), "a", 1) for number in range(4)))
    load(table)
    before = log_files(table)
    deliver(area, "b", item("4", "bad", 1), item("5", "bad", 1))
    assert load(table)[0].record.rejected == 2, "2 of 6"
    deliver(area, "c", *(item(str(number), "bad", 1) for number in range(6, 10)))
    files = log_files(table)
    with pytest.raises(ContractViolation, match=r"6 of 10 rows \(60.0%\) break GoodItem: 6 x value"):
        load(table)
    assert before < files == log_files(table)


def test_a_landing_that_another_one_overtakes_adds_nothing_to_what_that_has_landed(
    spark: SparkSession, tmp_path: Path, area: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_of(spark, tmp_path / "lake")
    deliver(area, "a", item("1", "a", 1))
    load(table)
    deliver(area, "b", item("2", "b", 1))
    before_the_commit(monkeypatch, lambda: load(table))
    load(table)
    assert [row[0] for row in table.log("upsert", "id")] == ["1", "2"]


def test_a_landing_whose_log_is_restored_meanwhile_adds_nothing_to_older_rows(
    spark: SparkSession, tmp_path: Path, area: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_of(spark, tmp_path / "lake")
    deliver(area, "a", item("1", "a", 1))
    load(table)
    versions = table.versions()
    deliver(area, "b", item("2", "b", 1))
    load(table)
    deliver(area, "c", item("3", "c", 1))
    before_the_commit(monkeypatch, lambda: table.restore(versions))
    load(table)
    assert table.rows() == {("1", "a", 1), ("2", "b", 1), ("3", "c", 1)}
    assert [row[0] for row in table.log("upsert", "id")] == ["1", "2", "3"]


def test_a_new_csv_file_without_a_column_that_others_have_is_read_with_them(
    spark: SparkSession, tmp_path: Path, area: Path
) -> None:
    folder = area / "items" / day(1)
    folder.mkdir(parents=True)
    table = make(spark, tmp_path / "lake", source=Files("{landing}/items/{window:%Y-%m-%d}/*.csv"))
    (folder / "a.csv").write_text("id,value,seq,op\n1,a,1,u\n2,a,1,u\n")
    load(table)
    (folder / "b.csv").write_text("id,value,seq\n3,b,1\n")
    _, said = load(table)
    assert GAINED not in said
    assert table.rows() == {("1", "a", 1), ("2", "a", 1), ("3", "b", 1)}
