"""A table is divided into another number of buckets: the same rows, and loads go on as if it always had that number."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from incload_assets.assets import Changes, History, Merge
from incload_assets.change_log.log import numbers_of_buckets
from incload_assets.declaration.layout import in_buckets
from incload_assets.declaration.window import now, window_of
from incload_assets.declaration.write import BUCKET, Write
from incload_assets.load.tables import ensure_tables
from incload_assets.load.undo import undo_window
from incload_assets.load.undo_plan import Undo
from incload_assets.maintenance import rebucket as module
from incload_assets.maintenance.rebucket import Rebucketed, rebucket, rebucket_alone
from incload_assets.platform.errors import ConcurrentLoad, IncrementalLoadError, SchemaMismatch
from incload_assets.progress.claims import claim
from tests.support.sampling import NIGHT
from tests.support.tables import Loaded, day, item, make

DELETING = Changes(keys=["id"], sequence_by=["seq"], delete_when="op = 'd'")
CONTENT = {
    day(1): [item(f"key {n}", "old", 1) for n in range(24)],
    day(2): [item(f"key {n}", "new", 2) for n in range(0, 24, 3)] + [item("key 1", None, 3, "d")],
}
WAYS: dict[str, Callable[[int | None], Write]] = {
    "merge": lambda buckets: Merge(buckets=buckets),
    "partial": lambda buckets: Merge(buckets=buckets, partial=True),
    "history": lambda buckets: History(buckets=buckets),
}


@pytest.fixture
def declared(spark: SparkSession, tmp_path: Path) -> Callable[..., Loaded]:
    content = {key: [*rows] for key, rows in CONTENT.items()}

    def made(buckets: int | None, way: Callable[[int | None], Write] = WAYS["merge"]) -> Loaded:
        return make(spark, tmp_path, content, write=way(buckets), changes=DELETING)

    return made


def load_all(table: Loaded) -> None:
    for number in (1, 2):
        table.load(number)


def placed(table: Loaded) -> dict[str, int]:
    return {row[0]: row[1] for row in table.rows("id", BUCKET, "seq")}


def numbers(table: Loaded) -> tuple[list[int | None], str | None]:
    """The numbers in the log, and the one in the table."""
    delta = table.lake.delta(table.uri)
    assert delta is not None
    return numbers_of_buckets(table.context().log.open()), delta.metadata().configuration.get("incload.buckets")


@pytest.mark.parametrize(("way", "before", "after"), [("merge", None, 4), ("partial", 8, 4), ("history", 4, 6)])
def test_a_table_that_is_gets_other_buckets_goes_on_as_one_that_was_divided_so_from_the_beginning(
    declared: Callable[..., Loaded], spark: SparkSession, tmp_path: Path, way: str, before: int | None, after: int
) -> None:
    """Also where a window from before changes at its source, or is undone."""
    former, table = declared(before, WAYS[way]), declared(after, WAYS[way])
    load_all(former)
    held = former.rows()
    with pytest.raises(SchemaMismatch, match="incload rebucket items"):
        table.load(2)
    done = rebucket(table.context(), because="a test")
    assert (done.before, done.after, done.rows) == (before, after, len(held))
    assert table.rows() == held
    assert rebucket(table.context()) == Rebucketed(after, after)
    with pytest.raises(SchemaMismatch):
        former.load(2)
    table.content[day(1)] = [item("key 0", "other", 1), item("key 5", "other", 4), item("key 30", "late", 1)]
    table.content[day(3)] = [item("key 30", "newer", 5), item("key 2", None, 6, "d"), item("key 31", "v", 1)]
    table.load(3)
    table.load(1)
    fresh = make(spark, tmp_path / "fresh", table.content, write=WAYS[way](after), changes=DELETING)
    for number in (1, 2, 3):
        fresh.load(number)
    assert table.rows() == fresh.rows()
    assert placed(table) == placed(fresh)
    undo_window(table.context(), window_of(table.table.partitions_def, day(1)), Undo())
    fresh.content[day(1)] = CONTENT[day(1)]
    fresh.load(1)
    assert table.rows() == fresh.rows()


def test_a_table_is_divided_no_more(declared: Callable[..., Loaded]) -> None:
    former, table = declared(4), declared(None)
    load_all(former)
    held = former.rows()
    assert rebucket(table.context()).after is None
    assert table.load(1).evidence.pending == 0
    assert table.rows() == held
    assert numbers(table) == ([4, None], "none")


class Killed(BaseException):
    """The process ends here."""


def killed_at(monkeypatch: pytest.MonkeyPatch, name: str, number: int, *, after: bool) -> None:
    """Makes the process end before or after the ``number``-th call of a step."""
    does, calls = getattr(module, name), iter(range(1, 100))

    def step(*args: Any, **options: Any) -> Any:
        ends = next(calls) == number
        if ends and not after:
            raise Killed
        done = does(*args, **options)
        if ends:
            raise Killed
        return done

    monkeypatch.setattr(module, name, step)


def test_a_rebucketing_that_is_killed_anywhere_goes_on_and_until_then_nothing_is_loaded(
    declared: Callable[..., Loaded], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it stops, either the former declaration loads, or none."""
    table, other = declared(4), declared(6)
    load_all(table)
    held = table.rows()
    places = [
        ("set_properties", 1, True),
        ("call_off_all_merges", 1, True),
        ("_prove", 1, False),
        ("set_properties", 2, True),
        ("set_properties", 3, False),
    ]
    for name, number, after in places:
        with monkeypatch.context() as patch:
            killed_at(patch, name, number, after=after)
            with pytest.raises(Killed):
                rebucket(other.context())
        in_log, in_table = numbers(table)
        ready = [one for one in (table, other) if str(one.table.write.buckets) == in_table == str(in_log[-1])]
        for one in (table, other):
            if one in ready:
                ensure_tables(one.context())
            else:
                with pytest.raises(SchemaMismatch, match="buckets"):
                    ensure_tables(one.context())
        assert len(ready) <= 1
        rebucket(other.context())
        assert numbers(other)[1] == str(other.table.write.buckets)
        assert other.rows() == held
        table, other = other, table
    assert table.load(2).evidence.pending == 0
    assert table.rows() == held


