"""A vacuum removes what no version within the retention holds, and nothing that a load needs."""

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from threading import Event

import pytest
from pyspark.sql import SparkSession

from incload_assets.change_log.context import LoadContext
from incload_assets.maintenance import vacuum as module
from incload_assets.maintenance.vacuum import Vacuumed, vacuum
from incload_assets.platform.errors import DeclarationError
from incload_assets.platform.settings import Settings
from incload_assets.platform.spark.resource import open_session
from tests.support.tables import Loaded, day, item, make


@pytest.fixture
def loaded(spark: SparkSession, tmp_path: Path) -> Loaded:
    """Two windows, of which the second replaced a file of the first."""
    loaded = make(spark, tmp_path, {day(1): [item("a", "old", 1), item("b", "x", 1)], day(2): [item("a", "new", 2)]})
    loaded.load(1)
    loaded.load(2)
    return loaded


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> Callable[[Loaded], None]:
    """Have what is replaced be due at once, in the table and in its log."""

    def kept_no_longer(loaded: Loaded) -> None:
        monkeypatch.setattr(module, "SHORTEST", timedelta(0))
        for uri in uris(loaded):
            keep(loaded, uri, "interval 0 seconds")

    return kept_no_longer


def uris(loaded: Loaded) -> list[str]:
    return [loaded.uri, loaded.lake.log_uri(loaded.table.key.path)]


def keep(loaded: Loaded, uri: str, how_long: str) -> None:
    properties = f"'delta.deletedFileRetentionDuration' = '{how_long}'"
    loaded.spark.sql(f"ALTER TABLE {loaded.lake.sql_name(uri)} SET TBLPROPERTIES ({properties})")


def vacuumed(loaded: Loaded, spark: SparkSession | None = None, *, everything: bool = False) -> Vacuumed:
    return vacuum(LoadContext(spark or loaded.spark, loaded.table, loaded.lake), everything=everything)


def data_files(uri: str) -> set[str]:
    """All below a table's folder, whether they are part of it or not."""
    return {f"{file}" for file in Path(uri).rglob("*.parquet") if "_delta_log" not in file.parts}


def present(loaded: Loaded, uri: str) -> set[str]:
    """Those that are part of it."""
    delta = loaded.lake.delta(uri)
    assert delta is not None
    return {path.removeprefix("file://") for path in delta.file_uris()}


def stray(loaded: Loaded, age: timedelta = timedelta(days=30), folder: Path | None = None) -> Path:
    """A file that was written so long ago and never committed."""
    file = (folder or Path(loaded.uri)) / f"part-00000-{age.days}.snappy.parquet"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"half")
    modified = time.time() - age.total_seconds()
    os.utime(file, (modified, modified))
    return file


def versions(loaded: Loaded) -> list[int | None]:
    return [loaded.lake.version(uri) for uri in uris(loaded)]


def test_what_was_replaced_is_removed_from_table_and_log_and_no_row_changes(
    loaded: Loaded, at_once: Callable[[Loaded], None]
) -> None:
    loaded.content[day(1)].append(item("c", "late", 1))
    loaded.load(1)
    rows, changes = loaded.rows(), loaded.log("upsert", "id", "value", "_window")
    left_over = [data_files(uri) - present(loaded, uri) for uri in uris(loaded)]
    assert all(left_over)
    at_once(loaded)

    done = vacuumed(loaded)

    assert done.files >= sum(map(len, left_over)) and done.size > 0
    assert [data_files(uri) for uri in uris(loaded)] == [present(loaded, uri) for uri in uris(loaded)]
    assert (loaded.rows(), loaded.log("upsert", "id", "value", "_window")) == (rows, changes)
    loaded.content[day(2)].append(item("b", "y", 2))
    assert [loaded.load(number).evidence.pending for number in (1, 2)] == [0, 0]
    assert loaded.rows() == {("a", "new", 2), ("b", "y", 2), ("c", "late", 1)}


def test_what_was_replaced_within_the_retention_stays(loaded: Loaded) -> None:
    before = [data_files(uri) for uri in uris(loaded)]
    assert vacuumed(loaded) == vacuumed(loaded, everything=True) == Vacuumed()
    assert [data_files(uri) for uri in uris(loaded)] == before


