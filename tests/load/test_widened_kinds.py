"""Tables of every write strategy whose types become wider: they go on as tables that had the wide types all along."""

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pyspark.sql.types as T
import pytest

from incload_assets.assets import (
    Changes,
    DeleteInsert,
    Fold,
    History,
    Merge,
    Snapshot,
)
from incload_assets.declaration.window import window_of
from incload_assets.delta.tables import schema_of
from incload_assets.ingest import ingest as module
from incload_assets.load.replay import replay_window
from incload_assets.load.tables import ensure_log, ensure_tables
from incload_assets.load.undo import undo_window
from incload_assets.load.undo_plan import Undo
from incload_assets.maintenance.compact_logs import compact
from incload_assets.platform.errors import ConcurrentLoad, SchemaMismatch
from tests.load.test_evolution import LONG, TEXT, model
from tests.load.test_rewritten import INT, WIDEN, DailyFiles, files
from tests.support.tables import Loaded, day

__all__ = ["files"]

NARROW = {"id": (INT, {"nullable": False}), "seq": INT, "n": INT, "cents": T.DecimalType(6, 2), "few": T.ByteType()}
WIDE = {
    "id": (LONG, {"nullable": False}),
    "seq": LONG,
    "n": LONG,
    "cents": T.DecimalType(20, 2),
    "few": T.DecimalType(8, 0),
}
OTHERS = {"value": TEXT, "day": (T.DateType(), {"nullable": False})}
MANY = 5_000_000_000
KEYED = Changes(keys=["id"], sequence_by=["seq"])
DELETING = Changes(keys=["id"], sequence_by=["seq"], delete_when="op = 'd'")
KINDS: dict[str, dict[str, Any]] = {
    "snapshot": {"write": Snapshot(max_shrink=1.0), "changes": Changes(keys=["id"])},
    "fold": {"write": Fold(sums=["n", "cents"], maxes=["few"]), "changes": KEYED},
    "delete and insert": {
        "write": DeleteInsert(by=["id"]),
        "changes": Changes(sequence_by=["seq"], delete_when="op = 'd'"),
    },
    "merge": {"write": Merge(), "changes": DELETING},
    "history": {"write": History(), "changes": DELETING},
    "beliefs": {"write": History(known=True), "changes": DELETING},
}
COMPACTED = ["snapshot", "merge"]


class Twins:
    """A table whose types become wider, and one that has had the wide types from the beginning."""

    def __init__(self, files: DailyFiles, options: dict[str, Any]) -> None:
        self.files, self.options = files, options
        self.fresh = files.table(model(**WIDE, **OTHERS), "1", lake="fresh", evolution=WIDEN, **options)
        self.table = files.table(model(**NARROW, **OTHERS), "1", **options)

    def widen(self) -> None:
        self.table = self.files.table(model(**WIDE, **OTHERS), "1", evolution=WIDEN, **self.options)

    def deliver(self, number: int, *rows: dict[str, Any]) -> None:
        usual = {"seq": number, "n": number, "cents": f"{number}.25", "few": number, "value": "v", "day": day(number)}
        self.files.deliver(number, *(usual | row for row in rows))

    def each(self, does: Callable[[Loaded], Any]) -> None:
        for table in (self.table, self.fresh):
            does(table)

    def load(self, number: int, **options: Any) -> None:
        self.each(lambda table: table.load(number, **options))

    def compare(self, *at_rest: int) -> None:
        """Compares tables and logs; loads of windows whose source is as it was find nothing to do."""
        assert held(self.table) == held(self.fresh)
        names = (*self.table.table.columns, "_hash", "_window")
        for kind in ("upsert", "delete"):
            assert self.table.log(kind, *names) == self.fresh.log(kind, *names)
        for number in at_rest:
            assert self.table.load(number).evidence.pending == 0


def held(table: Loaded) -> tuple[Any, Any]:
    """The table's columns, and its rows, counted; of beliefs those that hold, whenever they were begun."""
    delta = table.lake.delta(table.uri)
    assert delta is not None
    rows = (row for row in delta.to_pyarrow_table().to_pylist() if row.pop("is_known", True))
    since = ("known_from", "known_to")
    return schema_of(delta), Counter(repr({n: v for n, v in row.items() if n not in since}) for row in rows)


def begun(twins: Twins) -> None:
    """Loads windows by the narrow types: a row of the second one is too large for them."""
    twins.deliver(1, {"id": 1}, {"id": 2, "value": "old"}, {"id": 3})
    twins.load(1)
    twins.deliver(1, {"id": 1}, {"id": 2, "value": "new"}, {"id": 4})
    twins.load(1)
    twins.deliver(2, {"id": 2, "n": 2_000_000_000}, {"id": 5, "n": MANY}, {"id": 4, "op": "d"}, {"id": 6})
    twins.load(2)
    assert len(twins.table.log("rejected", "_window")) == 1


