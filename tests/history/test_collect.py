"""The history of loads in ``_loads``: each load once, whatever collects it, and made again if it is lost."""

import json
import shutil
from datetime import timedelta
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import dagster as dg
import pytest

from incload_assets.change_log.context import LoadContext
from incload_assets.history.collect import collect, reason_of
from incload_assets.history.load_row import LoadRow
from incload_assets.history.loads_table import LoadsTable
from incload_assets.load.load import load_window
from incload_assets.platform.settings import Settings
from incload_assets.platform.spark.resource import open_session
from incload_assets.progress.run_tags import ATTEMPT_TAG, FILL_TAG, RELEASE_TAG, REPLAY_TAG, UNDO_TAG
from tests.support.guest_table import DAYS, House, guest, house, key
from tests.support.load_history import named


def collected(h: House) -> list[LoadRow]:
    collect(h.instance, [h.table], h.lake)
    return LoadsTable(h.lake).rows()


def test_every_attempt_is_a_row_with_its_counts_phases_and_proof(tmp_path: Path, spark_settings: Settings) -> None:
    with house(tmp_path, spark_settings) as h:
        h.deliver(1, guest("1"), guest("2"))
        h.deliver(2, guest("3", room=0, day=2))
        assert h.load(1, 2) == [True, False]
        loaded, failed = collected(h)
    assert (loaded.window, loaded.outcome, loaded.rows_read, loaded.inserted) == (key(1), "loaded", 2, 2)
    assert loaded.due_at == loaded.window_end + timedelta(hours=6)
    assert loaded.asked_at is not None and loaded.asked_at < loaded.ended_at
    assert loaded.bytes > 0 and loaded.table_version is not None
    assert json.loads(loaded.proof)["pending"] == 0
    assert {name for name, _, _ in loaded.spans} == {"prepare", "detect", "ingest", "merge", "reconcile"}
    assert sum((took for _, _, took in loaded.spans), timedelta()).total_seconds() < loaded.seconds + 0.1
    assert (failed.window, failed.outcome, failed.error_class) == (key(2), "failed", "ContractViolation")
    assert "room" in failed.error and failed.trace_id == failed.run_id.replace("-", "")


