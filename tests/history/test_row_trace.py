"""The trace of a row says of each change what the real load made of it, for every write strategy."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandera.pyspark as pandera
import pyspark.sql.types as T
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from incload_assets.assets import Append, DeleteInsert, Fold, FullReload, History, Merge, Overwrite, Snapshot
from incload_assets.change_log.context import LoadContext
from incload_assets.declaration.changes import Changes
from incload_assets.declaration.table import Quarantine
from incload_assets.declaration.window import window_of
from incload_assets.history.row_trace import RowTrace, trace_row
from incload_assets.load.undo import undo_window
from incload_assets.load.undo_plan import Undo
from incload_assets.protection.row_key import key_of
from tests.maintenance.test_compact_logs import compacted
from tests.support.tables import DAYS, DatedItem, GoodItem, Item, Loaded, day, item, make
from tests.writes.case import Case, crowds
from tests.writes.cases import CASES as CONFORMANCE

ENOUGH = 12
"""Fewest changes of a random content; hypothesis tries the empty one first."""
TOLERANT = Quarantine(max_share=1.0)
KEYED = Changes(keys=["id"], sequence_by=["seq"])
TRUNCATED = Changes(keys=["id"], sequence_by=["seq"], delete_when="op = 'd'", truncate_when="op = 't'")
DELETING = Changes(keys=["id"], sequence_by=["seq"], delete_when="op = 'd'")


class ThreeValues(Item):
    """An item that cannot be without its second value."""

    other: T.StringType = pandera.Field(nullable=False)
    note: T.StringType = pandera.Field(nullable=True)


def traced(table: Loaded, *words: str, **options: Any) -> RowTrace:
    return trace_row(table.table, table.lake, key_of(table.table, words), **options)


def fates(trace: RowTrace) -> list[tuple[str, str, int | None]]:
    """Operation, fate, and the change that decided it."""
    return [(change.operation, change.fate, change.by) for change in trace.changes]


def test_of_a_merge_the_newest_change_is_in_effect_and_a_late_one_stale(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path, contract=GoodItem, quarantine=TOLERANT)
    table.content[day(2)] = [item("a", "x", 5), item("b", "x", 1)]
    table.load(2, run_id="0f0f-1")
    table.content[day(1)] = [item("a", "old", 1), item("a", "bad", 2), item("b", None, 2, "d"), item("c", "bad", 1)]
    table.content[day(3)] = [item("a", "x", 5), item("a", "y", 9), item(None, "y", 1)]
    table.load(1)
    table.load(3)

    a, b, c, d = (traced(table, f"id={name}", values=True) for name in "abcd")

    assert fates(a) == [
        ("upsert", "stale", 3),
        ("rejected", "rejected", None),
        ("upsert", "superseded", 5),
        ("upsert", "duplicate", 3),
        ("upsert", "in effect", None),
    ]
    assert [change.sequence["seq"] for change in a.changes] == [1, 2, 5, 5, 9]
    assert a.changes[1].why == "value: 'bad' is the excluded bad"
    assert (a.rows, a.now, a.agrees) == (1, "the table has the row, by change 5", True)
    assert a.present == [{"id": "a", "value": "y", "seq": 9}]
    assert (a.changes[2].run_id, a.changes[2].trace_id, a.changes[2].landing) == ("0f0f-1", "0f0f1", 1)
    assert a.changes[2].place == "literal row 0"
    assert fates(b) == [("upsert", "superseded", 2), ("delete", "in effect", None)]
    assert (b.rows, b.agrees) == (0, True) and "the delete from literal row 0 in window 2026-01-01" in b.now
    assert (c.rows, c.now) == (0, "the table has no such row: its changes are in quarantine")
    assert (d.rows, d.now) == (0, "the table has no such row: no ingested window has a change of it")
    assert any("1 rejected row of the table cannot be found by a key" in note for note in d.notes)


CASES: list[tuple[str, dict[str, Any], dict[int, list[Any]]]] = [
    (
        "merge_soft_delete",
        {"write": Merge(soft_delete="gone")},
        {
            2: [item("a", "x", 3), item("b", None, 4, "d")],
            1: [item("a", None, 5, "d"), item("b", "y", 2)],
            3: [item("c", "z", 1)],
        },
    ),
    (
        "merge_partial",
        {"write": Merge(partial=True), "changes": TRUNCATED},
        {
            1: [{"id": "a", "value": "x", "seq": "1", "op": "u"}, {"id": "b", "value": "x", "seq": "1", "op": "u"}],
            3: [{"id": "a", "seq": "4", "op": "u"}, {"id": None, "seq": "2", "op": "t"}],
            2: [{"id": "a", "value": "y", "seq": "3", "op": "u"}, {"id": "c", "seq": "3", "op": "u"}],
        },
    ),
    (
        "merge_truncate",
        {"changes": TRUNCATED},
        {1: [item("a", "x", 1), item("b", "x", 3)], 2: [item(None, None, 2, "t")], 3: [item("c", "x", 1)]},
    ),
    (
        "history",
        {"write": History()},
        {
            2: [item("a", "x", 2), item("a", "y", 4), item("b", "x", 1)],
            1: [item("a", "x", 3), item("a", "z", 4), item("a", "w", 1), item("b", None, 5, "d")],
            3: [item("a", None, 6, "d"), item("a", None, 7, "d"), item("a", "back", 8), item("c", None, 1, "d")],
        },
    ),
    (
        "history_partial",
        {"write": History(partial=True, track="value"), "changes": DELETING, "contract": ThreeValues},
        {
            2: [
                {"id": "a", "value": "x", "seq": "2", "op": "u"},
                {"id": "a", "other": "o", "seq": "4", "op": "u"},
                {"id": "b", "note": "n", "seq": "1", "op": "u"},
                {"id": "c", "note": "n", "seq": "1", "op": "u"},
            ],
            1: [
                {"id": "a", "other": "p", "seq": "3", "op": "u"},
                {"id": "a", "other": "p", "seq": "1", "op": "u"},
                {"id": "b", "seq": "5", "op": "d"},
                {"id": "c", "value": "z", "other": "o", "seq": "2", "op": "u"},
            ],
            3: [
                {"id": "a", "seq": "6", "op": "d"},
                {"id": "a", "seq": "7", "op": "d"},
                {"id": "a", "value": "back", "seq": "8", "op": "u"},
                {"id": "b", "value": "late", "other": "o", "seq": "4", "op": "u"},
                {"id": "c", "value": "z", "seq": "3", "op": "u"},
            ],
        },
    ),
    (
        "append_keyed",
        {"write": Append(), "changes": KEYED},
        {2: [item("a", "x", 3), item("b", "x", 3)], 1: [item("a", "y", 1), item("b", "x", 3)], 3: [item("c", "x", 1)]},
    ),
    (
        "append_by_content",
        {"write": Append(), "changes": Changes()},
        {1: [item("a", "x", 1), item("a", "x", 1)], 2: [item("a", "y", 1), item("a", "x", 1)], 3: [item("b", "y", 1)]},
    ),
    (
        "delete_insert",
        {"write": DeleteInsert(by=["id"]), "changes": Changes(sequence_by=["seq"], delete_when="op = 'd'")},
        {
            2: [item("a", "x", 2), item("a", "y", 2), item("b", "x", 1)],
            1: [item("a", "z", 1), item("b", None, 1, "d"), item("c", "x", 1)],
            3: [item("a", "x", 2), item("a", "y", 2), item("c", "y", 2), item("c", "y", 2)],
        },
    ),
    (
        "full_reload",
        {"write": FullReload(max_shrink=1.0), "changes": Changes()},
        {3: [item("a", "x", 1), item("a", "x", 1), item("b", "x", 1)], 1: [item("a", "y", 2)], 2: [item("c", "y", 2)]},
    ),
    (
        "snapshot",
        {"write": Snapshot(max_shrink=1.0), "changes": KEYED, "contract": GoodItem},
        {
            1: [item("a", "x", 1), item("b", "x", 1), item("c", "x", 1)],
            2: [item("a", "x", 2), item("a", "y", 3), item("c", "bad", 1)],
        },
    ),
    (
        "snapshot_with_an_unreadable_row",
        {"write": Snapshot(max_shrink=1.0), "changes": KEYED},
        {1: [item("a", "x", 1), item("b", "x", 1)], 2: [item("a", "z", 2), item("c", "z", 2), item(None, "x", 1)]},
    ),
    (
        "snapshot_that_keeps",
        {"write": Snapshot(max_shrink=1.0, delete_missing=False), "changes": KEYED},
        {2: [item("a", "x", 1)], 1: [item("b", "x", 1), item("a", "y", 9)]},
    ),
    (
        "fold",
        {"write": Fold(sums=["seq"], maxes=["value"]), "changes": Changes(keys=["id"])},
        {1: [item("a", "x", 1), item("a", "y", 2)], 2: [item("a", None, 5), item("b", "z", None)]},
    ),
]
OVERWRITTEN = {
    1: [item("a", "x", 1, day=day(1)), item("a", "x", 1, day=day(1)), item("b", "x", 1, day=day(2))],
    2: [item("a", "x", 1, day=day(2))],
}
CASES.append(
    ("overwrite", {"write": Overwrite(partition_by="day"), "changes": Changes(), "contract": DatedItem}, OVERWRITTEN)
)
CASES.append(
    (
        "merge_partitioned",
        {"write": Merge(partition_by="day"), "contract": DatedItem},
        {
            1: [item("a", "x", 1, day=day(1)), item("b", "x", 1, day=day(1))],
            2: [item("a", "y", 2, day=day(1)), item("a", "z", 3, day=day(2)), item("b", None, 2, "d", day=day(1))],
        },
    )
)


@pytest.mark.parametrize(("options", "loads"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_what_the_trace_calls_in_effect_is_what_the_table_has(
    spark: SparkSession, tmp_path: Path, options: dict[str, Any], loads: dict[int, Sequence[Any]]
) -> None:
    table = make(spark, tmp_path, quarantine=TOLERANT, **options)
    for number, records in loads.items():
        table.content[day(number)] = list(records)
        table.load(number)
        for name in "abc":
            check(table, name)


def check(table: Loaded, name: str) -> None:
    trace = traced(table, f"id={name}", values=True)
    assert trace.agrees is True, (name, trace.now)
    delta = table.lake.delta(table.uri)
    assert delta is not None
    rows = [row for row in delta.to_pyarrow_table().to_pylist() if row["id"] == name]
    assert trace.rows == len(rows) and sorted(map(repr, trace.present)) == sorted(map(repr, rows))
    assert ("has no such row" in trace.now) == (not rows)
    in_effect = [c for c in trace.changes if c.fate == "in effect" and c.operation in ("upsert", "partial")]
    assert bool(in_effect) == bool(rows), trace.now
    if isinstance(table.table.write, Fold):
        return
    for row in rows:  # each row's values are those of a change in effect
        assert any(all(c.values[n] == row[n] for n in (c.sets or ("id", "value")) if n != "seq") for c in in_effect), (
            row,
            in_effect,
        )
    assert all(c.by is None or 1 <= c.by <= len(trace.changes) for c in trace.changes)


def test_changes_that_a_compaction_removed_are_shown_as_removed(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path, log_retention=timedelta(days=1))
    table.content[day(1)] = [item("a", "old", 1), item("b", "x", 1)]
    table.content[day(2)] = [item("a", "new", 2)]
    table.load(1)
    table.load(2)
    assert compacted(table).removed == 1

    a, b = traced(table, "id=a"), traced(table, "id=b")

    assert [(c.fate, c.window, c.sequence["seq"]) for c in a.changes] == [
        ("removed", day(1), 1),
        ("in effect", day(2), 2),
    ]
    assert a.agrees is True and a.now == "the table has the row, by change 2"
    assert [c.fate for c in b.changes] == ["in effect"]
    assert any(note.startswith("compactions have removed 1 change of 1 window") for note in b.notes)


def test_a_row_that_its_window_no_longer_has_is_told_as_withdrawn(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path)
    table.content[day(1)] = [item("a", "x", 1), item("b", "x", 1)]
    table.load(1)
    table.content[day(1)] = [item("b", "x", 1)]
    table.load(1)
    trace = traced(table, "id=a")
    assert fates(trace) == [("withdrawn", "withdrawn", None)] and trace.changes[0].landing == 2
    assert (trace.rows, trace.now) == (0, "the table has no such row: the changes that it had were withdrawn")


@pytest.mark.parametrize("write", [Snapshot(), FullReload()], ids=["snapshot", "full reload"])
def test_an_extract_whose_first_load_was_undone_decides_nothing(
    spark: SparkSession, tmp_path: Path, write: Snapshot | FullReload
) -> None:
    keys = ["id"] if isinstance(write, Snapshot) else []
    table = make(spark, tmp_path, write=write, changes=Changes(keys=keys))
    table.content |= {day(1): [item("a", "x", 1)], day(2): [item("a", "y", 2)], day(3): [item("a", "z", 3)]}
    for number in (1, 2, 3):
        table.load(number)
    undo_window(LoadContext(spark, table.table, table.lake), window_of(DAYS, day(3)), Undo())
    found = traced(table, "id=a")
    assert (found.agrees, [change.fate for change in found.changes]) == (True, ["superseded", "in effect"])
    undo_window(LoadContext(spark, table.table, table.lake), window_of(DAYS, day(2)), Undo())
    table.load(3, if_held="release")
    found = traced(table, "id=a")
    assert (found.agrees, [change.fate for change in found.changes]) == (True, ["superseded", "in effect"])


def test_an_edit_by_another_writer_is_told_with_the_load_that_repairs_it(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path)
    table.content[day(1)] = [item("a", "x", 1)]
    table.load(1)
    delta = table.lake.delta(table.uri)
    assert delta is not None
    delta.update(updates={"value": "'edited'"}, predicate="id = 'a'")
    edited = traced(table, "id=a")
    assert edited.agrees is False
    assert edited.now.startswith("the table's row differs from its changes (value).")
    assert edited.now.endswith("incload load items --partitions 2026-01-01")
    delta.delete("id = 'a'")
    assert traced(table, "id=a").now.startswith("the table lacks the row, although its changes make 1.")
    table.load(1)
    assert traced(table, "id=a").agrees is True


@pytest.mark.slow
@pytest.mark.parametrize("case", CONFORMANCE, ids=lambda case: case.name)
@settings(
    max_examples=1, deadline=None, database=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate]
)
@given(data=st.data())
def test_of_random_changes_in_any_order_the_trace_knows_every_row(
    spark: SparkSession, case: Case, data: st.DataObject
) -> None:
    contents = crowds() if case.contents is None else case.contents
    content = data.draw(contents.filter(lambda found: sum(map(len, found.values())) >= ENOUGH))
    order = data.draw(st.permutations(sorted(content)))
    with TemporaryDirectory() as folder:
        table = make(spark, Path(folder), quarantine=TOLERANT, **case.declared)
        for key in order:
            table.content[key] = content[key]
            table.load(key)
        names = {str(record["id"]) for records in content.values() for record in records if record["id"] is not None}
        wrong = {name: found.now for name in sorted(names) if (found := traced(table, f"id={name}")).agrees is False}
    assert wrong == {}


class OddKey(pandera.DataFrameModel):
    """Rows with keys that file statistics cannot express."""

    at: T.TimestampType = pandera.Field(nullable=False)
    text: T.StringType = pandera.Field(nullable=False)
    number: T.FloatType = pandera.Field(nullable=False)
    value: T.StringType = pandera.Field(nullable=True)
    seq: T.LongType = pandera.Field(nullable=True)


def test_changes_are_found_of_keys_that_file_statistics_cannot_express(spark: SparkSession, tmp_path: Path) -> None:
    times = ["2026-01-05T10:00:00.123999Z", "1969-12-31T23:59:59.999001Z", "9999-12-31T23:59:59.999999Z"]
    texts = {1: ["a" * 40 + "b", "a" * 32 + "\U0010ffff" + "b"], 2: ["x" * 5000]}
    numbers = ["NaN", "-0.0", "0.1"]
    table = make(
        spark,
        tmp_path,
        contract=OddKey,
        changes=Changes(keys=["at", "text", "number"], sequence_by=["seq"], delete_when="op = 'd'"),
    )
    keys = []
    for number, some in texts.items():
        named = [(at, text, zahl) for text in some for at, zahl in zip(times, numbers, strict=True)]
        keys += named
        table.content[day(number)] = [
            {"at": at, "text": text, "number": zahl, "value": "v", "seq": "1", "op": "u"} for at, text, zahl in named
        ]
        table.load(number)
    for at, text, zahl in keys:
        trace = traced(table, f"at={at}", f"text={text}", f"number={zahl}")
        found = (fates(trace), trace.rows, trace.agrees)
        assert found == ([("upsert", "in effect", None)], 1, True), (at, ascii(text[:40]), zahl, trace.now)
    zero = traced(table, f"at={times[1]}", f"text={texts[2][0]}", "number=0.0")
    assert (zero.rows, zero.agrees) == (1, True), zero.now