def go_on(twins: Twins) -> None:
    """Loads one more window, with values that only the wide types have."""
    twins.deliver(3, {"id": 2, "n": 2_000_000_000, "cents": "99999999.75"}, {"id": MANY, "seq": MANY, "few": 300})
    twins.load(3)


@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
def test_a_table_that_becomes_wider_goes_on_as_one_that_was_wide_from_the_beginning(
    files: DailyFiles, options: dict[str, Any]
) -> None:
    def window(number: int) -> Any:
        return window_of(twins.table.table.partitions_def, day(number))

    def undone(number: int, before: str) -> Callable[[Loaded], Any]:
        undo = Undo(before, because="a test")
        return lambda table: undo_window(table.context(), window(number), undo)

    twins = Twins(files, options)
    begun(twins)
    twins.widen()
    go_on(twins)
    replay_window(twins.table.context(), window(2))
    assert twins.table.log("rejected", "_window") == []
    twins.compare(1, 2, 3)
    twins.each(undone(1, "2"))
    twins.compare(2, 3)
    twins.deliver(2, {"id": 2, "n": MANY}, {"id": 7, "few": 127}, {"id": 6, "seq": 0})
    twins.load(2)
    twins.compare(2, 3)
    for number in (3, 2):
        twins.each(undone(number, "1"))
    twins.compare()


@pytest.mark.parametrize("kind", COMPACTED)
def test_a_log_is_compacted_after_it_became_wider_and_before_the_table_does(files: DailyFiles, kind: str) -> None:
    def compacted(table: Loaded, until: int) -> int:
        load, at = table.context(), datetime(2026, 1, until, tzinfo=UTC)
        ensure_log(load)
        return compact(load, at, lambda keys: {one: r.fingerprint for one, r in load.log.records().items()}).removed

    twins = Twins(files, KINDS[kind])
    begun(twins)
    twins.widen()
    twins.each(lambda table: compacted(table, 2))
    go_on(twins)
    replay_window(
        twins.table.context(),
        window_of(twins.table.table.partitions_def, day(2)),
    )
    twins.compare()
    assert compacted(twins.table, 4) == compacted(twins.fresh, 4)
    twins.compare()
    twins.deliver(1, {"id": 1, "value": "other"}, {"id": 2, "seq": MANY + 1})
    twins.load(1, rewrite_compacted=True)
    assert held(twins.table) == held(twins.fresh)


def test_rows_that_former_code_has_staged_do_not_come_into_a_log_that_was_widened_meanwhile(
    files: DailyFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    twins = Twins(files, KINDS["merge"])
    for number in (1, 2):
        twins.deliver(number, {"id": number})
    former, commit = twins.table, module.commit
    former.load(1)
    twins.widen()

    def commit_late(*arguments: Any, **options: Any) -> bool:
        monkeypatch.setattr(module, "commit", commit)
        ensure_tables(twins.table.context())
        return commit(*arguments, **options)

    monkeypatch.setattr(module, "commit", commit_late)
    with pytest.raises(ConcurrentLoad, match=r"2026-01-02: another load has widened the type of .*few in"):
        former.load(2)
    twins.table.load(2)
    assert twins.table.rows("id", "few") == {(1, 1), (2, 2)}


PLACING: dict[str, dict[str, Any]] = {
    "buckets": {"write": Merge(buckets=2), "changes": KEYED},
    "buckets of a history": {"write": History(buckets=2), "changes": KEYED},
}


@pytest.mark.parametrize("options", PLACING.values(), ids=PLACING)
def test_a_key_that_places_rows_is_refused_with_the_reason_and_nothing_changes(
    files: DailyFiles, options: dict[str, Any]
) -> None:
    files.deliver(1, {"id": 1, "n": 1})
    narrow = files.table(model(id=(INT, {"nullable": False}), n=INT), "1", **options)
    narrow.load(1)
    before = narrow.versions()
    wide = files.table(model(id=(LONG, {"nullable": False}), n=LONG), "2", evolution=WIDEN, **options)
    with pytest.raises(SchemaMismatch) as refused:
        wide.load(1)
    assert str(refused.value) == (
        f"items: column 'id' of {wide.uri} is int, declared is bigint. "
        "Rule: a partition column, and keys that buckets are made of, decide where a row is stored. "
        "Remedy: restore the type in the contract, or add the new type under another column name."
    )
    assert wide.versions() == before