def test_a_load_is_recorded_once_by_several_collectors_at_once(tmp_path: Path, spark_settings: Settings) -> None:
    """The instance is new, so that no collector has asked for its identity before."""
    (tmp_path / "dagster").mkdir()
    with (
        dg.DagsterInstance.local_temp(str(tmp_path / "dagster")) as instance,  # one that threads can share
        house(tmp_path, spark_settings, instance=instance) as h,
    ):
        h.deliver(1, guest("1"))
        assert h.load(1, 1) == [True, True]
        start = Barrier(4)

        def run() -> None:
            start.wait()
            collect(h.instance, [h.table], h.lake)

        threads = [Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        rows = collected(h)
    assert len(rows) == 2 and len({row.event for row in rows}) == 2


def test_a_collector_that_was_given_another_identity_of_the_instance_appends_nothing_again(
    tmp_path: Path, spark_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processes that ask a new instance for it at once may each get one of their own."""
    with house(tmp_path, spark_settings) as h:
        h.deliver(1, guest("1"))
        h.deliver(2, guest("3", room=0, day=2))
        h.load(1, 2)
        for identity in ("one", "another"):
            monkeypatch.setattr("incload_assets.history.collect.identity_of", lambda _, given=identity: given)
            assert len(collected(h)) == 2


def test_rows_of_runs_that_were_deleted_stay(tmp_path: Path, spark_settings: Settings) -> None:
    with house(tmp_path, spark_settings) as h:
        h.deliver(1, guest("1"))
        h.deliver(2, guest("3", room=0, day=2))
        h.load(1, 2)
        before = collected(h)
        for record in h.instance.get_run_records():
            h.instance.delete_run(record.dagster_run.run_id)
        assert collected(h) == before


def test_a_lost_history_is_made_again_from_events_and_logs(tmp_path: Path, spark_settings: Settings) -> None:
    with house(tmp_path, spark_settings) as h:
        h.deliver(1, guest("1"))
        h.deliver(2, guest("2", day=2))
        h.load(1, 2)
        before = collected(h)
        shutil.rmtree(LoadsTable(h.lake).uri)
        assert collected(h) == before
        shutil.rmtree(LoadsTable(h.lake).uri)
        with dg.DagsterInstance.ephemeral() as wiped:
            assert collect(wiped, [h.table], h.lake) == 2
        again = LoadsTable(h.lake).rows()
        assert [(r.window, r.rows_read, r.fingerprint, r.run_id) for r in again] == [
            (r.window, r.rows_read, r.fingerprint, r.run_id) for r in before
        ]


def test_what_a_run_has_landed_is_no_load_before_the_run_records_it(tmp_path: Path, spark_settings: Settings) -> None:
    with house(tmp_path, spark_settings) as h, open_session(spark_settings) as spark:
        h.deliver(1, guest("1"))
        run = h.instance.add_run(dg.DagsterRun("loads"))
        load_window(LoadContext(spark, h.table, h.lake, run.run_id), h.table.window_of(key(1)))
        assert collect(h.instance, [h.table], h.lake) == 0
        h.instance.delete_run(run.run_id)
        assert collect(h.instance, [h.table], h.lake) == 1


def test_events_of_an_instance_that_was_wiped_are_not_mistaken_for_known_ones(
    tmp_path: Path, spark_settings: Settings
) -> None:
    with house(tmp_path / "one", spark_settings) as h:
        h.deliver(1, guest("1"))
        h.load(1, 1, 1)
        assert len(collected(h)) == 3
        with dg.DagsterInstance.ephemeral() as another:
            h.instance = another
            assert h.load(1) == [True]
            assert len(collected(h)) == 4


def test_many_small_files_are_put_together(
    tmp_path: Path, spark_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("incload_assets.history.loads_table.FILES", 3)
    with house(tmp_path, spark_settings) as h:
        h.deliver(1, guest("1"))
        for _ in range(4):
            h.load(1)
            collect(h.instance, [h.table], h.lake)
        delta = LoadsTable(h.lake).open()
        assert delta is not None and len(delta.file_uris()) < 3
        assert len(collected(h)) == 4


@dg.asset(name="guests", partitions_def=DAYS)
def accepted() -> dg.MaterializeResult[None]:
    """A table of one code location whose loads succeed."""
    return dg.MaterializeResult(metadata={"rows_read": 1})


@dg.asset(name="guests", partitions_def=DAYS)
def refused() -> None:
    """The same, when its loads fail."""
    raise RuntimeError("refused")


@dg.asset(name="lodgers", partitions_def=DAYS)
def of_another() -> dg.MaterializeResult[None]:
    """A table of another code location on the same instance."""
    return dg.MaterializeResult(metadata={"rows_read": 1})


def test_a_load_is_recorded_although_another_code_location_has_recorded_later_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("incload_assets.history.collect.OVERLAP", timedelta(0))
    monkeypatch.setattr("incload_assets.history.collect.PAGE", 2)  # so that what others did fills pages
    with house(tmp_path, Settings()) as h:
        lodgers = named(h.table, "lodgers")

        def load(number: int, asset: dg.AssetsDefinition) -> None:
            dg.materialize([asset], partition_key=key(number), instance=h.instance, raise_on_error=False)

        load(1, accepted)
        load(2, refused)
        for number in (1, 2, 3, 4):
            load(number, of_another)
        assert collect(h.instance, [lodgers], h.lake) == 4
        assert collect(h.instance, [h.table], h.lake) == 2
        assert collect(h.instance, [h.table], h.lake) == 0
        for number in (1, 2, 3):
            load(number, of_another)
        load(3, accepted)
        assert collect(h.instance, [h.table], h.lake) == 1
        assert collect(h.instance, [lodgers], h.lake) == 3
        found = sorted((row.table, row.window, row.outcome) for row in LoadsTable(h.lake).rows())
    assert found[:3] == [("guests", key(1), "loaded"), ("guests", key(2), "failed"), ("guests", key(3), "loaded")]
    assert len(found) == 10


def test_a_quiet_code_location_does_not_read_all_that_a_busy_one_has_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("incload_assets.history.collect.PAGE", 2)
    with house(tmp_path, Settings()) as h:
        for number in (1, 2, 3, 4, 5, 6):
            dg.materialize([of_another], partition_key=key(number), instance=h.instance)
        read, storage = list[int](), h.instance.event_log_storage
        before = storage.get_event_records

        def counted(*given: Any, **more: Any) -> Any:
            records = before(*given, **more)
            read.append(len(records))
            return records

        monkeypatch.setattr(storage, "get_event_records", counted)
        assert collect(h.instance, [h.table], h.lake) == 0
        assert read == [2]


@pytest.mark.parametrize(
    ("tags", "why"),
    [
        ({}, "asked"),
        ({UNDO_TAG: "last"}, "undo"),
        ({RELEASE_TAG: "true"}, "release"),
        ({REPLAY_TAG: "the contract changed", ATTEMPT_TAG: "2"}, "replay"),
        ({FILL_TAG: "-"}, "fill"),
        ({ATTEMPT_TAG: "1"}, "new"),
        ({ATTEMPT_TAG: "2"}, "retry"),
    ],
)
def test_the_reason_of_a_load_is_what_its_run_was_to_do(tags: dict[str, str], why: str) -> None:
    assert reason_of(tags, key(1)) == why
