"""Compaction of the log: less is kept, and the table is what it would be anyway."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyspark.sql.types as T
import pytest
from pyspark.sql import SparkSession

from incload_assets.assets import FullReload, History, Merge, Snapshot
from incload_assets.change_log.context import LoadContext
from incload_assets.contract.adaptation import Stored
from incload_assets.declaration.changes import Changes
from incload_assets.delta.tables import ensure_table
from incload_assets.load import compacted as compacted_windows
from incload_assets.load import load
from incload_assets.maintenance import compact_logs as module
from incload_assets.maintenance.compact_logs import Compaction, compact
from incload_assets.platform.errors import ConcurrentLoad, DeclarationError, WindowCompacted
from incload_assets.progress.checkpoint import Checkpoint
from incload_assets.trial.literal_source import Record
from tests.support.tables import Loaded, day, item, make

SINCE_DAY_3 = datetime(2026, 1, 3, tzinfo=UTC)
"""Days 1 and 2 are over."""


def declared(spark: SparkSession, folder: Path, content: dict[str, list[Record]], **more: Any) -> Loaded:
    return make(spark, folder, content, log_retention=timedelta(days=30), **more)


def compacted(table: Loaded, *, until: datetime = SINCE_DAY_3, busy: Collection[str] = ()) -> Compaction:
    """Compact, with every window at rest that is not busy."""
    context = table.context()

    def at_rest(keys: Collection[str]) -> Mapping[str, str]:
        return {key: record.fingerprint for key, record in context.log.records().items() if key not in busy}

    return compact(context, until, at_rest)


def changes(table: Loaded) -> set[tuple[Any, ...]]:
    """What the log holds: window, key, value, sequence."""
    columns = ("_window", "id", "value", "seq")
    found = table.log("upsert", *columns) + table.log("delete", *columns)
    assert len(found) == len(set(found))
    return set(found)


def test_of_old_windows_the_log_keeps_each_keys_newest_change_and_every_row_stays_in_one_bin(
    spark: SparkSession, tmp_path: Path
) -> None:
    content = {
        day(1): [item("k", "a", 1), item("k", "b", 2), item("k", "b", 2), item("gone", "a", 1)],
        day(2): [item("k", "c", 3), item("gone", None, 2, "d")],
        day(3): [item("k", "d", 4), item("k", "e", 5)],
    }
    table = declared(spark, tmp_path, content)
    reports = [table.load(number) for number in (1, 2, 3)]
    rows = table.rows()
    assert compacted(table) == Compaction(windows=2, added=2, before=6, removed=4)
    assert changes(table) == {
        (day(2), "k", "c", 3),
        (day(2), "gone", None, 2),
        (day(3), "k", "d", 4),
        (day(3), "k", "e", 5),
    }
    again = [table.replay(report) for report in reports]
    assert [(r.evidence.rows_read, r.evidence.removed, r.committed) for r in again] == [
        (4, 4, False),
        (2, 0, False),
        (2, 0, False),
    ]
    assert table.rows() == rows


def test_what_was_compacted_once_is_compacted_again_only_with_what_came_since(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = declared(spark, tmp_path, {day(n): [item("k", str(n), n)] for n in (1, 2, 3)})
    for number in (1, 2, 3):
        table.load(number)
    compacted(table)
    version = table.lake.version(table.lake.log_uri(table.table.key.path))
    assert compacted(table) == Compaction(windows=2)
    assert table.lake.version(table.lake.log_uri(table.table.key.path)) == version
    later = compacted(table, until=datetime(2026, 1, 4, tzinfo=UTC))
    assert later == Compaction(windows=3, added=1, before=2, removed=1)
    assert changes(table) == {(day(3), "k", "3", 3)}


def test_older_changes_that_come_late_stay_out_after_a_compaction(spark: SparkSession, tmp_path: Path) -> None:
    content = {
        day(1): [item("deleted", "a", 1), item("deleted", None, 5, "d"), item("kept", "a", 1), item("kept", "b", 5)],
        day(2): [item("deleted", "late", 3), item("kept", "late", 3), item("new", "late", 3)],
    }
    table = declared(spark, tmp_path, content)
    table.load(1)
    compacted(table, until=datetime(2026, 1, 2, tzinfo=UTC))
    table.load(2)
    assert table.rows() == {("kept", "b", 5), ("new", "late", 3)}


def test_a_newer_change_in_a_window_that_can_still_be_rewritten_supersedes_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    content = {day(1): [item("k", "a", 1)], day(2): [item("k", "b", 2)], day(3): [item("k", None, 3, "d")]}
    table = declared(spark, tmp_path, content)
    for number in (1, 2, 3):
        table.load(number)
    assert compacted(table, busy=[day(2)]) == Compaction(windows=1, added=1, busy=(day(2),), before=1)
    content[day(2)], content[day(3)] = [], []
    table.load(2)
    table.load(3)
    assert table.rows() == {("k", "a", 1)}


def test_a_compacted_window_is_replaced_by_something_else_only_by_choice(spark: SparkSession, tmp_path: Path) -> None:
    content = {day(1): [item("k", "a", 1)], day(2): [item("k", "b", 2), item("other", "b", 2)]}
    table = declared(spark, tmp_path, content)
    table.load(1)
    table.load(2)
    compacted(table)
    rows = table.rows()
    content[day(2)] = [item("other", "c", 3)]
    with pytest.raises(WindowCompacted, match=r"items 2026-01-02: its log was compacted on .* --rewrite-compacted"):
        table.load(2)
    assert table.rows() == rows
    assert table.load(2, rewrite_compacted=True).record.compacted_at is not None
    assert table.rows() == {("other", "c", 3)}  # what day 1 said of the key was overtaken, and is gone


def test_a_compacted_window_that_is_rewritten_while_it_is_about_to_be_landed_again_is_not_replaced_unasked(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = {day(1): [item("k", "a", 1)], day(2): [item("k", "b", 2)]}
    table = declared(spark, tmp_path, content)
    table.load(1)
    table.load(2)
    compacted(table)

    log = table.lake.sql_name(table.lake.log_uri(["items"]))
    spark.sql(f"DELETE FROM {log} WHERE _window = '{day(2)}' AND _kind = 'upsert'")  # so that it is read again

    def rewritten_meanwhile(load: LoadContext) -> None:
        compacted_windows.hold_off(load)
        content[day(2)] = []

    monkeypatch.setattr(load, "hold_off", rewritten_meanwhile)
    with pytest.raises(WindowCompacted, match=r"items 2026-01-02: .* the source has changed"):
        table.load(2)
    assert table.rows() == {("k", "b", 2)}


def test_a_compacted_window_that_is_not_known_to_be_clean_is_folded_from_what_the_compaction_left(
    spark: SparkSession, tmp_path: Path
) -> None:
    content = {day(1): [item("k", "a", 1), item("k", "b", 2)], day(2): [item("k", "c", 3)]}
    table = declared(spark, tmp_path, content)
    table.load(1)
    table.load(2)
    compacted(table)
    again = table.load(1)
    assert (again.ingested, again.record.landing, again.record.removed) == (False, 1, 2)
    assert again.record.compacted_at is not None
    assert (again.evidence.removed, table.rows()) == (2, {("k", "c", 3)})


def test_code_that_changed_is_not_applied_to_a_compacted_window_unasked(spark: SparkSession, tmp_path: Path) -> None:
    table = declared(spark, tmp_path, {day(1): [item("k", "a", 1)]})
    table.load(1)
    compacted(table)
    table.table = replace(table.table, code_version="2")
    with pytest.raises(WindowCompacted, match=r"the table's code has changed \(1, now 2\)"):
        table.load(1)


def test_a_load_that_lands_between_intent_and_removal_wins(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = {day(1): [item("k", "a", 1)], day(2): [item("k", "b", 2)]}
    table = declared(spark, tmp_path, content)
    table.load(1)
    table.load(2)
    commit = module.commit

    def held_back(*args: Any, **options: Any) -> bool:
        content[day(2)] = []
        table.load(2, rewrite_compacted=True)
        return commit(*args, **options)

    monkeypatch.setattr(module, "commit", held_back)
    with pytest.raises(ConcurrentLoad):
        compacted(table)
    assert table.rows() == {("k", "a", 1)}
    monkeypatch.setattr(module, "commit", commit)
    assert compacted(table) == Compaction(windows=2, before=1)  # what was marked is taken up again
    assert compacted(table) == Compaction(windows=2)
    assert table.rows() == {("k", "a", 1)}


def test_a_window_that_a_run_has_taken_up_since_it_was_marked_is_left_alone(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = declared(spark, tmp_path, {day(n): [item("k", str(n), n)] for n in (1, 2)})
    fingerprints = {day(n): table.load(n).record.fingerprint for n in (1, 2)}
    looks = [fingerprints, {day(1): fingerprints[day(1)]}]
    context = LoadContext(spark, table.table, table.lake)
    done = compact(context, SINCE_DAY_3, lambda _: looks.pop(0))
    assert done == Compaction(windows=1, added=2, before=1)
    assert changes(table) == {(day(1), "k", "1", 1), (day(2), "k", "2", 2)}


def test_a_soft_deleted_row_and_one_made_column_by_column_are_what_they_were(
    spark: SparkSession, tmp_path: Path
) -> None:
    def record(id: str, seq: int, op: str = "u", **values: str | None) -> Record:
        return {"id": id, "seq": str(seq), "op": op, **values}

    content = {
        day(1): [record("k", 1, value="a"), record("k", 2), record("deleted", 1, value="a"), record("deleted", 2, "d")],
        day(2): [record("k", 3), record("deleted", 5, "d")],
        day(3): [record("k", 4), record("deleted", 3)],
    }
    write = Merge(soft_delete="is_deleted", partial=True)
    table = declared(spark, tmp_path, content, write=write)
    table.load(1)
    table.load(2)
    assert compacted(table).removed == 1  # the second of k
    table.load(3)
    columns = ("id", "value", "seq", "is_deleted")
    assert table.rows(*columns) == {("k", "a", 4, False), ("deleted", None, 5, True)}


def test_truncates_are_kept(spark: SparkSession, tmp_path: Path) -> None:
    content = {
        day(1): [item("k", "a", 1), item(None, None, 5, "t"), item(None, None, 6, "t")],
        day(2): [item("late", "a", 2), item("new", "a", 7)],
    }
    changes = Changes(keys=["id"], sequence_by=["seq"], delete_when="op = 'd'", truncate_when="op = 't'")
    table = declared(spark, tmp_path, content, changes=changes)
    table.load(1)
    compacted(table, until=datetime(2026, 1, 2, tzinfo=UTC))
    table.load(2)
    assert table.rows() == {("new", "a", 7)}


def test_snapshots_among_changes_are_kept(spark: SparkSession, tmp_path: Path) -> None:
    content = {
        day(1): [item("k", "a", 1), item("new", "a", 5, "s")],
        day(2): [item("late", "a", 2), item("new", "b", 7)],
    }
    changes = Changes(keys=["id"], sequence_by=["seq"], snapshot_when="op = 's'")
    table = declared(spark, tmp_path, content, changes=changes)
    table.load(1)
    compacted(table, until=datetime(2026, 1, 2, tzinfo=UTC))
    table.load(2)
    assert table.rows() == {("new", "b", 7)}


@pytest.mark.parametrize("write", [Snapshot(max_shrink=1.0), FullReload(max_shrink=1.0)])
def test_of_old_extracts_only_the_newest_is_kept(
    spark: SparkSession, tmp_path: Path, write: Snapshot | FullReload
) -> None:
    content = {day(n): [item("k", str(n), n), item(str(n), "a", n)] for n in (1, 2, 3)}
    table = declared(spark, tmp_path, content, write=write, changes=Changes(keys=["id"]))
    reports = [table.load(number) for number in (1, 2, 3)]
    assert compacted(table) == Compaction(windows=2, added=2, before=4, removed=2)
    assert {window for window, *_ in changes(table)} == {day(2), day(3)}
    assert [table.replay(report).committed for report in reports] == [False] * 3
    content[day(3)] = [item("k", "x", 9)]
    table.load(3)
    assert table.rows() == {("k", "x", 9)}


def test_a_retention_is_refused_where_all_changes_make_the_table(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match=r"log_retention is 30 days, 0:00:00, and write is History"):
        declared(spark, tmp_path, {}, write=History())
    with pytest.raises(DeclarationError, match=r"log_retention is -1 day"):
        make(spark, tmp_path, {}, log_retention=timedelta(days=-1))


def test_a_log_of_before_compaction_was_there_gets_what_it_lacks(spark: SparkSession, tmp_path: Path) -> None:
    table = declared(spark, tmp_path, {day(1): [item("k", "a", 1), item("k", "b", 2)]})
    log = table.lake.log_uri(table.table.key.path)
    schema = T.StructType.fromJson(LoadContext(spark, table.table, table.lake).log.schema.jsonValue())
    record = schema["_control"].dataType
    assert isinstance(record, T.StructType)
    since = record.names.index("compacted_at")
    assert record.names[since : since + 2] == ["compacted_at", "removed"]
    del record.fields[since:], record.names[since:]
    ensure_table(spark, table.lake, log, Stored(schema, ("_window", "_kind")), "items")
    report = table.load(1)
    assert compacted(table).removed == 1
    assert table.replay(report).evidence.removed == 1


def test_a_clean_checkpoint_of_a_compacted_window_costs_no_landing(spark: SparkSession, tmp_path: Path) -> None:
    table = declared(spark, tmp_path, {day(1): [item("k", "a", 1), item("k", "b", 2)]})
    report = table.load(1)
    compacted(table)
    checkpoint = Checkpoint(report.record.fingerprint, clean=True)
    assert not table.load(1, checkpoint=checkpoint).ingested
