"""History, sentence by sentence, on literal rows."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest
from pyspark.sql import SparkSession

from incload_assets.assets import Changes, History, Merge
from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.read_view import ReadView
from incload_assets.checks.uniqueness import uniqueness
from incload_assets.declaration.window import window_of
from incload_assets.load.load import LoadReport
from incload_assets.load.reconcile import examine
from incload_assets.platform.errors import DeclarationError
from incload_assets.trial.literal_source import Record
from incload_assets.writes.merge_into import app_id
from incload_assets.writes.plan import Merged, MergePlan
from tests.support.tables import DAYS, Item, Loaded, StampedItem, day, item, make

Version = tuple[Any, ...]


class WiderItem(Item):
    """An item with two more columns."""

    note: T.StringType = pa.Field(nullable=True)
    offset: T.LongType = pa.Field(nullable=True)


def versions(table: Loaded, *columns: str) -> set[Version]:
    """Key, value, and when."""
    return table.rows(*(columns or ("id", "value")), "valid_from", "valid_to", "is_current")


def bins(report: LoadReport) -> tuple[int, int, int, int]:
    e = report.evidence
    return e.applied, e.stale, e.duplicate, e.quarantined


SENTENCES: dict[str, tuple[list[tuple[str | None, int | None, str]], set[Version]]] = {
    "an identical reinsert after a delete is a version": (
        [("a", 1, "u"), ("b", 2, "u"), (None, 3, "d"), ("b", 5, "u")],
        {("a", 1, 2, False), ("b", 2, 3, False), ("b", 5, None, True)},
    ),
    "there and back are three versions": (
        [("a", 1, "u"), ("b", 2, "u"), ("a", 3, "u")],
        {("a", 1, 2, False), ("b", 2, 3, False), ("a", 3, None, True)},
    ),
    "an old change between two equal ones parts them": (
        [("a", 10, "u"), ("a", 20, "u"), ("b", 15, "u")],
        {("a", 10, 15, False), ("b", 15, 20, False), ("a", 20, None, True)},
    ),
    "a value after NULL leaves NULL in the closed version": (
        [(None, 1, "u"), ("x", 2, "u")],
        {(None, 1, 2, False), ("x", 2, None, True)},
    ),
    "NULL after NULL, or empty after empty, is no version, NULL after empty is": (
        [(None, 1, "u"), (None, 2, "u"), ("", 3, "u"), ("", 4, "u"), (None, 5, "u")],
        {(None, 1, 3, False), ("", 3, 5, False), (None, 5, None, True)},
    ),
    "a NULL sequence is older than any": (
        [("b", -5, "u"), ("a", None, "u")],
        {("a", None, -5, False), ("b", -5, None, True)},
    ),
    "a NULL sequence by itself is current since ever": ([("a", None, "u")], {("a", None, None, True)}),
    "a delete without a sequence is older than the row": ([("a", 0, "u"), (None, None, "d")], {("a", 0, None, True)}),
    "a delete at the sequence of an upsert is newer": (
        [("a", 1, "u"), ("b", 2, "u"), (None, 2, "d")],
        {("a", 1, 2, False)},
    ),
    "a delete that says what the row said ends it, and an upsert that says it once more begins again": (
        [("a", 1, "u"), ("a", 2, "d"), ("a", 3, "u"), (None, 4, "u"), (None, 5, "d")],
        {("a", 1, 2, False), ("a", 3, 4, False), (None, 4, 5, False)},
    ),
    "a second delete changes nothing": ([("a", 1, "u"), (None, 2, "d"), (None, 3, "d")], {("a", 1, 2, False)}),
    "a late row before a delete ends with it": (
        [("a", 1, "u"), (None, 2, "d"), (None, 5, "d"), ("late", 4, "u")],
        {("a", 1, 2, False), ("late", 4, 5, False)},
    ),
    "a delete of what was never there is no row": ([(None, 1, "d")], set()),
}
CHANGES: list[Record] = [item(key, *change) for key, (changes, _) in SENTENCES.items() for change in changes]
VERSIONS = {(key, *version) for key, (_, expected) in SENTENCES.items() for version in expected}


def all_at_once(seq: int) -> int:
    """One batch."""
    return 1


def newest_first(seq: int) -> int:
    """Three loads; what is newest in source time comes first."""
    return 1 if seq >= 5 else 2 if seq >= 3 else 3


@pytest.mark.parametrize("load_of", [all_at_once, newest_first])
def test_whether_in_one_batch_or_newest_first_the_versions_are_those_of_source_time(
    spark: SparkSession, tmp_path: Path, load_of: Callable[[int], int]
) -> None:
    content: dict[str, list[Record]] = {}
    for change in CHANGES:
        content.setdefault(day(load_of(int(change["seq"] or 0))), []).append(change)
    table = make(spark, tmp_path, content, write=History())
    reports = {key: table.load(key) for key in sorted(content)}
    assert versions(table) == VERSIONS
    assert {key: sum(bins(report)) for key, report in reports.items()} == {k: len(v) for k, v in content.items()}
    assert uniqueness(spark, table.table, table.lake).passed


def test_late_changes_repair_their_neighbours_and_nothing_else(spark: SparkSession, tmp_path: Path) -> None:
    table = make(
        spark,
        tmp_path,
        {
            day(1): [item("k", "a", 10), item("k", "a", 20), item("other", "x", 1)],
            day(2): [item("k", "b", 15)],
            day(3): [item("k", None, 12, "d")],
            day(4): [item("k", "b", 17), item("k", "b", 17), item("k", "a", 20)],
        },
        write=History(),
    )
    table.load(1)
    other = ("other", "x", 1, 1, None, True)
    assert versions(table, "id", "value", "seq") == {other, ("k", "a", 20, 10, None, True)}
    late = table.load(2)
    assert versions(table, "id", "value", "seq") == {
        other,
        ("k", "a", 10, 10, 15, False),
        ("k", "b", 15, 15, 20, False),
        ("k", "a", 20, 20, None, True),
    }
    assert (late.merged, bins(late)) == (Merged(inserted=2, updated=1), (1, 0, 0, 0))
    deleted = table.load(3)
    assert (deleted.merged, bins(deleted)) == (Merged(updated=1), (1, 0, 0, 0))
    same = table.load(4)
    assert (same.merged, bins(same)) == (Merged(updated=1), (2, 0, 1, 0))
    after = {
        other,
        ("k", "a", 10, 10, 12, False),
        ("k", "b", 17, 15, 20, False),
        ("k", "a", 20, 20, None, True),
    }
    assert versions(table, "id", "value", "seq") == after
    table.content[day(2)], table.content[day(3)] = [], []
    table.load(2)
    taken_back = table.load(3)
    assert taken_back.record.replaced == 1
    assert versions(table, "id", "value", "seq") == {
        other,
        ("k", "a", 10, 10, 17, False),
        ("k", "b", 17, 17, 20, False),
        ("k", "a", 20, 20, None, True),
    }


def test_of_changes_at_one_sequence_value_the_newest_counts_and_the_others_are_stale(
    spark: SparkSession, tmp_path: Path
) -> None:
    tie = [item("k", "a", 1), item("k", "b", 1)]
    apart = make(spark, tmp_path / "apart", {day(1): tie[:1], day(2): tie[1:]}, write=History())
    first, second, again = apart.load(1), apart.load(2), apart.load(1)
    together = make(spark, tmp_path / "together", {day(1): [*tie, tie[0]]}, write=History())
    report = together.load(1)
    assert versions(apart) == versions(together)
    [(_, winner, *when)] = versions(together)
    assert (winner in {"a", "b"}, when) == (True, [1, None, True])
    assert bins(report) == (1, 1, 1, 0)
    applied, stale = (1, 0, 0, 0), (0, 1, 0, 0)
    counted = (applied, stale) if winner == "b" else (stale, applied)
    assert (bins(first), bins(second), bins(again)) == (applied, *counted)


def test_only_tracked_columns_make_versions_and_the_others_show_the_newest(spark: SparkSession, tmp_path: Path) -> None:
    changes = [
        item("k", "a", 1, note="first", offset="1"),
        item("k", "a", 3, note="third", offset="1"),
        item("k", "b", 4, note="fourth", offset="1"),
        item("k", "a", 2, note="second", offset="1"),
    ]
    table = make(spark, tmp_path, {day(1): changes}, contract=WiderItem, write=History(track="value"))
    table.load(1)
    assert versions(table, "id", "value", "note") == {
        ("k", "a", "third", 1, 4, False),
        ("k", "b", "fourth", 4, None, True),
    }


def test_a_version_that_a_late_change_parts_shows_again_what_it_showed_before(
    spark: SparkSession, tmp_path: Path
) -> None:
    content = {
        day(1): [item("k", "a", 1, note="first", offset="1")],
        day(2): [item("k", "a", 10, note="tenth", offset="1")],
        day(3): [item("k", "b", 5, note="fifth", offset="1")],
    }
    table = make(spark, tmp_path, content, contract=WiderItem, write=History(track="value"))
    for number in (1, 2, 3):
        table.load(number)
    assert versions(table, "id", "value", "note") == {
        ("k", "a", "first", 1, 5, False),
        ("k", "b", "fifth", 5, 10, False),
        ("k", "a", "tenth", 10, None, True),
    }


def test_a_second_sequence_column_breaks_ties_and_makes_no_version(spark: SparkSession, tmp_path: Path) -> None:
    table = make(
        spark,
        tmp_path,
        {
            day(1): [item("k", "z", 7, offset="1"), item("k", "b", 7, offset="9"), item("k", "b", 8, offset="2")],
            day(2): [item("k", "a", 7, offset="10"), item("k", "c", 8, offset="3"), item("k", "y", 8, offset=None)],
        },
        contract=WiderItem,
        changes=Changes(keys=["id"], sequence_by=["seq", "offset"], delete_when="op = 'd'"),
        write=History(valid_from="since", valid_to="until", is_current="now"),
    )
    reports = [table.load(1), table.load(2)]
    assert table.rows("id", "value", "seq", "offset", "since", "until", "now") == {
        ("k", "a", 7, 10, 7, 8, False),
        ("k", "c", 8, 3, 8, None, True),
    }
    assert [bins(report) for report in reports] == [(2, 1, 0, 0), (2, 1, 0, 0)]


def test_windows_are_instants_to_the_microsecond(spark: SparkSession, tmp_path: Path) -> None:
    changes = [
        item("k", "second", None, at="2026-01-01T02:30:00.000001Z"),
        item("k", "first", None, at="2026-01-01T03:00:00+02:00"),
    ]
    table = make(
        spark,
        tmp_path,
        {day(1): changes},
        contract=StampedItem,
        changes=Changes(keys=["id"], sequence_by=["at"]),
        write=History(),
    )
    table.load(1)
    first, second = (datetime(2026, 1, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 2, 30, 0, 1, tzinfo=UTC))
    assert versions(table) == {("k", "first", first, second, False), ("k", "second", second, None, True)}


def test_a_new_column_without_values_makes_no_version(spark: SparkSession, tmp_path: Path) -> None:
    content = {day(1): [item("k", "a", 1), item("k", "b", 2)]}
    make(spark, tmp_path, content, write=History()).load(1)
    wider = make(spark, tmp_path, content, contract=WiderItem, write=History())
    before = wider.files()
    content[day(2)] = [item("other", "x", 1)]
    assert wider.load(1).merged == Merged()
    assert wider.load(2).merged == Merged(inserted=1)
    assert before < wider.files()
    content[day(3)] = [item("k", "b", 3, note="new")]
    wider.load(3)
    assert versions(wider, "id", "value", "note") == {
        ("k", "a", None, 1, 2, False),
        ("k", "b", None, 2, 3, False),
        ("k", "b", "new", 3, None, True),
        ("other", "x", None, 1, None, True),
    }


def test_the_current_rows_are_what_a_merge_makes_of_the_same_changes(spark: SparkSession, tmp_path: Path) -> None:
    content = {day(1): CHANGES[::2], day(2): [*CHANGES[1::2], item(None, "no key", 1)]}
    history = make(spark, tmp_path / "history", content, write=History())
    merged = make(spark, tmp_path / "merged", content, write=Merge())
    reports = [[table.load(1), table.load(2)] for table in (history, merged)]
    current = {row[:-1] for row in history.rows("id", "value", "seq", "is_current") if row[-1]}
    assert current == merged.rows("id", "value", "seq")
    assert [[bins(report)[3] for report in loads] for loads in reports] == [[0, 1], [0, 1]]


def test_closing_a_version_writes_no_past_one_again(spark: SparkSession, tmp_path: Path) -> None:
    table = make(
        spark,
        tmp_path,
        {
            day(1): [item("k", "a", 1), item("k", "b", 2), item("other", "x", 1), item("other", "y", 2)],
            day(2): [item("k", "c", 3)],
        },
        write=History(),
    )
    table.load(1)
    past = {file for file in table.files() if "is_current=false" in file}
    table.load(2)
    assert len(past) == 1
    assert past < {file for file in table.files() if "is_current=false" in file}


def test_a_plan_that_another_load_has_overtaken_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    content = {day(1): [item("k", "a", 1)], day(2): [item("k", "b", 5)]}
    table = make(spark, tmp_path, content, write=History())
    table.load(1)
    context, window = LoadContext(spark, table.table, table.lake), window_of(DAYS, day(1))

    def planned() -> tuple[ReadView, MergePlan]:
        at = context.read_view((window,), app_id(table.table, window))
        plan = table.table.write.plan(context, at, full=True)
        assert examine(plan, at)[day(1)].pending == 1
        return at, plan

    damage = f"UPDATE {table.lake.sql_name(table.uri)} SET value = "
    spark.sql(f"{damage} 'damaged'")
    at, plan = planned()
    spark.sql(f"{damage} 'changed since'")
    assert table.table.write.apply(context, at, plan) == Merged()
    assert versions(table) == {("k", "changed since", 1, None, True)}
    at, plan = planned()
    table.load(2)
    after = versions(table)
    assert after == {("k", "changed since", 1, 5, False), ("k", "b", 5, None, True)}
    assert table.table.write.apply(context, at, plan) is None
    assert versions(table) == after


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (History(partition_by="value"), r"items: write.partition_by is 'value', but a history has none"),
        (History(valid_from="SEQ"), r"items: write.valid_from is 'SEQ', but Item has 'seq'"),
        (History(valid_to="Valid_From"), r"items: write.valid_to is 'Valid_From', but so is write.valid_from"),
        (History(is_current="is current"), r"items: write.is_current is 'is current'"),
        (History(valid_to="_row"), r"items: write.valid_to is '_row'"),
        (History(track=["value", "nmae"]), r"items: write.track names 'nmae', which Item does not have"),
        (History(track="id"), r"items: write.track names 'id', a key"),
        (History(track=[]), r"items: write.track is \(\), so that no column makes a version"),
    ],
)
def test_a_wrong_declaration_is_refused_with_what_to_write_instead(
    spark: SparkSession, tmp_path: Path, write: History, message: str
) -> None:
    with pytest.raises(DeclarationError, match=message + r".* Rule: .* Remedy: "):
        make(spark, tmp_path, write=write)
