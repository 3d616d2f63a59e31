"""Lost checkpoints are rebuilt from log and table, without the source; what is not proven stays open."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from incload_assets.automation.window_requests import look as sensor_look
from incload_assets.change_log.context import LoadContext
from incload_assets.platform.settings import Settings
from incload_assets.progress.progress import progress_of
from incload_assets.restore import rebuild as module
from incload_assets.restore.jobs import rebuild_job
from incload_assets.restore.rebuild import Rebuilt, rebuild
from tests.support.guest_table import NOON, House, guest, house, key


@pytest.fixture
def h(tmp_path: Path, spark_settings: Settings) -> Iterator[House]:
    """A house with three loaded days, one of which corrects another's row, and an instance that has lost everything."""
    with house(tmp_path, spark_settings) as h, dg.DagsterInstance.ephemeral() as wiped:
        for number, records in enumerate(([guest("1"), guest("2")], [guest("1", seq=2, day=2)], []), start=1):
            h.deliver(number, *records, guest(f"own {number}", day=number))
        assert h.load(1, 2, 3) == [True, True, True]
        h.instance = wiped
        yield h


def run(h: House, spark: SparkSession, **options: bool) -> Rebuilt:
    return rebuild(LoadContext(spark, h.table, h.lake), h.instance, **options)


def versions(h: House) -> list[int | None]:
    return [h.lake.version(uri) for uri in (h.lake.table_uri(h.table.key.path), h.lake.log_uri(h.table.key.path))]


def statuses(h: House) -> dict[str, str]:
    return {w.key: w.status for w in progress_of(h.instance, h.table, h.lake, NOON)}


def test_proven_partitions_are_green_with_their_data_versions_and_nothing_is_written(
    h: House, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WINDOWS_AT_ONCE", 2)
    before = versions(h)
    assert statuses(h) == {key(1): "missing", key(2): "missing", key(3): "missing", key(4): "waiting"}
    hidden = h.root / "landing away"
    shutil.move(h.root / "landing", hidden)  # the source is not there
    assert run(h, spark, dry_run=True) == Rebuilt(proven=[key(1), key(2), key(3)])
    assert not h.instance.get_materialized_partitions(h.table.key)
    assert run(h, spark) == Rebuilt(proven=[key(1), key(2), key(3)])
    assert run(h, spark) == Rebuilt(kept=[key(1), key(2), key(3)])
    shutil.move(hidden, h.root / "landing")
    assert versions(h) == before
    assert statuses(h) == {key(1): "loaded", key(2): "loaded", key(3): "loaded", key(4): "waiting"}
    assert sensor_look(h.instance, h.table, h.lake, NOON)[1].asks == []


def test_a_partition_whose_rows_the_table_lacks_stays_open_with_the_reason(h: House, spark: SparkSession) -> None:
    delta = h.lake.delta(h.lake.table_uri(h.table.key.path))
    assert delta is not None
    delta.delete("id = 'own 3'")
    found = run(h, spark)
    assert found.proven == [key(1), key(2)]
    assert list(found.refused) == [key(3)] and "log and table differ in 1 of 1 key" in found.refused[key(3)]
    assert h.load(3) == [True]
    assert run(h, spark).refused == {}


def test_a_table_that_is_gone_proves_nothing(h: House, spark: SparkSession) -> None:
    shutil.rmtree(h.lake.table_uri(h.table.key.path))
    found = run(h, spark)
    assert found.proven == [] and set(found.refused) == {key(1), key(2), key(3)}


def test_the_job_of_the_ui_does_the_same(h: House) -> None:
    done = rebuild_job([h.table]).execute_in_process(instance=h.instance, resources=h.resources)
    assert done.success
    assert statuses(h) == {key(1): "loaded", key(2): "loaded", key(3): "loaded", key(4): "waiting"}
