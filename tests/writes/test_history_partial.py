"""History of changes that set only some columns, sentence by sentence, on literal rows."""

from itertools import permutations
from pathlib import Path
from typing import Any

import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest
from pyspark.sql import SparkSession

from incload_assets.assets import Changes, History, Merge
from incload_assets.assets.incremental import table_of
from incload_assets.platform.errors import DeclarationError
from incload_assets.trial.literal_source import Record
from incload_assets.writes.plan import Merged
from tests.support.tables import Loaded, day, declared, make
from tests.writes.test_merge_partial import Pair, bins

KEYED = Changes(keys=["id"], sequence_by=["seq"], delete_when="op = 'd'")


class Ordered(Pair):
    """A pair with a second sequence column."""

    step: T.LongType = pa.Field(nullable=True)


def change(id: str, seq: int, op: str = "u", **values: str | None) -> Record:
    return {"id": id, "seq": str(seq), "op": op, **values}


def versions(table: Loaded, *ids: str) -> set[tuple[Any, ...]]:
    rows = table.rows("id", "a", "b", "valid_from", "valid_to")
    return {row for row in rows if not ids or row[0] in ids}


def pairs(spark: SparkSession, folder: Path, content: dict[str, list[Record]], **options: Any) -> Loaded:
    return make(
        spark, folder, content, **{"contract": Pair, "changes": KEYED, "write": History(partial=True)} | options
    )


SENTENCES: dict[str, tuple[list[Record], set[tuple[Any, ...]]]] = {
    "a change of one column keeps the others of the version before": (
        [change("k", 1, a="a1", b="b1"), change("k", 2, b="b2"), change("k", 3, a="a3")],
        {("a1", "b1", 1, 2), ("a1", "b2", 2, 3), ("a3", "b2", 3, None)},
    ),
    "a late change repairs every later version that did not set its column, and no other": (
        [
            change("k", 1, a="a1", b="b1"),
            change("k", 3, a="a3"),
            change("k", 4, a="a4"),
            change("k", 5, b="b5"),
            change("k", 6, a="a6"),
            change("k", 2, b="b2"),
        ],
        {
            ("a1", "b1", 1, 2),
            ("a1", "b2", 2, 3),
            ("a3", "b2", 3, 4),
            ("a4", "b2", 4, 5),
            ("a4", "b5", 5, 6),
            ("a6", "b5", 6, None),
        },
    ),
    "a set NULL is a value, an unset column is none": (
        [change("k", 1, a="a1", b="b1"), change("k", 2, a="a2"), change("k", 3, b=None), change("k", 4, a="a4")],
        {("a1", "b1", 1, 2), ("a2", "b1", 2, 3), ("a2", None, 3, 4), ("a4", None, 4, None)},
    ),
    "a set NULL and an unset column of one moment and content are a set NULL": (
        [change("k", 1, a="a1", b="b1"), change("k", 2, a="a2"), change("k", 2, a="a2", b=None)],
        {("a1", "b1", 1, 2), ("a2", None, 2, None)},
    ),
    "values from before a delete do not show after it": (
        [change("k", 1, a="a1", b="b1"), change("k", 2, "d"), change("k", 3, a="a3"), change("k", 4, b="b4")],
        {("a1", "b1", 1, 2), ("a3", None, 3, 4), ("a3", "b4", 4, None)},
    ),
    "a late delete takes the values before it out of later versions": (
        [change("k", 1, a="a1", b="b1"), change("k", 3, a="a3"), change("k", 2, "d")],
        {("a1", "b1", 1, 2), ("a3", None, 3, None)},
    ),
    "a version waits for what the contract requires, and begins with the change that completes it": (
        [change("k", 1, b="b1"), change("k", 2, b="b2"), change("k", 3, a="a3")],
        {("a3", "b2", 3, None)},
    ),
    "after a delete it waits again": (
        [change("k", 1, a="a1", b="b1"), change("k", 2, "d"), change("k", 3, b="b3"), change("k", 5, a="a5")],
        {("a1", "b1", 1, 2), ("a5", "b3", 5, None)},
    ),
    "what never has what the contract requires is no version": ([change("k", 1, b="b1")], set()),
    "a change that sets nothing makes no version": (
        [change("k", 1, a="a1", b="b1"), change("k", 2), change("k", 3, b="b3")],
        {("a1", "b1", 1, 3), ("a1", "b3", 3, None)},
    ),
    "a change that sets what was known makes no version": (
        [change("k", 1, a="a1", b="b1"), change("k", 2, a="a1"), change("k", 3, b="b1")],
        {("a1", "b1", 1, None)},
    ),
    "neighbours that a late change makes equal are one version": (
        [change("k", 1, a="a1", b="b1"), change("k", 3, b="b3"), change("k", 2, b="b3")],
        {("a1", "b1", 1, 2), ("a1", "b3", 2, None)},
    ),
}


