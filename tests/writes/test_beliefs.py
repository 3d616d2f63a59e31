"""Beliefs, ``History(known=True)``: what was known when, sentence by sentence, on literal rows."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest
from hypothesis import given, seed
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from incload_assets.assets import History, Merge
from incload_assets.change_log import commit
from incload_assets.change_log.known_at import instant_of, known_app_id, known_at
from incload_assets.checks.uniqueness import uniqueness
from incload_assets.declaration.window import window_of
from incload_assets.load import load as loading
from incload_assets.load.tables import adapt_tables, ensure_tables
from incload_assets.maintenance.rebucket import rebucket
from incload_assets.platform.errors import DeclarationError, IncrementalLoadError, StoredFileLost
from incload_assets.progress.checkpoint import Checkpoint
from incload_assets.trial import oracle
from incload_assets.writes.as_of import rows_as_of
from tests.support.tables import DAYS, Loaded, day, item, make
from tests.writes.case import SEED, Case, Content, crowds, hashes_of
from tests.writes.case_history import COLUMNS, HISTORY_KNOWN, held_versions
from tests.writes.examples import Differs, Example, Run
from tests.writes.test_conformance import ROWS, light, windows

Belief = tuple[Any, ...]
STORED = ("id", "value", "valid_from", "valid_to", "is_current", "is_known", "known_from", "known_to")
"""The columns of a table of beliefs."""


def beliefs(table: Loaded) -> dict[bool, set[Belief]]:
    """Key, value and period of the versions, by whether they are still believed."""
    rows = table.rows(*STORED)
    assert all((row[7] is None) == row[5] and (row[5] or row[6] < row[7]) for row in rows)
    return {held: {row[:5] for row in rows if row[5] == held} for held in (True, False)}


def test_a_correction_ends_a_belief_and_does_not_rewrite_it(spark: SparkSession, tmp_path: Path) -> None:
    content = {day(1): [item("k", "a", 1), item("other", "x", 1)], day(2): [item("k", "b", 5)]}
    table = make(spark, tmp_path, content, write=History(known=True))
    table.load(1)
    assert beliefs(table) == {True: {("k", "a", 1, None, True), ("other", "x", 1, None, True)}, False: set()}
    table.load(2)
    assert beliefs(table) == {
        True: {("k", "a", 1, 5, False), ("k", "b", 5, None, True), ("other", "x", 1, None, True)},
        False: {("k", "a", 1, None, False)},
    }
    files = table.files()
    table.replay(table.load(2))
    assert table.files() == files
    content[day(2)] = [item("k", "c", 5)]
    table.load(2)
    assert beliefs(table) == {
        True: {("k", "a", 1, 5, False), ("k", "c", 5, None, True), ("other", "x", 1, None, True)},
        False: {("k", "a", 1, None, False), ("k", "b", 5, None, False)},
    }
    content[day(2)] = [item("k", None, 1, "d")]
    table.load(2)
    assert beliefs(table) == {
        True: {("other", "x", 1, None, True)},
        False: {
            *(("k", value, 5, None, False) for value in "bc"),
            *(("k", "a", 1, end, False) for end in (None, 5)),
        },
    }


class Killed(BaseException):
    """The end of a process between landing and merge."""


class Known(Run):
    """Does what an example says, and remembers what was known at the instant of each landing."""

    def __init__(self, spark: SparkSession, case: Case, example: Example) -> None:
        super().__init__(spark, case, example)
        self.known: dict[datetime, set[Belief]] = {}
        self.open: set[int] = set()

    def go(self) -> None:
        """All steps; then the whole table is what was known after each."""
        for step in self.example.steps:
            what, days = step
            getattr(self, what)(*days)
            self.hashes |= hashes_of(self.table)
            found = held_versions(self.table)
            if not self.open and found != (right := self.case.right(self.table, self.loaded, self.hashes)):
                raise Differs(step, found, right)
            self.known[self.instant] = found
        rows = self.table.rows(*COLUMNS, "known_from", "known_to")
        beliefs = oracle.beliefs(self.known.items())  # a closed belief is not current, whatever it was
        assert rows == {row if row[-1] is None else (*row[:-3], False, *row[-2:]) for row in beliefs}
        for instant, right in self.known.items():
            read = rows_as_of(self.table.spark, self.table.table, self.table.lake, known=instant)
            assert {tuple(row) for row in read.select(*COLUMNS).collect()} == right

    @property
    def instant(self) -> datetime:
        """The instant of the newest landing."""
        found = known_at(self.table.table, self.context.log.open())
        assert found is not None
        return instant_of(found)

    def kill(self, number: int) -> None:
        """Load a window in a process that is killed between landing and merge."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(loading, "apply_changes", _die)
            with pytest.raises(Killed):
                self.table.load(number)
        self.open.add(number)

    def load(self, number: int) -> None:
        """Load a window, the first time or once more."""
        super().load(number)
        self.open.discard(number)

    def beside(self, number: int, other: int) -> None:
        """Load a window while another load of the table lands and merges before the merge of the first."""
        merge = loading.apply_changes

        def overtaken(*args: Any, **options: Any) -> Any:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(loading, "apply_changes", merge)
                self.load(other)
            return merge(*args, **options)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(loading, "apply_changes", overtaken)
            self.load(number)


