"""First loads of many windows at once, and what a killed one leaves behind."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from incload_assets.assets import Files, Merge, Quarantine
from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.read_view import ReadView
from incload_assets.declaration.window import Window, window_of
from incload_assets.ingest.ingest import staged_rows
from incload_assets.load import load, ranges
from incload_assets.load.detection import detect
from incload_assets.load.load import LoadReport
from incload_assets.load.range_fences import WINDOWS_AT_ONCE, range_app_id
from incload_assets.load.ranges import load_first_windows
from incload_assets.load.tables import ensure_tables
from incload_assets.writes import merge as merge_module
from incload_assets.writes.plan import MergePlan
from tests.support.tables import DAYS, DatedItem, GoodItem, Loaded, day, item, make

CONTENT = {
    day(1): [item("a", "1", 1), item("b", "1", 1), item("b", "1", 1)],
    day(2): [item("a", "2", 2), item("c", "2", 2), item("b", None, 2, "d")],
    day(3): [item("a", "0", 0)],
}
RIGHT = {("a", "2", 2), ("c", "2", 2)}


def window(number: int) -> Window:
    return window_of(DAYS, day(number))


def all_of_them(windows: Sequence[Window]) -> set[str]:
    return {window.key for window in windows}


def together(table: Loaded, *numbers: int, info: Callable[[str], None] = lambda _: None) -> dict[str, LoadReport]:
    context = table.context(info=info)
    reports = load_first_windows(context, [window(n) for n in numbers], all_of_them)
    return {report.window.key: report for some in reports for report in some}


def bins(report: LoadReport) -> tuple[int, int, int, int]:
    e = report.evidence
    return e.rows_read, e.applied, e.stale, e.duplicate


def test_windows_never_tried_before_are_landed_in_one_commit_and_merged_in_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = make(spark, tmp_path, dict(CONTENT))
    reports = together(table, 1, 2, 3)
    assert table.rows() == RIGHT
    assert {key: bins(report) for key, report in reports.items()} == {
        day(1): (3, 0, 2, 1),
        day(2): (3, 3, 0, 0),
        day(3): (1, 0, 1, 0),
    }
    assert sum(report.merged.inserted for report in reports.values()) == 2
    assert table.lake.version(table.uri) == 1  # created, merged
    assert table.lake.version(table.lake.log_uri(["items"])) == 2  # created, intent, landed


def test_what_is_loaded_together_is_what_is_loaded_one_by_one(spark: SparkSession, tmp_path: Path) -> None:
    content = {
        day(n): [item(str(k), str(n), k * n % 5, "d" if k * n % 7 == 3 else "u", day=day(k)) for k in range(1, 9)]
        for n in range(1, 5)
    }
    one, all_ = (
        make(spark, tmp_path / name, dict(content), contract=DatedItem, write=Merge(partition_by="day"))
        for name in ("one", "all")
    )
    alone = {n: one.load(n) for n in range(1, 5)}
    assert len(together(all_, 1, 2, 3, 4)) == 4
    assert all_.rows() == one.rows()
    replayed = {n: all_.replay(all_.load(n)) for n in range(1, 5)}
    assert {n: bins(r) for n, r in replayed.items()} == {n: bins(one.replay(alone[n])) for n in alone}


def test_windows_that_were_landed_or_have_too_many_bad_rows_or_no_source_are_left_to_be_loaded_by_themselves(
    spark: SparkSession, tmp_path: Path
) -> None:
    content = {**CONTENT, day(4): [item("d", "bad", 1)], day(5): [item("e", "5", 5)]}
    table = make(spark, tmp_path, content, contract=GoodItem, quarantine=Quarantine(max_share=0.4))
    table.load(1)
    assert set(together(table, 1, 2, 3, 4, 5, 6)) == {day(2), day(3), day(5)}
    assert table.rows() == {*RIGHT, ("e", "5", 5)}
    assert {key for (key,) in table.log("control", "_window")} == {day(1), day(2), day(3), day(5)}


def test_a_file_that_cannot_be_read_spoils_no_other_window(spark: SparkSession, tmp_path: Path) -> None:
    landing = tmp_path / "landing"
    landing.mkdir()
    for number in (1, 2):
        (landing / f"{day(number)}.json").write_text(f'{{"id": "k{number}", "value": "v", "seq": {number}}}\n')
    (landing / f"{day(3)}.json").write_bytes(b"\x1f\x8b broken")
    table = make(spark, tmp_path / "lake", source=Files(f"{landing}/{{window:%Y-%m-%d}}.json"))
    assert set(together(table, 1, 2, 3)) <= {day(1), day(2)}
    for number in (1, 2):
        table.load(number)
    assert table.rows() == {("k1", "v", 1), ("k2", "v", 2)}


def test_a_window_whose_source_changes_while_all_are_read_is_not_reported_as_loaded(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(spark, tmp_path, dict(CONTENT))
    commit = ranges.commit

    def changing(*args: object, **options: object) -> bool:
        table.content[day(3)] = [item("z", "3", 3)]
        return commit(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(ranges, "commit", changing)
    assert set(together(table, 1, 2, 3)) == {day(1), day(2)}
    table.load(3)
    assert table.rows() == {*RIGHT, ("z", "3", 3)}


def test_after_a_load_of_one_of_its_windows_a_killed_range_can_neither_land_nor_merge(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = make(spark, tmp_path, dict(CONTENT))
    context = LoadContext(spark, table.table, table.lake)
    ensure_tables(context)
    app_id = range_app_id(table.table, window(1))
    number = ranges.bare_fence(context, f"{app_id}/landing") + 1
    positions = detect(context, [window(1), window(2)])
    chunk = {window(1): positions[day(1)], window(2): positions[day(2)]}
    with staged_rows(context, chunk) as (staged, facts):  # held back before its landing, while another load goes on
        records = {
            w.key: ranges.window_record_of(
                LoadContext(spark, table.table, table.lake, "killed"),
                ranges.Ingestion(w, chunk[w], None, 0, False),
                facts[w.key],
                1,
            )
            for w in chunk
        }
        table.content[day(1)] = [item("a", "corrected", 9)]
        table.load(1)
        assert not ranges.commit(context, staged, records, f"{app_id}/landing", number, note="")
    assert [key for (key,) in table.log("control", "_window")] == [day(1)]
    assert ranges._ingest(context, {window(2): chunk[window(2)]}, f"{app_id}/landing", number + 2)
    at = context.read_view((window(2),), app_id, of_range=True)
    plan = table.table.write.plan(context, at, full=False)  # held back before its MERGE
    table.content[day(2)] = []
    table.load(2)
    assert table.table.write.apply(context, at, plan) is None
    assert table.rows() == {("a", "corrected", 9)}


def test_a_merge_of_a_killed_range_is_refused_although_one_of_its_windows_was_landed_again_before_it_was_planned(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(spark, tmp_path, {day(1): [item("k", "a", 5)], day(2): [item("k", None, 4, "d")]})
    context = LoadContext(spark, table.table, table.lake)
    ensure_tables(context)
    app_id, both = range_app_id(table.table, window(1)), (window(1), window(2))
    number = ranges.bare_fence(context, f"{app_id}/landing") + 1
    positions = detect(context, list(both))
    assert ranges._ingest(context, {w: positions[w.key] for w in both}, f"{app_id}/landing", number)
    held: list[tuple[ReadView, MergePlan]] = []
    write = merge_module.rewrite  # the table is empty

    def overtaking(*args: Any) -> Any:
        if not held:
            at = context.read_view(both, app_id, of_range=True)
            held.append((at, table.table.write.plan(context, at, full=False)))
        return write(*args)

    monkeypatch.setattr(merge_module, "rewrite", overtaking)
    table.content[day(1)] = [item("k", "a", 6)]
    assert table.load(1).record.landing == 2
    table.content[day(1)] = []
    table.load(1)
    assert table.rows() == set()
    assert table.table.write.apply(context, *held[0]) is None
    assert table.rows() == set()


def test_a_range_that_planned_while_a_load_of_one_of_its_windows_landed_brings_nothing_back(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The load has called the range off before; the range's MERGE is its last sign of life."""
    content = {day(1): [item("kept", "1", 1), item("gone", "1", 1)], day(2): [item("other", "2", 2)]}
    table = make(spark, tmp_path, content)
    context, both = LoadContext(spark, table.table, table.lake), (window(1), window(2))
    ensure_tables(context)
    app_id = range_app_id(table.table, window(1))
    number = ranges.bare_fence(context, f"{app_id}/landing") + 1
    positions = detect(context, list(both))
    assert ranges._ingest(context, {w: positions[w.key] for w in both}, f"{app_id}/landing", number)
    ingest, held = load.ingest, list[tuple[ReadView, MergePlan]]()

    def planning(*args: object) -> bool:
        at = context.read_view(both, app_id, of_range=True)
        held.append((at, table.table.write.plan(context, at, full=False)))
        return ingest(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(load, "ingest", planning)
    content[day(1)] = [item("kept", "1", 1)]
    table.load(1)
    assert table.table.write.apply(context, *held[0]) is None
    assert table.rows() == {("kept", "1", 1)}


def test_a_window_that_another_run_began_to_load_meanwhile_is_left_to_it(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path, dict(CONTENT))
    context = LoadContext(spark, table.table, table.lake)
    reports = load_first_windows(context, [window(1), window(2), window(3)], lambda _: {day(1), day(2)})
    assert [[report.window.key for report in some] for some in reports] == [[day(1), day(2)]]


def test_windows_that_were_loaded_together_are_not_loaded_together_again(spark: SparkSession, tmp_path: Path) -> None:
    """What is landed again has to tell which rows it takes away: only a load of one window does."""
    table = make(spark, tmp_path, dict(CONTENT))
    together(table, 1, 2, 3)
    table.content |= {day(1): [], day(2): []}
    assert together(table, 1, 2, 3) == {}
    table.load(1)
    table.load(2)
    assert table.rows() == {("a", "0", 0)}


@pytest.mark.parametrize("restored", ["the table", "the log", "both"])
def test_windows_that_were_loaded_together_are_loaded_after_a_restore_of_table_or_log(
    spark: SparkSession, tmp_path: Path, restored: str
) -> None:
    table = make(spark, tmp_path, dict(CONTENT))
    ensure_tables(LoadContext(spark, table.table, table.lake))
    (uri, at_first), (log, log_at_first) = table.versions().items()
    older = {uri: at_first} if restored == "the table" else {log: log_at_first}
    if restored == "both":
        older = {uri: at_first, log: log_at_first}
    together(table, 1, 2, 3)
    for again in ((1, 2, 3), ()):
        table.restore(older)
        loaded = together(table, *again)  # again, as far as the log knows; the others by themselves
        assert set(loaded) == (set() if restored == "the table" else {day(n) for n in again})
        for number in (1, 2, 3):
            if day(number) not in loaded:
                table.load(number)
        assert table.rows() == RIGHT
    table.content |= {day(1): [], day(2): []}
    table.load(1)
    table.load(2)
    assert table.rows() == {("a", "0", 0)}


def test_a_load_of_one_of_its_windows_that_begins_after_the_second_question_calls_the_range_off(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = make(spark, tmp_path, dict(CONTENT))
    context = LoadContext(spark, table.table, table.lake)

    def still_first(windows: Sequence[Window]) -> set[str]:
        table.load(1)  # it sees the intent
        return all_of_them(windows)

    reports = load_first_windows(context, [window(1), window(2), window(3)], still_first)
    assert list(reports) == []
    assert {key for (key,) in table.log("control", "_window")} == {day(1)}


def test_ranges_end_where_the_stretches_of_the_calendar_do(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path)
    last_of_first = window_of(DAYS, "2026-02-01")
    assert WINDOWS_AT_ONCE == 32
    assert range_app_id(table.table, last_of_first) == range_app_id(table.table, window(1)) == "items/range 0"
    assert range_app_id(table.table, window_of(DAYS, "2026-02-02")) == "items/range 1"


def test_a_change_that_two_windows_share_and_a_newer_one_has_overtaken_is_stale_in_both(
    spark: SparkSession, tmp_path: Path
) -> None:
    same = [item("a", "old", 1)]
    table = make(spark, tmp_path, {day(1): same, day(2): same, day(3): [item("a", "new", 2)]})
    table.load(3)
    assert {key: bins(report) for key, report in together(table, 1, 2).items()} == {
        day(1): (1, 0, 1, 0),
        day(2): (1, 0, 1, 0),
    }
    assert table.rows() == {("a", "new", 2)}
