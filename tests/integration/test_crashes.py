"""Loads that are really killed, at every point of their road: the repetition puts everything right."""

import itertools
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from incload_assets.change_log.context import LoadContext
from incload_assets.declaration.window import window_of
from incload_assets.load.load import _ingest
from incload_assets.load.tables import ensure_tables
from incload_assets.platform.lake import Lake
from incload_assets.progress.checkpoint import Checkpoint
from incload_assets.progress.lake_identity import adopt_lake
from incload_assets.progress.run_tags import UNDO_TAG
from incload_assets.trial.literal_source import Record
from incload_assets.writes.merge_into import app_id, merge
from tests.integration.loader import POINTS, dagster_house, load_until, materialize, started
from tests.support.guest_table import House, guest, key
from tests.support.sampling import NIGHT
from tests.support.tables import DAYS, day, item, make
from tests.writes.case import Case
from tests.writes.cases import CASES

BEFORE = {("kept", 1), ("changed", 1), ("deleted", 1)}
RIGHT = {("kept", 1), ("changed", 2), ("new", 2)}
BAD = {("kept", 1), ("changed", 9), ("bad", 9)}


def rows(h: House) -> set[tuple[str, int]]:
    delta = h.lake.delta(h.lake.table_uri(h.table.key.path))
    assert delta is not None
    return {(row["id"], row["seq"]) for row in delta.to_pyarrow_table().to_pylist()}


def files(h: House) -> set[str]:
    delta = h.lake.delta(h.lake.table_uri(h.table.key.path))
    assert delta is not None
    return set(delta.file_uris())


def uncommitted(lake: Lake, uri: str) -> set[Path]:
    """Data files that no version of the table names."""
    versions = [lake.delta(uri, number) for number in range((lake.version(uri) or 0) + 1)]
    named = {Path(file) for delta in versions if delta for file in delta.file_uris()}
    return set(Path(uri).rglob("*.parquet")) - named


def wait_for_the_forgotten_statement(lake: Lake, uri: str) -> None:
    """The server may still be at the statement that its client did not wait for."""
    deadline = time.monotonic() + 20
    while not uncommitted(lake, uri) and time.monotonic() < deadline:
        time.sleep(0.2)
    time.sleep(1)  # from its data files to the commit that is refused


def is_merged(point: str) -> bool:
    """Whether a load killed at a point has changed the table."""
    return list(POINTS).index(point) > list(POINTS).index("merging")


def checkpoints(h: House) -> set[str]:
    return h.instance.get_materialized_partitions(h.table.key)


@contextmanager
def opened(folder: Path, remote: str) -> Iterator[House]:
    with dagster_house(folder, remote) as h, h.instance:
        yield h


@pytest.fixture(scope="module")
def first_day(tmp_path_factory: pytest.TempPathFactory, spark_url: str) -> Path:
    """A lake, a landing area and a Dagster instance, with the first day loaded and the second delivered."""
    folder = tmp_path_factory.mktemp("first-day")
    with opened(folder, spark_url) as h:
        h.deliver(1, *(guest(id) for id in ("kept", "changed", "deleted")))
        assert h.load(1) == [True]
        h.deliver(2, guest("changed", seq=2), {**guest("deleted", seq=2), "op": "d"}, guest("new", seq=2))
    return folder


def killed_copy(folder: Path, remote: str, tmp_path: Path, number: int, point: str, **tags: str) -> Path:
    """A copy of a lake with all that belongs to it, in which a run on a day was killed."""
    copy = shutil.copytree(folder, tmp_path / "again")
    with opened(copy, remote) as h:
        adopt_lake(h.instance, [h.table], h.lake)  # otherwise the run refuses a copy
    process = started(materialize, copy, remote, number, point, tags)
    process.join(120)
    assert process.exitcode == -signal.SIGKILL
    return copy


@pytest.mark.parametrize("point", POINTS)
def test_every_point_is_at_functions_that_are_there(point: str) -> None:
    assert all(callable(getattr(where, called)) for where, called in POINTS[point][0])


@pytest.mark.parametrize("point", POINTS)
def test_a_load_killed_at_any_point_has_no_checkpoint_and_its_repetition_puts_the_table_right(
    first_day: Path, spark_url: str, tmp_path: Path, point: str
) -> None:
    folder = killed_copy(first_day, spark_url, tmp_path, 2, point)
    with opened(folder, spark_url) as h:
        assert checkpoints(h) == {key(1)}
        assert rows(h) == (RIGHT if is_merged(point) else BEFORE)
        written = files(h)
        assert h.load(2) == [True]
        assert rows(h) == RIGHT
        assert checkpoints(h) == {key(1), key(2)}
        if is_merged(point):  # only the fence and the checkpoint were missing
            assert files(h) == written
        if point == "merging":
            wait_for_the_forgotten_statement(h.lake, h.lake.table_uri(h.table.key.path))
            assert rows(h) == RIGHT