def _die(*_: Any, **__: Any) -> Any:
    raise Killed


@st.composite
def examples(draw: st.DrawFn) -> Example:
    """Loads in any order with a kill and another writer; corrected files, undo, release, and loads in ranges."""
    content: st.SearchStrategy[Content] = crowds().filter(lambda content: sum(map(len, content.values())) >= ROWS)
    first, second, *others = draw(windows)
    last = draw(st.sampled_from([first, *others]))  # no load of the other one is refused, as it is never undone
    steps = [
        ("load", (first,)),
        ("kill", (second,)),
        ("load", (first,)),
        ("load", (second,)),
        ("replay", (second,)),
        ("together", tuple(others)),
        ("rewrite", (last,)),
        ("undo", (first,)),
        ("release", (first,)),
        ("beside", (last, second)),
        ("undo", (last,)),
        ("load", (second,)),
        ("settled", ()),
    ]
    return Example(steps, draw(content), draw(content))


@pytest.mark.timeout(600)
@seed(SEED)
@light
@given(data=st.data())
def test_what_was_known_at_the_instant_of_any_landing_is_what_the_table_held_after_it(
    spark: SparkSession, data: st.DataObject
) -> None:
    Known(spark, HISTORY_KNOWN, data.draw(examples(), label="example")).go()


