"""A table that is no longer the one that was loaded: what it lost is known, asked for and loaded again."""

import shutil
from pathlib import Path

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from incload_assets.automation.window_requests import look as sensor_look
from incload_assets.checks.rollback import REPAIR, rollback
from incload_assets.declaration.window import now
from incload_assets.platform.settings import Settings
from incload_assets.progress.run_tags import RANGE_END_TAG, RANGE_START_TAG
from tests.support.guest_table import House, guest, house, key


def checked(h: House) -> dg.AssetCheckResult:
    """The check, as a run of it leaves its result."""
    found = rollback(h.look(now()))
    h.instance.report_runless_asset_event(
        dg.AssetCheckEvaluation(
            asset_key=h.table.key, check_name=found.check_name or "", passed=found.passed, metadata=found.metadata
        )
    )
    return found


def undone(found: dg.AssetCheckResult) -> dict[str, str]:
    listed = found.metadata.get(REPAIR)
    assert (listed is None) == found.passed
    return dict(listed.data) if isinstance(listed, dg.JsonMetadataValue) and isinstance(listed.data, dict) else {}


def asked(h: House) -> list[str]:
    """The partitions that the sensor asks for."""
    return [ask.partition for ask in sensor_look(h.instance, h.table, h.lake, now())[1].asks]


def rows(h: House) -> set[tuple[str, str]]:
    delta = h.lake.delta(h.lake.table_uri(h.table.key.path))
    assert delta is not None
    return {(row["id"], row["name"]) for row in delta.to_pyarrow_table().to_pylist()}


def data_files(h: House) -> set[str]:
    delta = h.lake.delta(h.lake.table_uri(h.table.key.path))
    assert delta is not None
    return set(delta.file_uris())


def open_house(h: House) -> dict[int, int]:
    """Three days, loaded; the table's version after each."""
    versions = {}
    for number in (1, 2, 3):
        h.deliver(number, guest(str(number), day=number))
        assert h.load(number) == [True]
        versions[number] = h.lake.version(h.lake.table_uri(h.table.key.path)) or 0
    return versions


def test_what_was_loaded_after_the_version_that_was_restored_is_asked_for_and_loaded_again(
    tmp_path: Path, spark: SparkSession, spark_settings: Settings
) -> None:
    with house(tmp_path, spark_settings) as h:
        versions = open_house(h)
        whole = rows(h)
        assert (checked(h).passed, asked(h)) == (True, [])
        spark.sql(f"RESTORE TABLE {h.lake.sql_name(h.lake.table_uri(h.table.key.path))} TO VERSION AS OF {versions[1]}")
        why = f"version {versions[3] + 1} restored version {versions[1]}"
        assert undone(checked(h)) == {key(2): why, key(3): why}
        assert undone(checked(h)) == {key(2): why, key(3): why}, "a second look forgets nothing"
        assert asked(h) == [key(2), key(3)]
        assert h.load(2) == [True]
        assert (undone(checked(h)), asked(h)) == ({key(3): why}, [key(3)])
        assert h.load(3) == [True]
        assert (checked(h).passed, asked(h), rows(h)) == (True, [], whole)
        spark.sql(f"RESTORE TABLE {h.lake.sql_name(h.lake.table_uri(h.table.key.path))} TO VERSION AS OF {versions[2]}")
        assert list(undone(checked(h))) == [key(2), key(3)], "all that was loaded since, again"
        assert asked(h) == [key(2), key(3)]


def test_what_a_failed_window_had_in_the_table_is_told_as_lost_and_comes_back_with_its_next_load(
    tmp_path: Path, spark: SparkSession, spark_settings: Settings
) -> None:
    with house(tmp_path, spark_settings) as h:
        versions = open_house(h)
        h.deliver(2, guest("2", day=2), guest("4", room="none", day=2), guest("5", room="none", day=2))
        assert h.load(2) == [False]
        spark.sql(f"RESTORE TABLE {h.lake.sql_name(h.lake.table_uri(h.table.key.path))} TO VERSION AS OF {versions[1]}")
        found = checked(h)
        assert list(undone(found)) == [key(2), key(3)]
        assert f"requests them again ({key(2)} after the cause of its last failure is fixed), and" in str(
            found.description
        )
        assert asked(h) == [key(3)]
        h.deliver(2, guest("2", day=2), guest("4", day=2))
        assert h.load(2, 3) == [True] * 2
        assert (checked(h).passed, {id for id, _ in rows(h)}) == (True, {"1", "2", "3", "4"})


def backed_up(h: House, folder: Path) -> str:
    """Load the first window, and copy the table's folder.

    Returns:
        Where the table is.
    """
    uri = h.lake.table_uri(h.table.key.path)
    h.deliver(1, guest("1", day=1))
    assert h.load(1) == [True]
    shutil.copytree(uri, folder)
    return uri


