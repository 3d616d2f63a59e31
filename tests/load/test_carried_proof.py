"""A window that has gained rows is compared by the keys of these alone, and the proof of the others is carried on."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from incload_assets.assets import Append, Changes, Files, Fold, History, Merge, Quarantine
from incload_assets.declaration.write import Write
from incload_assets.load import apply, proven
from incload_assets.load.load import LoadReport
from incload_assets.platform.errors import ReconciliationFailed
from incload_assets.progress.checkpoint import Checkpoint
from tests.support.tables import DatedItem, Loaded, by_hand, checkpoint_of, day, item, make
from tests.writes.case import SEED

CARRIED = "the others were proven"
KEYED = Changes(keys=["id"], sequence_by=["seq"], delete_when="op = 'd'")


@pytest.fixture(autouse=True)
def small_windows_are_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proven, "MANY", 1)
    monkeypatch.setattr(proven, "LARGEST_SHARE", 100)


@pytest.fixture
def area(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The landing area."""
    monkeypatch.setenv("INCLOAD_LANDING", str(tmp_path / "landing"))
    return tmp_path / "landing"


def deliver(area: Path, window: int, name: str, *records: dict[str, Any]) -> None:
    file = area / "items" / day(window) / f"{name}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(record) + "\n" for record in records))


def dated(key: str, value: str | None, seq: int, op: str = "u", of: int = 1) -> dict[str, Any]:
    return item(key, value, seq, op, day=day(of))


def table_of(spark: SparkSession, lake: Path, **declared: Any) -> Loaded:
    declared = {"contract": DatedItem, "quarantine": Quarantine(max_share=1.0)} | declared
    return make(spark, lake, source=Files("{landing}/items/{window:%Y-%m-%d}/*.json"), **declared)


def load(table: Loaded, before: LoadReport, said: list[str] | None = None) -> LoadReport:
    """The next load of a window whose last load was checkpointed."""
    info = said.append if said is not None else (lambda _: None)
    return table.load(before.window.key, checkpoint=checkpoint_of(before), info=info)


def compared_as_a_whole(table: Loaded, report: LoadReport) -> LoadReport:
    again = table.load(report.window.key, checkpoint=Checkpoint(report.record.fingerprint, clean=True))
    assert not (again.ingested or again.committed)
    return again