@pytest.mark.parametrize("backwards", [False, True], ids=["in one load", "each change by itself, the newest first"])
def test_versions_of_partial_changes_are_those_of_source_time(
    spark: SparkSession, tmp_path: Path, backwards: bool
) -> None:
    content: dict[str, list[Record]] = {}
    expected = set()
    for name, (changes, wanted) in SENTENCES.items():
        for one in changes:
            content.setdefault(day(7 - int(one["seq"]) if backwards else 1), []).append({**one, "id": name})
        expected |= {(name, *version) for version in wanted}
    table = pairs(spark, tmp_path, content)
    reports = {key: table.load(key) for key in sorted(content)}
    assert versions(table) == expected
    assert {key: sum(report.evidence.bins.values()) for key, report in reports.items()} == {
        key: len(records) for key, records in content.items()
    }


def test_every_order_of_a_few_partial_changes_makes_the_same_versions(spark: SparkSession, tmp_path: Path) -> None:
    changes = [
        change("k", 1, a="a1", b="b1"),
        change("k", 2, b="b2"),
        change("k", 3, "d"),
        change("k", 4, b="b4"),
        change("k", 5, a="a5"),
    ]
    orders = list(permutations(range(5)))
    content = {
        day(load + 1): [{**changes[order[load]], "id": str(n)} for n, order in enumerate(orders)] for load in range(5)
    }
    table = pairs(spark, tmp_path, content)
    for key in sorted(content):
        table.load(key)
    wanted = [("a1", "b1", 1, 2), ("a1", "b2", 2, 3), ("a5", "b4", 5, None)]
    assert versions(table) == {(str(n), *version) for n in range(len(orders)) for version in wanted}


def test_partial_changes_that_wait_are_counted_until_a_late_change_completes_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    content = {
        day(1): [change("k", 1, b="b1"), change("k", 2, b="b2"), change("k", 2, b="b2"), change("k", 8, "d")],
        day(2): [change("k", 3, a="a3"), change("k", 4, b="b4")],
        day(3): [change("k", 1, a="a1")],
    }
    table = pairs(spark, tmp_path, content)
    assert bins(table.load(1).evidence) == {"applied": 1, "waiting": 1, "stale": 1, "duplicate": 1}
    assert versions(table) == set()
    second = table.load(2)
    assert (second.merged, bins(second.evidence)) == (Merged(inserted=2), {"applied": 2})
    assert versions(table) == {("k", "a3", "b2", 3, 4), ("k", "a3", "b4", 4, 8)}
    assert bins(table.load(1).evidence) == {"applied": 2, "stale": 1, "duplicate": 1}
    third = table.load(3)
    assert bins(third.evidence) == {"applied": 1}
    assert versions(table) == {
        ("k", "a1", "b1", 1, 2),
        ("k", "a1", "b2", 2, 3),
        ("k", "a3", "b2", 3, 4),
        ("k", "a3", "b4", 4, 8),
    }
    assert bins(table.load(1).evidence) == {"applied": 3, "duplicate": 1}
    table.content[day(2)] = []
    table.load(2)
    assert versions(table) == {("k", "a1", "b1", 1, 2), ("k", "a1", "b2", 2, 8)}


def test_of_partial_changes_at_one_moment_the_newest_of_each_column_counts_and_none_before_a_delete(
    spark: SparkSession, tmp_path: Path
) -> None:
    def at(id: str, seq: int, step: int | None, op: str = "u", **values: str | None) -> Record:
        return change(id, seq, op, step=None if step is None else str(step), **values)

    content = {
        day(1): [
            at("k", 1, 1, a="a", b="old"),
            at("k", 1, 3, b="new"),
            at("k", 1, 2, b="between"),
            at("reborn", 1, 1, a="a", b="b"),
            at("reborn", 2, 1, "d"),
            at("reborn", 2, 2, a="again"),
            at("same", 1, 1, a="a"),
            at("same", 2, 1, "d"),
            at("same", 2, 2, a="a"),
            at("gone", 1, 1, a="a", b="b"),
            at("gone", 2, 1, a="never"),
            at("gone", 2, 0, "d"),
            at("gone", 2, 2, "d"),
            at("gone", 2, 3, b="b"),
        ]
    }
    changes = Changes(keys=["id"], sequence_by=["seq", "step"], delete_when="op = 'd'")
    table = pairs(spark, tmp_path, content, contract=Ordered, changes=changes)
    assert bins(table.load(1).evidence) == {"applied": 10, "stale": 3, "waiting": 1}
    assert versions(table) == {
        ("k", "a", "new", 1, None),
        ("reborn", "a", "b", 1, 2),
        ("reborn", "again", None, 2, None),
        ("same", "a", None, 1, None),
        ("gone", "a", "b", 1, 2),
    }