def test_files_that_were_never_committed_are_found_by_listing_and_those_being_written_stay(loaded: Loaded) -> None:
    left, being_written = stray(loaded), stray(loaded, timedelta(hours=3))
    vacuumed(loaded)
    assert left.exists()
    assert vacuumed(loaded, everything=True).files == 1
    assert (left.exists(), being_written.exists()) == (False, True)


def test_what_killed_landings_have_left_in_the_log_is_found_by_listing_too(loaded: Loaded) -> None:
    landed = Path(loaded.lake.log_uri(loaded.table.key.path), "landed", "of-a-killed-one")
    month, hours = timedelta(days=30), timedelta(hours=3)
    folders = [landed / "_window=1" / "_kind=upsert", landed / "_temporary" / "0" / "task"]
    left, being_written = ([stray(loaded, age, folder) for folder in folders] for age in (month, hours))
    assert vacuumed(loaded, everything=True).files >= 2
    assert [file.exists() for file in (*left, *being_written)] == [False, False, True, True]
    loaded.content[day(1)].append(item("c", "late", 1))
    assert loaded.load(1).evidence.pending == 0


def test_a_table_at_rest_is_left_alone_when_its_files_have_been_listed_once_more(
    loaded: Loaded, at_once: Callable[[Loaded], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once(loaded)
    assert vacuumed(loaded).files
    left = stray(loaded)
    assert vacuumed(loaded, everything=True).files == 1 and not left.exists()
    monkeypatch.setattr(module, "_A_WEEK", timedelta(0))
    before = versions(loaded)
    assert vacuumed(loaded) == Vacuumed()
    assert versions(loaded) == before, "nothing to do, nothing committed"


def test_commits_of_a_writer_that_tells_nothing_of_itself_are_borne(
    loaded: Loaded, at_once: Callable[[Loaded], None]
) -> None:
    at_once(loaded)
    number = loaded.lake.version(loaded.uri)
    assert number is not None
    silent = Path(loaded.uri, "_delta_log", f"{number + 1:020}.json")
    silent.write_text('{"txn": {"appId": "somebody", "version": 1}}\n')
    assert vacuumed(loaded).files
    assert vacuumed(loaded).files == 0


def test_where_commits_are_gone_everything_is_listed_instead(loaded: Loaded, at_once: Callable[[Loaded], None]) -> None:
    at_once(loaded)
    left, delta = stray(loaded), loaded.lake.delta(loaded.uri)
    assert delta is not None
    delta.create_checkpoint()
    Path(loaded.uri, "_delta_log", f"{0:020}.json").unlink()
    vacuumed(loaded)
    assert not left.exists()


def test_a_retention_shorter_than_a_load_may_take_is_refused(loaded: Loaded) -> None:
    keep(loaded, loaded.uri, "interval 1 hour")
    left = stray(loaded)
    with pytest.raises(DeclarationError, match=r"items: delta.deletedFileRetentionDuration is 'interval 1 hour'"):
        vacuumed(loaded, everything=True)
    assert left.exists()


def test_a_table_that_is_not_there_yet_has_nothing_to_remove(spark: SparkSession, tmp_path: Path) -> None:
    assert vacuumed(make(spark, tmp_path)) == Vacuumed()


def test_loads_and_vacuums_at_the_same_time_leave_the_table_right(
    spark: SparkSession, spark_url: str, tmp_path: Path
) -> None:
    days = range(1, 6)
    content = {day(n): [item(f"own{n}", "x", n), item("shared", f"v{n}", n)] for n in days}
    loaded, over = make(spark, tmp_path, content), Event()

    def vacuum_until_over() -> int:
        rounds = 0
        with open_session(Settings(spark=spark_url)) as session:
            while not over.wait(0.2):
                vacuumed(loaded, session, everything=bool(rounds % 2))
                rounds += 1
        return rounds

    with ThreadPoolExecutor(1) as pool:
        vacuums = pool.submit(vacuum_until_over)
        try:
            for number in days:
                loaded.load(number)
        finally:
            over.set()
    assert vacuums.result() > 1
    assert loaded.rows() == {("shared", "v5", 5), *((f"own{n}", "x", n) for n in days)}
    assert all(loaded.load(number).evidence.pending == 0 for number in days)