KINDS: dict[str, tuple[Write, Changes]] = {
    "by partition": (Merge(partition_by="day"), KEYED),
    "by bucket": (Merge(buckets=4), KEYED),
    "by key": (Merge(), KEYED),
    "soft delete": (Merge(soft_delete="gone", partition_by="day"), KEYED),
    "by column": (Merge(partial=True, partition_by="day"), KEYED),
    "change feed": (Merge(change_feed=True), KEYED),
    "history": (History(), KEYED),
    "beliefs": (History(known=True), KEYED),
    "append by key": (Append(partition_by="day"), Changes(keys=["id"], sequence_by=["seq"])),
    "fold": (Fold(maxes=["value", "day"]), Changes(keys=["id"], sequence_by=["seq"])),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_evidence_carried_on_is_what_a_comparison_of_the_whole_window_finds(
    spark: SparkSession, tmp_path: Path, area: Path, kind: str
) -> None:
    write, changes = KINDS[kind]
    chance, said = random.Random(SEED), list[str]()
    table = table_of(spark, tmp_path / "lake", write=write, changes=changes)
    ops = "uuud" if changes.delete_when else "u"

    def some(of: int, most: int) -> list[dict[str, Any]]:
        keys = [str(chance.randrange(8)) for _ in range(chance.randrange(1, most))]
        return [dated(k, chance.choice("abc"), chance.randrange(1, 9), chance.choice(ops), of) for k in keys]

    deliver(area, 2, "others", *some(1 + (kind == "append by key"), 8))
    table.load(2)
    deliver(area, 1, "0", *some(1, 12))
    report = table.load(1)
    for number in range(1, 4):
        deliver(area, 1, f"{number}", *some(1, 4))
        report = load(table, report, said)
        assert report.ingested
        whole = compared_as_a_whole(table, report)
        assert report.evidence == whole.evidence, f"INCLOAD_TEST_SEED={SEED}, round {number}: {said}"
    assert any(CARRIED in line for line in said) and not any("do not add up" in line for line in said)
    at_once = table_of(spark, tmp_path / "whole", write=write, changes=changes)
    at_once.load(2)
    again = at_once.load(1)
    assert again.evidence == report.evidence, f"INCLOAD_TEST_SEED={SEED}"
    columns = [name for name in table.table.schema.names if not name.startswith("known")]
    assert table.rows(*columns) >= at_once.rows(*columns) if kind == "beliefs" else table.rows() == at_once.rows()


def another_window_is_loaded(table: Loaded) -> None:
    table.load(2)


TOUCHED = {
    "a row is deleted": by_hand("DELETE FROM {} WHERE id = 'a'"),
    "a row is changed": by_hand("UPDATE {} SET value = 'edited' WHERE id = 'a'"),
    "another window is loaded": another_window_is_loaded,
}


@pytest.mark.parametrize("when", ["before", "beneath"])
@pytest.mark.parametrize("what", TOUCHED)
def test_what_somebody_may_have_touched_is_compared_and_repaired(
    spark: SparkSession, tmp_path: Path, area: Path, monkeypatch: pytest.MonkeyPatch, what: str, when: str
) -> None:
    table, said = table_of(spark, tmp_path / "lake", write=Merge(partition_by="day")), list[str]()
    deliver(area, 1, "0", dated("a", "x", 1), dated("b", "x", 1))
    deliver(area, 2, "0", dated("b", "late", 9), dated("new", "late", 1))
    report = table.load(1)
    deliver(area, 1, "1", dated("new", "y", 3))
    touch = TOUCHED[what]
    if when == "before":
        touch(table)
    else:  # the MERGE is done, and its reconciliation has not begun
        move, sent = apply.fence_number, list[int]()

        def then(at: Any) -> int:
            if not sent:
                sent.append(0)
                touch(table)
            return move(at)

        monkeypatch.setattr(apply, "fence_number", then)
    report = load(table, report, said)
    assert not any(CARRIED in line for line in said), said
    late = {("b", "late", 9)} if "window" in what else {("b", "x", 1)}
    assert table.rows("id", "value", "seq") == {("a", "x", 1), ("new", "y", 3)} | late
    assert report.evidence == compared_as_a_whole(table, report).evidence


LOST = {
    "a row of the log": by_hand("DELETE FROM {} WHERE id = 'b' AND _kind = 'upsert'", of_log=True),
    "the log's files": by_hand("OPTIMIZE {}", of_log=True),
}


@pytest.mark.parametrize("what", LOST)
def test_a_log_that_others_have_written_to_is_not_believed(
    spark: SparkSession, tmp_path: Path, area: Path, what: str
) -> None:
    table, said = table_of(spark, tmp_path / "lake", write=Merge(partition_by="day")), list[str]()
    deliver(area, 1, "0", dated("a", "x", 1), dated("b", "x", 1))
    first = table.load(1)
    deliver(area, 1, "1", dated("c", "y", 1))
    second = load(table, first)
    deliver(area, 1, "2", dated("d", "z", 1))
    LOST[what](table)
    if what == "a row of the log":
        with pytest.raises(ReconciliationFailed, match="each row read falls in exactly one bin"):
            load(table, second, said)
    else:
        third = load(table, second, said)
        assert third.evidence == compared_as_a_whole(table, third).evidence
    assert not any(CARRIED in line or "do not add up" in line for line in said)


def test_a_small_window_or_a_large_gain_is_compared_as_a_whole(
    spark: SparkSession, tmp_path: Path, area: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, said = table_of(spark, tmp_path / "lake", write=Merge(partition_by="day")), list[str]()
    deliver(area, 1, "0", *(dated(f"{n}", "x", 1) for n in range(8)))
    report = table.load(1)
    monkeypatch.setattr(proven, "LARGEST_SHARE", 0.25)
    deliver(area, 1, "1", *(dated(f"a{n}", "x", 1) for n in range(4)))
    report = load(table, report, said)
    monkeypatch.setattr(proven, "MANY", 14)
    deliver(area, 1, "2", dated("b", "x", 1))
    report = load(table, report, said)
    assert not any(CARRIED in line for line in said)
    deliver(area, 1, "3", dated("c", "x", 1))
    report = load(table, report, said)
    assert any(CARRIED in line for line in said)
    assert (report.evidence.rows_read, report.evidence.applied, report.evidence.keys) == (14, 14, 14)
