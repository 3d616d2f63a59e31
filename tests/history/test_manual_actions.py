"""What people did in Dagster's UI is in the audit, each action once; what automation did is not."""

from pathlib import Path
from threading import Barrier, Thread

import dagster as dg
from dagster._core.storage.tags import BACKFILL_ID_TAG, SENSOR_NAME_TAG, USER_TAG  # these have no public names

from incload_assets.history.collect import collect
from incload_assets.history.manual_actions import SOMEBODY, runs_by_hand
from incload_assets.platform.lake import Lake
from incload_assets.platform.settings import Settings
from incload_assets.progress.audit import FAILED, AuditEntry, chain_of, record, record_once
from incload_assets.progress.run_tags import BECAUSE_TAG, RELEASE_TAG, STARTED_BY_TAG, UNDO_TAG
from tests.support.guest_table import House, guest, house, key
from tests.support.load_rows import load_row


def test_loads_and_statuses_of_people_are_recorded_once(tmp_path: Path, spark_settings: Settings) -> None:
    (tmp_path / "dagster").mkdir()
    with (
        dg.DagsterInstance.local_temp(str(tmp_path / "dagster")) as instance,  # its events are in several files
        house(tmp_path, spark_settings, instance=instance) as h,
    ):
        for number in (1, 2, 3):
            h.deliver(number, guest(str(number), day=number))
        for number, tag, who in ((1, SENSOR_NAME_TAG, "watch_guests"), (2, USER_TAG, "ada"), (3, BACKFILL_ID_TAG, "b")):
            assert h.run(h.loads, partition=key(number), tags={tag: who}).success
        instance.report_runless_asset_event(dg.AssetMaterialization(h.table.key, partition=key(4)))
        audited(h)
        assert audited(h) == [
            ("load", [key(2)], "ada"), ("load", [key(3)], "b"), ("status", [key(4)], SOMEBODY),
        ]  # fmt: skip
        instance.wipe_assets([h.table.key])
        audited(h)
        last = chain_of(h.lake).entries[-1]
        assert (len(audited(h)), last.action, last.table, last.partitions) == (4, "status", "guests", [])
        assert last.because.startswith("wiped in Dagster, event ")
        assert chain_of(h.lake).altered is None


def audited(h: House) -> list[tuple[str, list[str], str]]:
    collect(h.instance, [h.table], h.lake)
    return [(entry.action, list(entry.partitions), entry.actor) for entry in chain_of(h.lake).entries]


def test_of_a_run_that_was_recorded_at_once_only_the_partitions_that_were_left_out_are_added(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    record(lake, AuditEntry(action="load", table="orders", partitions=["2026-01-01"], run_id="r", actor="ada"))
    rows = [load_row(n, trigger="terminal", run_id="r") for n in (1, 2)]
    entries = runs_by_hand([*rows, load_row(3, trigger="sensor", run_id="s")], {})
    start = Barrier(3)

    def run() -> None:
        start.wait()
        record_once(lake, entries)

    threads = [Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [list(entry.partitions) for entry in chain_of(lake).entries] == [["2026-01-01"], ["2026-01-02"]]


def test_runs_that_undo_release_and_load_are_recorded_once_as_what_they_did(
    tmp_path: Path, spark_settings: Settings
) -> None:
    by_hand = {STARTED_BY_TAG: "command line", USER_TAG: "ada"}
    with house(tmp_path, spark_settings) as h:
        for content in (guest("1"), guest("2")):
            h.deliver(1, content)
            assert h.load(1) == [True]
        collect(h.instance, [h.table], h.lake)
        before = len(chain_of(h.lake).entries)
        undo, release = {UNDO_TAG: "last", BECAUSE_TAG: "wrong"}, {RELEASE_TAG: "true", BECAUSE_TAG: "right"}
        for tags, partition, succeeds in ((undo, 1, True), (undo, 2, False), ({}, 1, False), (release, 1, True)):
            assert h.run(h.loads, partition=key(partition), tags={**by_hand, **tags}).success is succeeds
            audited(h)  # as the sensor does beside a terminal
        told = [
            (entry.action, list(entry.partitions), entry.actor, entry.because, entry.details.get(FAILED))
            for entry in chain_of(h.lake).entries[before:]
        ]
        assert told == [
            ("undo", [key(1)], "ada", "wrong", None), ("undo", [key(2)], "ada", "wrong", "CannotUndo"),
            ("load", [key(1)], "ada", "", "WindowHeld"), ("release", [key(1)], "ada", "right", None),
        ]  # fmt: skip


def test_what_a_killed_run_did_before_it_could_record_it_is_recorded_with_its_reason() -> None:
    rows = [
        load_row(1, trigger="terminal", asked_by="ada", run_id="r", why="undo"),
        load_row(2, trigger="terminal", asked_by="ada", run_id="r", why="undo", outcome="failed", error_class="Killed"),
    ]
    done, failed = runs_by_hand(rows, {"r": "wrong"})
    assert (done.action, done.partitions, done.because, done.details.get(FAILED)) == ("undo", [key(1)], "wrong", None)
    assert (failed.action, failed.partitions, failed.details[FAILED]) == ("undo", [key(2)], "Killed")
