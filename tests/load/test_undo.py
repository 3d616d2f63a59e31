"""Undo: a window is returned to what it held before a load, and held until its source changes."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from incload_assets.change_log.former import FormerLandings
from incload_assets.change_log.log import ChangeLog
from incload_assets.declaration.table import Quarantine
from incload_assets.declaration.window import now, window_of
from incload_assets.load.hold import hold_window
from incload_assets.load.load import LoadReport
from incload_assets.load.undo import undo_window
from incload_assets.load.undo_plan import Return, Undo, plan_undo, return_of
from incload_assets.platform.errors import CannotUndo, WindowHeld
from incload_assets.progress.checkpoint import Checkpoint
from tests.support.tables import GoodItem, Loaded, day, item, make

SOMEBODY = Undo(actor="somebody", because="wrong prices")


def undone(table: Loaded, number: int, undo: Undo = SOMEBODY, **of_run: Any) -> LoadReport:
    return undo_window(table.context(**of_run), window_of(table.table.partitions_def, day(number)), undo)


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> Loaded:
    """Day 1 loaded well, day 2 loaded, and then day 1 rewritten badly: one key changed, one gone, one new."""
    content = {day(1): [item("1", "a", 1), item("2", "b", 1)], day(2): [item("3", "c", 2)]}
    table = make(spark, tmp_path, content)
    table.load(1, run_id="first-run")
    table.load(2)
    content[day(1)] = [item("1", "BAD", 5), item("9", "BAD", 5)]
    table.load(1, run_id="second-run")
    content[day(2)] = [item("3", "C", 3)]
    table.load(2)
    assert table.rows() == {("1", "BAD", 5), ("9", "BAD", 5), ("3", "C", 3)}
    return table


def test_an_undo_brings_back_what_the_window_held_and_keeps_later_loads_of_others(table: Loaded) -> None:
    report = undone(table, 1)
    assert table.rows() == {("1", "a", 1), ("2", "b", 1), ("3", "C", 3)}
    assert (report.evidence.rows_read, report.evidence.pending) == (2, 0)
    hold = report.record.hold
    assert hold is not None
    assert (hold.actor, hold.because, hold.undone, hold.returned_to) == ("somebody", "wrong prices", 2, 1)
    versions = table.versions()
    assert undone(table, 1).ingested is False, "repeated, it lands nothing"
    assert table.versions()[table.lake.log_uri(["items"])] == versions[table.lake.log_uri(["items"])]


def test_an_undo_looks_again_where_somebody_else_undoes_after_it_has_looked(
    table: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    def meanwhile(*args: Any) -> Return:
        monkeypatch.setattr("incload_assets.load.undo.return_of", return_of)
        undone(table, 1, Undo(actor="bob"))
        return return_of(*args)

    said: list[str] = []
    monkeypatch.setattr("incload_assets.load.undo.return_of", meanwhile)
    report = undone(table, 1, info=said.append)
    assert table.rows() == {("1", "a", 1), ("2", "b", 1), ("3", "C", 3)}
    assert report.record.hold is not None
    assert (report.ingested, report.record.landing, report.record.hold.actor) == (False, 3, "bob")
    assert [line for line in said if "returned" in line] == []
    assert any("the window holds already what it is to return to, and is held by bob since" in line for line in said)


def test_a_held_window_is_loaded_again_only_if_its_source_changes_or_it_is_released(table: Loaded) -> None:
    undone(table, 1)
    held = table.log("control", "_window", "_control")[0][1]["fingerprint"]
    checkpoint = Checkpoint(held, clean=True)
    with pytest.raises(WindowHeld, match=r"held by somebody since .*: wrong prices.*incload release items"):
        table.load(1, checkpoint=checkpoint)
    assert table.load(1, checkpoint=checkpoint, if_held="complete").ingested is False
    assert table.rows() == {("1", "a", 1), ("2", "b", 1), ("3", "C", 3)}
    table.content[day(1)] = [item("1", "corrected", 6)]
    assert table.load(1, checkpoint=checkpoint).record.hold is None
    assert table.rows() == {("1", "corrected", 6), ("3", "C", 3)}
    undone(table, 1, Undo("2", actor="somebody"))
    assert table.rows() == {("1", "a", 1), ("2", "b", 1), ("3", "C", 3)}
    table.load(1, if_held="release")
    assert table.rows() == {("1", "corrected", 6), ("3", "C", 3)}


def test_an_undo_that_was_killed_before_its_merge_is_completed_by_the_next_load(
    table: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def die(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("incload_assets.load.revision.apply_changes", die)
        with pytest.raises(Killed):
            undone(table, 1)
    assert ("1", "BAD", 5) in table.rows()
    table.load(1)
    assert table.rows() == {("1", "a", 1), ("2", "b", 1), ("3", "C", 3)}


def test_the_first_load_is_undone_to_nothing_and_an_undo_can_be_undone(table: Loaded) -> None:
    undone(table, 1, Undo("first-run", actor="somebody"))
    assert table.rows() == {("3", "C", 3)}
    again = undone(table, 1, Undo("3"))
    assert table.rows() == {("1", "BAD", 5), ("9", "BAD", 5), ("3", "C", 3)}
    assert again.record.hold is None, "it holds what its source holds"


def test_all_windows_loaded_since_an_instant_are_planned_and_what_is_not_kept_is_refused(table: Loaded) -> None:
    since = table.log("control", "_window", "_control")[0][1]["landed_at"]
    plans = plan_undo(table.table, table.lake, None, Undo(since.isoformat()))
    assert [(plan.window, plan.rows_now, plan.rows_former) for plan in plans] == [(day(1), 2, 2), (day(2), 1, 1)]
    with pytest.raises(CannotUndo, match=r"is no landing of it.*choose one of: 1"):
        undone(table, 1, Undo("no-such-run"))
    with pytest.raises(CannotUndo, match="was never loaded"):
        undone(table, 7)
    kept = FormerLandings(log_of(table))
    assert kept.prune(now()) == 0
    assert kept.prune(now() + timedelta(days=8)) > 2
    with pytest.raises(CannotUndo, match=r"is not kept.*7 days"):
        undone(table, 1)
    assert [plan.refused != "" for plan in plan_undo(table.table, table.lake, [day(1)], SOMEBODY)] == [True]


def log_of(table: Loaded) -> ChangeLog:
    return ChangeLog(table.table, table.lake)


def test_rejected_rows_and_deletes_come_back_as_they_were(spark: SparkSession, tmp_path: Path) -> None:
    content = {day(1): [item("1", "a", 1), item("2", "bad", 1), item("3", None, 2, "d")], day(2): [item("3", "x", 1)]}
    table = make(spark, tmp_path, content, contract=GoodItem, quarantine=Quarantine(max_share=0.5))
    table.load(2)
    first = table.load(1)
    content[day(1)] = [item("1", "b", 2)]
    table.load(1)
    assert table.rows() == {("1", "b", 2), ("3", "x", 1)}
    report = undone(table, 1)
    assert table.rows() == {("1", "a", 1)}
    assert (report.evidence.rows_read, report.evidence.quarantined) == (3, 1)
    assert report.record.fingerprint == first.record.fingerprint
    assert [row[0] for row in table.log("rejected", "id")] == ["2"]


def test_of_many_former_landings_the_newest_three_and_one_an_hour_are_kept(spark: SparkSession, tmp_path: Path) -> None:
    content = {day(1): [item("1", "v0", 0)]}
    table = make(spark, tmp_path, content)
    for number in range(6):
        content[day(1)] = [item("1", f"v{number}", number)]
        table.load(1)
    kept = FormerLandings(log_of(table))
    assert [landing.record.landing for landing in kept.of(day(1))] == [1, 2, 3, 4, 5]
    kept.prune(now())
    assert [landing.record.landing for landing in kept.of(day(1))] in ([3, 4, 5], [2, 3, 4, 5])
    undone(table, 1)
    assert table.rows() == {("1", "v4", 4)}


def test_a_window_that_is_only_held_is_refused_until_its_source_changes_or_it_is_released_or_undone(
    table: Loaded,
) -> None:
    window = window_of(table.table.partitions_def, day(1))
    hold = hold_window(table.context(), window, actor="ada", because="looks wrong")
    assert hold is not None and (hold.undone, hold.returned_to) == (0, 2)
    assert hold_window(table.context(), window, actor="bob", because="once more") is None
    with pytest.raises(WindowHeld, match=r"held by ada since .*: looks wrong"):
        table.load(1)
    assert table.load(1, if_held="release").record.hold is None
    hold_window(table.context(), window, actor="ada", because="looks wrong")
    assert undone(table, 1).record.hold is not None
    assert table.rows() == {("1", "a", 1), ("2", "b", 1), ("3", "C", 3)}
    table.content[day(1)] = [item("1", "corrected", 6)]
    assert table.load(1).record.hold is None