def test_instants_grow_although_the_clock_goes_back(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = {day(1): [item("k", "a", 1)], day(2): [item("k", "b", 5)]}
    table = make(spark, tmp_path, content, write=History(known=True))
    table.load(1)
    [(began,)] = table.rows("known_from")
    monkeypatch.setattr("incload_assets.declaration.window.now", lambda: datetime(2026, 1, 1, tzinfo=UTC))
    table.load(2)
    [ended] = {row[-1] for row in table.rows("valid_to", "known_to")} - {None}
    assert began < ended <= began + timedelta(microseconds=1_001), "the table's statistics tell milliseconds"
    committed = table.context().log.open().transaction_version(known_app_id(table.table))
    assert committed is not None and ended == instant_of(committed), "the instant of the log that the merge read"
    assert table.rows("value", "valid_to", "known_from", "known_to") == {
        ("a", None, began, ended),
        ("a", 5, ended, None),
        ("b", None, ended, None),
    }


def test_what_a_history_cannot_know_is_refused_with_what_to_do(spark: SparkSession, tmp_path: Path) -> None:
    at = datetime(2026, 1, 3, tzinfo=UTC)
    plain = make(spark, tmp_path / "plain", {day(1): [item("k", "a", 1), item("k", "b", 5)]}, write=History())
    merged = make(spark, tmp_path / "merged", write=Merge())
    known = make(spark, tmp_path / "known", write=History(known=True))
    plain.load(1)

    def read(table: Loaded, **of: Any) -> set[Belief]:
        rows = rows_as_of(spark, table.table, table.lake, **of)
        return {tuple(row) for row in rows.select("value", "valid_from", "valid_to", "is_current").collect()}

    assert read(plain, valid=4) == {("a", 1, 5, False)}
    assert read(plain, valid=5) == {("b", 5, None, True)}
    assert read(plain, valid=0) == set()
    refused: list[tuple[Loaded, dict[str, Any], str]] = [
        (merged, {"valid": 1}, r"items: Merge\(\) keeps no versions"),
        (plain, {"known": at}, r"items: it does not keep what was known at 2026-01-03"),
        (plain, {"valid": at}, r"items: valid=.* is no bigint"),
        (known, {}, r"items: .* holds no table"),
    ]
    for table, of, problem in refused:
        with pytest.raises(IncrementalLoadError, match=problem + ".*Remedy: "):
            read(table, **of)
    known.content[day(1)] = [item("k", "a", 1)]
    known.load(1)
    with pytest.raises(IncrementalLoadError, match=r"items: known=.* has no time zone.*Remedy: give it a zone"):
        read(known, known=datetime(2026, 1, 3))


def test_the_first_load_cannot_choose_the_buckets_of_a_table_whose_loss_has_to_be_noticed(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match=r"items: write.buckets is 'auto' and write.known is true.*rebucket"):
        make(None, tmp_path, write=History(known=True, buckets="auto"))  # type: ignore[arg-type]


def test_an_edit_by_hand_is_corrected_in_place_if_nothing_has_landed_since_and_otherwise_ended(
    spark: SparkSession, tmp_path: Path
) -> None:
    content = {day(1): [item("k", "a", 1)], day(2): [item("other", "x", 1)]}
    table = make(spark, tmp_path, content, write=History(known=True))
    first = table.load(1)
    edit = f"UPDATE {table.lake.sql_name(table.uri)} SET value = 'edited' WHERE id = 'k'"
    spark.sql(edit).first()
    table.load(1)
    assert beliefs(table) == {True: {("k", "a", 1, None, True)}, False: set()}
    table.load(2)
    spark.sql(edit).first()
    table.load(1, checkpoint=Checkpoint(first.record.fingerprint, clean=True))
    assert beliefs(table) == {
        True: {("k", "a", 1, None, True), ("other", "x", 1, None, True)},
        False: {("k", "edited", 1, None, False)},
    }
    assert uniqueness(spark, table.table, table.lake).passed


def test_a_load_reads_and_writes_no_file_of_beliefs_that_were_ended(spark: SparkSession, tmp_path: Path) -> None:
    content = {day(n): [item("k", str(n), n)] for n in (1, 2, 3)}
    table = make(spark, tmp_path, content, write=History(known=True))
    table.load(1)
    table.load(2)
    ended = {file for file in table.files() if "is_known=false" in file}
    at = table.context().read_view((window_of(DAYS, day(2)),), "items/*")
    assert 0 < at.near_bytes < at.table_bytes
    table.load(3)
    assert len(ended) == 1
    assert ended < {file for file in table.files() if "is_known=false" in file}


def test_another_number_of_buckets_and_larger_files_leave_what_was_believed(
    spark: SparkSession, tmp_path: Path
) -> None:
    content = {day(1): [item(f"{n}", "a", 1) for n in range(6)], day(2): [item(f"{n}", "b", 2) for n in range(3)]}
    made = [make(spark, tmp_path, content, write=History(known=True, buckets=buckets)) for buckets in (2, 3)]
    former, table = made
    former.load(1)
    former.load(2)
    before, instant = former.rows(*STORED), known_at(table.table, table.context().log.open())
    assert instant is not None
    assert len(beliefs(former)[False]) == 3
    rebucket(table.context(), because="a test")
    assert table.rows(*STORED) == before
    spark.sql(f"OPTIMIZE {table.lake.sql_name(table.uri)}").first()
    assert table.rows(*STORED) == before
    content[day(2)] = [item("0", "c", 2)]
    table.load(2)
    assert {row for row in before if row[-1] is not None} < table.rows(*STORED)
    then = rows_as_of(spark, table.table, table.lake, known=instant_of(instant))
    held = {row[:2] for row in before if row[-1] is None}
    assert {(row["id"], row["value"]) for row in then.collect()} == held
    assert uniqueness(spark, table.table, table.lake).passed


def test_a_landing_whose_instant_another_one_takes_is_committed_at_a_later_one_without_reading_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    content = {day(1): [item("k", "a", 1)], day(2): [item("other", "x", 1)]}
    table, told = make(spark, tmp_path, content, write=History(known=True)), list[str]()
    ensure_tables(table.context())
    taken = commit.next_instant

    def overtaken(*args: Any) -> dict[str, int]:
        instant = taken(*args)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(commit, "next_instant", taken)
            if not told.count("overtaken"):
                told.append("overtaken")
                table.load(2)
        return instant

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(commit, "next_instant", overtaken)
        table.load(1, info=told.append)
    assert sum("read 1 row" in line for line in told) == 1
    instants = dict(table.rows("id", "known_from"))
    assert instants["other"] < instants["k"]


def test_a_lost_table_is_not_made_again_without_what_was_believed(spark: SparkSession, tmp_path: Path) -> None:
    content = {day(1): [item("k", "a", 1)], day(2): [item("k", "b", 5)]}
    table = make(spark, tmp_path, content, write=History(known=True))
    table.load(1)
    table.load(2)
    rmtree(table.uri)
    with pytest.raises(StoredFileLost, match=r"items: .* is gone, and with it .* Remedy: put the table"):
        table.load(2)
    assert table.lake.delta(table.uri) is None
    adapt_tables(table.context())
    table.load(2)
    assert beliefs(table) == {True: {("k", "a", 1, 5, False), ("k", "b", 5, None, True)}, False: set()}


@pytest.mark.parametrize(
    ("damage", "law"),
    [
        ("SET known_to = known_from WHERE NOT is_known", "without a period"),
        ("SET is_current = true WHERE NOT is_known", "wrongly current"),
        ("SET known_to = known_to + INTERVAL 1 SECOND WHERE NOT is_known", "believed twice"),
        ("SET valid_to = 9 WHERE value = 'a' AND is_known", "in effect beside another version"),
    ],
)
def test_beliefs_that_another_writer_has_damaged_break_a_law(
    spark: SparkSession, tmp_path: Path, damage: str, law: str
) -> None:
    content = {day(1): [item("k", "a", 1)], day(2): [item("k", "b", 5)]}
    table = make(spark, tmp_path, content, write=History(known=True))
    table.load(1)
    table.load(2)
    assert uniqueness(spark, table.table, table.lake).passed
    spark.sql(f"UPDATE {table.lake.sql_name(table.uri)} {damage}").first()
    found = uniqueness(spark, table.table, table.lake)
    assert not found.passed
    assert f"1 belief {law}" in str(found.description)