@pytest.mark.parametrize("loads_until_it_is_seen", [0, 4])
def test_what_a_copy_of_the_table_put_in_its_place_lacks_is_asked_for_and_loaded_again(
    tmp_path: Path, spark_settings: Settings, loads_until_it_is_seen: int
) -> None:
    with house(tmp_path, spark_settings) as h:
        uri = backed_up(h, tmp_path / "backup")
        for number in (2, 3):
            h.deliver(number, guest(str(number), day=number))
        assert h.load(2, 3) == [True] * 2
        assert (checked(h).passed, asked(h)) == (True, [])
        shutil.rmtree(uri)
        shutil.copytree(tmp_path / "backup", uri)
        for number in range(4, 4 + loads_until_it_is_seen):
            h.deliver(number, guest(str(number), day=number))
            assert h.load(number) == [True]
        found = undone(checked(h))
        assert {key(2), key(3)} <= found.keys()
        assert key(1) not in found
        assert undone(checked(h)) == found, "a second look forgets nothing"
        assert asked(h) == list(found)
        assert h.load(2) == [True]
        assert undone(checked(h)).keys() == found.keys() - {key(2)}
        assert all(h.load(int(again[-2:])) == [True] for again in asked(h))
        assert (checked(h).passed, asked(h)) == (True, [])
        assert {id for id, _ in rows(h)} == {str(number) for number in range(1, 4 + loads_until_it_is_seen)}


def test_a_copy_of_the_table_put_in_its_place_is_noticed_although_the_check_never_saw_what_it_lacks(
    tmp_path: Path, spark_settings: Settings
) -> None:
    with house(tmp_path, spark_settings) as h:
        uri = backed_up(h, tmp_path / "backup")
        h.deliver(2, guest("2", day=2))
        assert h.load(2) == [True]
        shutil.rmtree(uri)
        shutil.copytree(tmp_path / "backup", uri)
        found = undone(checked(h))
        assert (list(found), undone(checked(h))) == ([key(2)], found)
        assert h.load(2) == [True]
        assert (checked(h).passed, asked(h)) == (True, [])


def test_a_copy_of_a_table_that_was_there_before_the_present_one_is_noticed(
    tmp_path: Path, spark_settings: Settings
) -> None:
    with house(tmp_path, spark_settings) as h:
        uri = h.lake.table_uri(h.table.key.path)
        for number in (1, 2):
            h.deliver(number, guest(str(number), day=number))
        assert h.load(1) == [True]
        shutil.move(uri, tmp_path / "backup")
        assert h.load(1, 2) == [True] * 2
        assert checked(h).passed
        shutil.rmtree(uri)
        shutil.move(tmp_path / "backup", uri)
        assert list(undone(checked(h))) == [key(1), key(2)]
        assert h.load(1, 2) == [True] * 2
        assert (checked(h).passed, {id for id, _ in rows(h)}) == (True, {"1", "2"})


@pytest.mark.parametrize("what", ["the table", "the log", "both"])
def test_a_table_or_log_that_is_gone_is_loaded_again(tmp_path: Path, spark_settings: Settings, what: str) -> None:
    with house(tmp_path, spark_settings) as h:
        for number in (1, 2, 3):
            h.deliver(number, guest(str(number), day=number))
        assert h.run(h.loads, tags={RANGE_START_TAG: key(1), RANGE_END_TAG: key(3)}).success
        whole = rows(h)
        assert checked(h).passed
        if what != "the log":
            shutil.rmtree(h.lake.table_uri(h.table.key.path))
        if what != "the table":
            shutil.rmtree(h.lake.log_uri(h.table.key.path))
        checked(h)
        assert h.load(2) == [True]
        checked(h)
        again = [window.key for window in h.look(now()).progress if window.status == "drifted"] or asked(h)
        assert again == [key(1), key(3)]
        assert h.load(1, 3) == [True, True]
        assert (checked(h).passed, asked(h), rows(h)) == (True, [], whole)


def test_without_dagster_s_memory_everything_is_asked_for_and_nothing_written(
    tmp_path: Path, spark_settings: Settings
) -> None:
    with house(tmp_path, spark_settings) as h:
        open_house(h)
        known = {w.key: w.checkpoint for w in h.look(now()).progress if w.checkpoint}
        files = data_files(h)
    with dg.DagsterInstance.ephemeral() as wiped, house(tmp_path, spark_settings, instance=wiped) as h:
        assert asked(h) == [key(1), key(2), key(3)]
        assert h.load(1, 2, 3) == [True] * 3
        assert {w.key: w.checkpoint for w in h.look(now()).progress if w.checkpoint} == known
        assert (data_files(h), asked(h)) == (files, [])
