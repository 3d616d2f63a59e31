"""Loads that are really killed, at every point of their road: the repetition puts everything right."""

import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from incload_assets.loading.applying import Phases
from incload_assets.loading.context import Context
from incload_assets.loading.load import Checkpoint, _land, ensure_tables
from incload_assets.loading.window import window_of
from incload_assets.loading.writes.merging import app_id, merge
from tests.house import House, guest, key
from tests.integration.loader import POINTS, dagster_house, materialize, started
from tests.loading.tables import DAYS, day, item, make

BEFORE = {("kept", 1), ("changed", 1), ("deleted", 1)}
RIGHT = {("kept", 1), ("changed", 2), ("new", 2)}


def rows(h: House) -> set[tuple[str, int]]:
    delta = h.lake.delta(h.lake.table_uri(h.table.key.path))
    assert delta is not None
    return {(row["id"], row["seq"]) for row in delta.to_pyarrow_table().to_pylist()}


def files(h: House) -> set[str]:
    delta = h.lake.delta(h.lake.table_uri(h.table.key.path))
    assert delta is not None
    return set(delta.file_uris())


def uncommitted(h: House) -> set[Path]:
    """Data files that no version of the table names."""
    uri = h.lake.table_uri(h.table.key.path)
    versions = [h.lake.delta(uri, number) for number in range((h.lake.version(uri) or 0) + 1)]
    named = {Path(file) for delta in versions if delta for file in delta.file_uris()}
    return set(Path(uri).glob("*.parquet")) - named


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


@pytest.mark.parametrize("point", POINTS)
def test_a_load_killed_at_any_point_has_no_checkpoint_and_its_repetition_puts_the_table_right(
    first_day: Path, spark_url: str, tmp_path: Path, point: str
) -> None:
    folder = shutil.copytree(first_day, tmp_path / "again")
    process = started(materialize, folder, spark_url, 2, point)
    process.join(120)
    assert process.exitcode == -signal.SIGKILL
    is_merged = list(POINTS).index(point) > list(POINTS).index("merging")
    with opened(folder, spark_url) as h:
        assert checkpoints(h) == {key(1)}
        assert rows(h) == (RIGHT if is_merged else BEFORE)
        written = files(h)
        assert h.load(2) == [True]
        assert rows(h) == RIGHT
        assert checkpoints(h) == {key(1), key(2)}
        if is_merged:  # only the fence and the checkpoint were missing
            assert files(h) == written
        if point == "merging":  # the server may still be at the MERGE that its client did not wait for
            deadline = time.monotonic() + 20
            while not uncommitted(h) and time.monotonic() < deadline:
                time.sleep(0.2)
            time.sleep(1)  # from its data files to the commit that is refused
            assert rows(h) == RIGHT


def test_a_merge_that_begins_after_its_successor_finished_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """An insert's load is held back before its MERGE; its retry loads; a delete loads; then the old MERGE goes on."""
    table = make(spark, tmp_path, {day(1): [item("k", "a", 5)], day(2): [item("k", None, 10, "d")]})
    window = window_of(DAYS, day(1))
    held = Context(spark, table.table, table.lake)
    ensure_tables(held)
    _land(held, window, Checkpoint(), "", Phases(), lambda _: None)
    at = held.snapshot((window,), app_id(table.table, window))
    plan = table.table.write.plan(held, at, full=False)
    table.load(2)
    table.load(1)
    assert table.rows() == set()
    assert merge(held, at, plan) is None
    assert table.rows() == set()