@pytest.fixture(scope="module")
def bad_day(first_day: Path, tmp_path_factory: pytest.TempPathFactory, spark_url: str) -> Path:
    """The same, with the first day rewritten badly: a key is gone, another is new."""
    folder = shutil.copytree(first_day, tmp_path_factory.mktemp("bad") / "day")
    with opened(folder, spark_url) as h:
        adopt_lake(h.instance, [h.table], h.lake)
        h.deliver(1, guest("kept"), guest("changed", seq=9), guest("bad", seq=9))
        assert h.load(1) == [True]
        assert rows(h) == BAD
    return folder


@pytest.mark.parametrize("point", POINTS)
def test_an_undo_killed_at_any_point_is_completed_by_its_repetition_which_undoes_nothing_more(
    bad_day: Path, spark_url: str, tmp_path: Path, point: str
) -> None:
    folder = killed_copy(bad_day, spark_url, tmp_path, 1, point, **{UNDO_TAG: "last"})
    with opened(folder, spark_url) as h:
        assert rows(h) == (BEFORE if is_merged(point) else BAD)
        assert h.run(h.loads, partition=key(1), tags={UNDO_TAG: "last"}).success
        assert rows(h) == BEFORE
        record = h.look().records[key(1)]
        assert (record.landing, record.former) == (3, 2)
        assert record.hold is not None and (record.hold.undone, record.hold.returned_to) == (2, 1)
        assert [w.status for w in h.look().progress if w.key == key(1)] == ["held"]
        if point == "merging":
            wait_for_the_forgotten_statement(h.lake, h.lake.table_uri(h.table.key.path))
            assert rows(h) == BEFORE


TELLING = {
    "history": ("after landing", "merging"),
    "history_partial": ("merging",),
    "append": ("after landing",),
    "snapshot": ("merging",),
    "full_reload": ("merging",),
    "overwrite": ("merging",),
    "delete_insert": ("merging",),
    "merge_fed": ("after landing", "merging"),
    "overwrite_fed": ("merging",),
}
"""The points that are tried every day, by way of writing; a night run tries them all."""
KILLED = [
    (case, point)
    for case, point in itertools.product(CASES, POINTS)
    if point in TELLING.get(case.name, ()) or (NIGHT and point != "before the checkpoint")
]


def records(case: Case, *changes: tuple[str, str | None, int, str]) -> list[Record]:
    """What a window holds, for any way of writing."""
    more = {"day": day(1)} if case.write.partition_by else {"other": "x"}
    return [item(*change, **more) for change in changes]


@pytest.mark.parametrize(("case", "point"), KILLED, ids=[f"{case.name}, {point}" for case, point in KILLED])
def test_what_a_killed_load_was_about_to_write_stays_out_once_its_window_is_loaded_as_it_is_now(
    spark: SparkSession, spark_url: str, tmp_path: Path, case: Case, point: str
) -> None:
    content = {day(1): records(case, ("kept", "a", 1, "u"), ("gone", "a", 1, "u"), ("deleted", None, 3, "d"))}
    process = started(load_until, tmp_path, spark_url, 1, content, case.declared, point)
    process.join(120)
    assert process.exitcode == -signal.SIGKILL
    table = make(spark, tmp_path, content, **case.declared)
    assert case.held(table) == (case.right(table, content) if is_merged(point) else set())
    content[day(1)] = records(case, ("kept", "b", 2, "u"), ("deleted", "b", 2, "u"))
    table.load(1)
    right = case.right(table, content)
    assert case.held(table) == right
    if point == "merging":
        wait_for_the_forgotten_statement(table.lake, table.uri)
        assert case.held(table) == right


def test_a_merge_that_begins_after_its_successor_finished_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """An insert's load is held back before its MERGE; its retry loads; a delete loads; then the old MERGE goes on."""
    table = make(spark, tmp_path, {day(1): [item("k", "a", 5)], day(2): [item("k", None, 10, "d")]})
    window = window_of(DAYS, day(1))
    held = LoadContext(spark, table.table, table.lake)
    ensure_tables(held)
    _ingest(held, window, Checkpoint())
    at = held.read_view((window,), app_id(table.table, window))
    plan = table.table.write.plan(held, at, full=False)
    table.load(2)
    table.load(1)
    assert table.rows() == set()
    assert merge(held, at, plan) is None
    assert table.rows() == set()