def test_a_partial_change_that_sets_nothing_tracked_updates_the_version_that_it_falls_in(
    spark: SparkSession, tmp_path: Path
) -> None:
    content = {
        day(1): [change("k", 1, a="a1", b="b1"), change("k", 5, a="a5"), change("k", 9, b="b9")],
        day(2): [change("k", 3, b="b3")],
    }
    table = pairs(spark, tmp_path, content, write=History(partial=True, track="a"))
    table.load(1)
    assert versions(table) == {("k", "a1", "b1", 1, 5), ("k", "a5", "b9", 5, None)}
    assert table.load(2).merged == Merged(updated=1)
    assert table.rows("id", "a", "b", "seq", "valid_from") == {("k", "a1", "b3", 3, 1), ("k", "a5", "b9", 9, 5)}


def test_an_unavailable_value_keeps_what_the_version_before_had(spark: SparkSession, tmp_path: Path) -> None:
    content = {
        day(1): [change("k", 1, a="a1", b="large"), change("k", 3, a="a3", b="__unavailable")],
        day(2): [change("k", 2, a="a2", b="larger")],
    }
    changes = Changes(keys="id", sequence_by="seq", unavailable="__unavailable")
    table = pairs(spark, tmp_path, content, changes=changes, write=History())
    table.load(1)
    table.load(2)
    assert versions(table) == {("k", "a1", "large", 1, 2), ("k", "a2", "larger", 2, 3), ("k", "a3", "larger", 3, None)}


def test_a_load_of_partial_changes_writes_rows_of_its_keys_only(spark: SparkSession, tmp_path: Path) -> None:
    some = [change(str(n), seq, a=f"a{seq}") for n in range(40) for seq in (1, 2)]
    table = pairs(
        spark, tmp_path, {day(1): some, day(2): [change("7", 1, b="b")]}, write=History(partial=True, buckets=8)
    )
    table.load(1)
    before = table.files()
    late = table.load(2)
    assert late.merged == Merged(updated=2)
    assert len(before - table.files()) == len(table.files() - before) == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            Changes(keys="id", sequence_by="seq", delete_when="op = 'd'", unavailable="?", moved_when="op = 'c'"),
            r"changes.moved_when is \"op = 'c'\", but History does not support rows that get a new key. Rule: .* "
            r"Remedy: drop moved_when or write Merge\(\)",
        ),
        (
            Changes(keys="id", sequence_by="seq", truncate_when="op = 't'"),
            r"changes.truncate_when is \"op = 't'\", but History does not support truncates",
        ),
    ],
    ids=["moves", "truncates"],
)
def test_a_history_of_partial_changes_refuses_what_it_cannot_keep(
    spark: SparkSession, tmp_path: Path, changes: Changes, message: str
) -> None:
    with pytest.raises(DeclarationError, match=message):
        pairs(spark, tmp_path, {}, changes=changes)


def test_the_current_rows_are_what_a_merge_makes_of_the_same_partial_changes(
    spark: SparkSession, tmp_path: Path
) -> None:
    content = {day(1): [{**one, "id": name} for name, (changes, _) in SENTENCES.items() for one in changes]}
    history = pairs(spark, tmp_path / "history", content)
    merged = pairs(spark, tmp_path / "merged", content, write=Merge(partial=True))
    history.load(1)
    merged.load(1)
    assert {row[:-1] for row in history.rows("id", "a", "b", "seq", "is_current") if row[-1]} == merged.rows(
        "id", "a", "b", "seq"
    )


def test_only_the_version_of_code_of_partial_histories_knows_that_they_are_partial() -> None:
    tables = [table_of(declared(write=History(partial=partial))) for partial in (False, True)]
    versions = {table.code_version for table in tables if table is not None}
    assert len(versions) == 2
    assert "partial" not in repr(History())  # or tables from before would get another version