def test_a_rebucketing_that_was_killed_after_its_commit_can_become_one_to_the_former_number(
    declared: Callable[..., Loaded], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the rewrite tells which number the rows are placed by."""
    former, other = declared(4), declared(6)
    load_all(former)
    held, was = former.rows(), placed(former)
    with monkeypatch.context() as patch:
        killed_at(patch, "_prove", 1, after=False)
        with pytest.raises(Killed):
            rebucket(other.context())
    assert placed(former) != was
    rebucket(former.context())
    assert placed(former) == was
    with monkeypatch.context() as patch:  # before it has rewritten anything: nothing is to be done
        killed_at(patch, "call_off_all_merges", 1, after=False)
        with pytest.raises(Killed):
            rebucket(other.context())
    assert rebucket(former.context()) == Rebucketed(4, 4)
    assert former.load(2).evidence.pending == 0
    assert former.rows() == held


def test_a_load_that_runs_meanwhile_is_merged_before_or_stops_and_is_loaded_afterwards(
    declared: Callable[..., Loaded], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after its landing it is merged; one that lands later, or is about to merge, stops."""
    table, other = declared(4), declared(6)
    table.load(1)
    with monkeypatch.context() as patch:
        patch.setattr("incload_assets.load.load.apply_changes", _die)
        with pytest.raises(Killed):
            table.load(2)
    rebucket(other.context())
    assert ("key 0", "new") in other.rows("id", "value")

    rewritten = module._rewritten

    def landed_meanwhile(load: Any) -> Any:
        with pytest.raises(SchemaMismatch, match="has 4 buckets, or is about to get them; declared is 6"):
            in_flight(other)
        return rewritten(load)

    other.content[day(3)] = [item("key 7", "late", 9), item("key 40", "late", 9)]
    with monkeypatch.context() as patch:
        patch.setattr(module, "_rewritten", landed_meanwhile)
        rebucket(table.context())
    assert other.context().log.record(day(3)) is not None, "it has landed, and is merged by the next load"
    assert table.load(3).evidence.pending == 0
    assert {("key 7", "late"), ("key 40", "late")} <= table.rows("id", "value")
    assert len(table.rows("id")) == len(table.rows())


def test_a_table_whose_loads_always_land_first_stays_as_it_is(
    declared: Callable[..., Loaded], monkeypatch: pytest.MonkeyPatch
) -> None:
    table, other = declared(4), declared(6)
    table.load(1)
    with monkeypatch.context() as patch:
        patch.setattr("incload_assets.load.load.apply_changes", _die)
        with pytest.raises(Killed):
            table.load(2)
    monkeypatch.setattr(module, "_merge_landed", lambda _: None)
    monkeypatch.setattr(module, "ATTEMPTS", 1)
    with pytest.raises(ConcurrentLoad, match="loads committed first in each of 1 attempts"):
        rebucket(other.context())
    assert numbers(table) == ([4, 6, 4], "4")
    assert table.load(2).committed
    assert ("key 0", "new") in table.rows("id", "value")


def _die(*_: Any, **__: Any) -> Any:
    raise Killed


def in_flight(table: Loaded) -> None:
    """A load that has looked at the table before."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("incload_assets.load.load.ensure_tables", lambda _: None)
        table.load(3)


def test_a_merge_that_was_planned_before_is_rejected_however_late_it_is_sent(
    declared: Callable[..., Loaded], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The load that planned it stops then, and has changed nothing."""
    table, other = declared(4), declared(6)
    load_all(table)
    other.content[day(2)] = table.content[day(2)] = [item("key 50", "v", 4), item("key 0", "newest", 4)]
    merge, sent = Merge.apply, iter([True])

    def late(self: Merge, load: Any, at: Any, plan: Any) -> Any:
        if next(sent, False):
            monkeypatch.setattr(module, "_merge_landed", lambda _: None)
            monkeypatch.setattr(module, "_not_merged", lambda *_: [])  # it is a repeated merge
            rebucket(other.context())
        return merge(self, load, at, plan)

    monkeypatch.setattr(Merge, "apply", late)
    with pytest.raises(SchemaMismatch, match="has 6 buckets, or is about to get them; declared is 4"):
        table.load(2)
    assert not {row for row in other.rows("id") if row == ("key 50",)}
    assert other.load(2).evidence.pending == 0
    assert ("key 50", "v", 4) in other.rows()


def test_rows_that_differ_after_the_rewrite_are_taken_back(
    declared: Callable[..., Loaded], monkeypatch: pytest.MonkeyPatch
) -> None:
    table, other = declared(4), declared(6)
    load_all(table)
    held, bucket = table.rows(), module.bucket_sql
    with monkeypatch.context() as patch:
        wrong = iter(["CAST(0 AS INT)"])
        patch.setattr(module, "bucket_sql", lambda one: next(wrong, None) or bucket(one))
        with pytest.raises(IncrementalLoadError, match="buckets of the rewritten table differ"):
            rebucket(other.context())
    assert table.rows() == held
    rebucket(other.context())
    assert other.load(1).evidence.pending == 0
    assert other.rows() == held


def test_what_cannot_get_other_buckets_is_refused_with_a_remedy(
    spark: SparkSession, tmp_path: Path, declared: Callable[..., Loaded]
) -> None:
    table = declared(4)
    with pytest.raises(SchemaMismatch, match=r"there is no table .* Remedy: load it: incload load items --all-missing"):
        rebucket(table.context())
    load_all(table)
    with pytest.raises(SchemaMismatch, match=r"6 buckets are asked for, declared is buckets=4\. .*declare buckets=6"):
        rebucket_alone(table.context(), 6)
    keys = make(
        spark, tmp_path, table.content, write=Merge(buckets=4), changes=Changes(keys=["value"], sequence_by=["seq"])
    )
    with pytest.raises(SchemaMismatch, match=r"keys changed: incload.keys was id, declared is value"):
        rebucket(keys.context())
    spark.sql(f"ALTER TABLE {table.lake.sql_name(table.uri)} SET TBLPROPERTIES ('delta.appendOnly' = 'true')")
    with pytest.raises(SchemaMismatch, match=r"Delta refuses to rewrite .*DELTA_CANNOT_MODIFY_APPEND_ONLY"):
        rebucket_alone(declared(6).context(), 6)
    claim(table.lake, "items", now() + timedelta(hours=1), "a person is erased", holder="erasure 1")
    with pytest.raises(IncrementalLoadError, match="other work is alone with the table"):
        rebucket_alone(declared(6).context(), None)


@pytest.mark.parametrize(
    ("places", "of", "now", "found"),
    [
        (["1", "3"], 4, 4, ["1", "3"]),
        (["1"], 4, 8, ["1", "5"]),
        (["5"], 8, 4, ["1"]),
        (["1"], 4, 6, ["1", "3", "5"]),
        (["1"], 4, 9, None),
        (["1"], 4, None, None),
        ([], 4, 8, []),
    ],
)
def test_buckets_of_another_number_are_found_by_a_common_divisor(
    places: list[str], of: int, now: int | None, found: list[str] | None
) -> None:
    assert in_buckets(places, of, now) == found
    for value in range(720 if found is not None and now is not None else 0):
        assert str(value % of) not in places or str(value % (now or 1)) in (found or [])


def newest(content: dict[str, list[Any]]) -> set[tuple[Any, ...]]:
    """The rows that the newest changes make: the oracle."""
    rows: dict[str, Any] = {}
    for change in sorted((one for changes in content.values() for one in changes), key=lambda one: int(one["seq"])):
        rows[change["id"]] = change
    return {(one["id"], one["value"], int(one["seq"])) for one in rows.values() if one["op"] != "d"}


@pytest.mark.parametrize("seed", range(12 if NIGHT else 1))
def test_random_changes_make_the_same_table_whenever_it_gets_other_buckets(
    declared: Callable[..., Loaded], seed: int
) -> None:
    chance, number, loaded = Random(seed), None, dict[str, list[Any]]()
    table = declared(number)

    def delivered() -> list[Any]:
        changes = [(f"key {chance.randrange(9)}", chance.choice("uuud")) for _ in range(chance.randrange(1, 12))]
        return [item(key, f"{chance.random()}", chance.randrange(2**40), op) for key, op in changes]

    for step in range(7):
        if step and step % 2 == 0:
            number = chance.choice([one for one in (None, 2, 4, 6, 9) if one != number])
            table = replace(table, table=declared(number).table)
            rebucket(table.context())
            assert table.rows() == newest(loaded)
        at = chance.choice([1, 2, 3])
        if day(at) not in loaded or chance.random() < 0.5:
            table.content[day(at)] = delivered()
        loaded[day(at)] = table.content[day(at)]
        table.load(at)
        assert table.rows() == newest(loaded), (seed, step)
