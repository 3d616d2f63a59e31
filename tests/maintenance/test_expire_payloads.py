"""Payloads of rejected rows end with their lifetime; the rows, and all that loads do meanwhile, stay."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from incload_assets.change_log.payloads import payloads_read_at
from incload_assets.declaration import window as windows
from incload_assets.declaration.window import window_of
from incload_assets.load import revision as revision_module
from incload_assets.load.undo import Undo, undo_window
from incload_assets.maintenance import expire_payloads as module
from incload_assets.maintenance import vacuum as vacuum_module
from incload_assets.maintenance.expire_payloads import EXPIRE_PAYLOADS, PayloadsExpired, expire_payloads
from incload_assets.maintenance.vacuum import vacuum
from incload_assets.platform.errors import IncrementalLoadError, SourceUnreadable
from incload_assets.platform.settings import Settings
from incload_assets.quarantine.decide import decide_where, take_back
from incload_assets.quarantine.quarantine import quarantine_of
from incload_assets.quarantine.replay_sensor import replay_requests
from incload_assets.sources.files.files import Files
from tests.load.test_replay import TOLERANT, Narrow, Wide, one, replay
from tests.support.guest_table import guest, house, job_of, key
from tests.support.tables import Loaded, day, make

SECRET = "4711-0815-the-secret"
ROWS = [one("1", "a"), one("2", "c", note=SECRET), one("3", "b", amount=7)]


@pytest.fixture
def items(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Loaded:
    """A day with three rows, of which two are rejected."""
    monkeypatch.setenv("INCLOAD_LANDING", str(tmp_path / "landing"))
    deliver(tmp_path, ROWS)
    items = declared(spark, tmp_path)
    items.load(1)
    return items


def declared(spark: SparkSession, folder: Path, contract: type = Narrow, version: str = "1") -> Loaded:
    source = Files("{landing}/items/{window:%Y-%m-%d}/*.json")
    return make(spark, folder / "lake", source=source, contract=contract, quarantine=TOLERANT, code_version=version)


def deliver(folder: Path, rows: list[dict[str, Any]], name: str = "a", number: int = 1) -> Path:
    path = folder / "landing" / "items" / day(number) / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def expire(items: Loaded, older_than: datetime | None = None) -> PayloadsExpired:
    """Removes payloads; by default all."""
    at = windows.now() + timedelta(minutes=1) if older_than is None else older_than
    return expire_payloads(items.context(), at)


def rejected(items: Loaded) -> dict[str, str | None]:
    """The payloads by the rows' keys."""
    return dict(items.log("rejected", "id", "_payload"))


def holds(folder: Path, text: str) -> list[str]:
    """The files below a folder that contain a text."""
    return [str(file) for file in folder.rglob("*") if file.is_file() and text.encode() in file.read_bytes()]


def log_uri(items: Loaded) -> str:
    return items.lake.log_uri(items.table.key.path)


def test_payloads_end_and_rows_reasons_and_everything_else_stay(items: Loaded, tmp_path: Path) -> None:
    before, reasons = items.rows(), items.log("rejected", "id", "value", "seq", "_reasons", "_source")
    assert SECRET in str(rejected(items)["2"])
    assert expire(items, datetime(2026, 1, 1, tzinfo=UTC)) == PayloadsExpired()
    done = expire(items)
    assert (done.windows, done.rows, done.files, done.busy) == (1, 2, 1, 0) and done.after > 0 < done.before
    assert rejected(items) == {"2": "expired", "3": "expired"}
    assert items.log("rejected", "id", "value", "seq", "_reasons", "_source") == reasons
    assert items.log("rejected", "_rescued") == [(None,), (None,)]
    assert items.rows() == before
    version = items.lake.version(log_uri(items))
    assert expire(items) == PayloadsExpired() and items.lake.version(log_uri(items)) == version
    assert not items.load(1).ingested  # the window is what it was
    [samples, *_] = [found.samples for found in quarantine_of(items.spark, items.table, items.lake)]
    assert samples[0].payload == "its record was removed"


def test_after_a_vacuum_no_file_of_the_lake_has_the_bytes(
    items: Loaded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert holds(tmp_path / "lake", SECRET)
    expire(items)
    assert holds(tmp_path / "lake", SECRET)  # the version before
    monkeypatch.setattr(vacuum_module, "SHORTEST", timedelta(0))
    properties = "'delta.deletedFileRetentionDuration' = 'interval 0 seconds'"
    items.spark.sql(f"ALTER TABLE {items.lake.sql_name(log_uri(items))} SET TBLPROPERTIES ({properties})")
    vacuum(items.context(), everything=True)
    assert holds(tmp_path / "lake", SECRET) == []


def test_younger_payloads_of_the_same_window_stay_and_only_old_files_are_rewritten(
    items: Loaded, tmp_path: Path
) -> None:
    between = windows.now() + timedelta(milliseconds=5)
    deliver(tmp_path, [one("4", "c", note="young"), one("5", "b")], "b")
    items.load(1)
    done = expire(items, between)
    assert (done.windows, done.rows, done.files) == (1, 2, 1)
    found = rejected(items)
    assert found["2"] == found["3"] == "expired" and "young" in str(found["4"])
    assert items.rows("id") == {("1",), ("5",)}
    assert expire(items, between) == PayloadsExpired()
    assert expire(items).rows == 1


def test_a_replay_of_rows_without_records_is_refused_with_the_reason_and_not_asked_for(
    items: Loaded, spark: SparkSession, tmp_path: Path
) -> None:
    wide = declared(spark, tmp_path, Wide, "2")
    assert [one.partition_key for one in replay_requests(wide.table, wide.lake)] == [day(1)]
    expire(items)
    with pytest.raises(SourceUnreadable, match="items 2026-01-01: the records of 2 rejected rows were removed"):
        replay(wide, 1)
    short = replace(wide, table=replace(wide.table, quarantine_retention=timedelta(microseconds=1)))
    assert list(replay_requests(short.table, short.lake)) == []
    assert wide.load(1).record.rejected == 0  # from its source
    assert wide.rows("id") == {("1",), ("2",), ("3",)}


def test_a_replay_passes_the_age_of_payloads_on_and_validates_those_that_are_left(
    items: Loaded, spark: SparkSession, tmp_path: Path
) -> None:
    [at] = payloads_read_at(items.lake.delta(log_uri(items)), [day(1)]).values()  # type: ignore[arg-type]
    between = windows.now() + timedelta(milliseconds=5)
    deliver(tmp_path, [one("4", "c")], "b")
    items.load(1)
    expire(items, between)
    same = declared(spark, tmp_path, Narrow, "2")
    assert replay(same, 1).record.rejected == 3
    assert payloads_read_at(same.lake.delta(log_uri(same)), [day(1)]) == {day(1): at}  # type: ignore[arg-type]
    assert replay(declared(spark, tmp_path, Wide, "3"), 1).record.rejected == 2
    assert items.rows("id") == {("1",), ("4",)} and rejected(items) == {"2": "expired", "3": "expired"}


def loaded_again(items: Loaded, spark: SparkSession, tmp_path: Path) -> Loaded:
    """More of the window: a file beside the first."""
    deliver(tmp_path, [one("4", "c"), one("5", "b")], "b")
    items.load(1)
    return items


def rewritten(items: Loaded, spark: SparkSession, tmp_path: Path) -> Loaded:
    deliver(tmp_path, [one("1", "b", seq=2), one("6", "c")])
    items.load(1)
    return items


def replayed(items: Loaded, spark: SparkSession, tmp_path: Path) -> Loaded:
    wide = declared(spark, tmp_path, Wide, "2")
    replay(wide, 1)
    return wide


@pytest.mark.parametrize(
    ("meanwhile", "rows", "left"),
    [
        (loaded_again, {"1", "5"}, {"2", "3", "4"}),
        (rewritten, {"1"}, {"6"}),
        (replayed, {"1", "2", "3"}, set()),
    ],
)
def test_a_load_that_commits_first_is_neither_lost_nor_doubled(
    items: Loaded,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    meanwhile: Callable[[Loaded, SparkSession, Path], Loaded],
    rows: set[str],
    left: set[str],
) -> None:
    emptied = module._emptied

    def late(*arguments: Any) -> Any:
        made = emptied(*arguments)
        meanwhile(items, spark, tmp_path)
        return made

    with monkeypatch.context() as slow:
        slow.setattr(module, "_emptied", late)
        done = expire(items)
    assert (done.busy, done.windows) == (1, 0)
    assert sorted(row[0] for row in items.log("rejected", "id")) == sorted(left)
    assert "expired" not in rejected(items).values()
    assert {row[0] for row in items.rows("id")} == rows
    assert expire(items).rows == len(left)
    assert sorted(row[0] for row in items.log("rejected", "id")) == sorted(left)
    assert {row[0] for row in items.rows("id")} == rows


def test_a_replay_that_has_read_before_a_removal_lands_each_row_once(
    items: Loaded, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, done = revision_module.commit, []

    def after_a_removal(*arguments: Any, **options: Any) -> bool:
        if not done:
            done.append(expire(items))
        return commit(*arguments, **options)

    monkeypatch.setattr(revision_module, "commit", after_a_removal)
    wide = declared(spark, tmp_path, Wide, "2")
    assert replay(wide, 1).record.rejected == 0 and done[0].rows == 2
    assert wide.log("rejected", "id") == []
    assert sorted(wide.log("upsert", "id")) == [("1",), ("2",), ("3",)]
    assert wide.rows("id") == {("1",), ("2",), ("3",)}


def test_a_former_landing_whose_files_were_rewritten_can_still_be_returned_to(items: Loaded, tmp_path: Path) -> None:
    between = windows.now() + timedelta(milliseconds=5)
    loaded_again(items, items.spark, tmp_path)  # its former landing names files that stay in the log
    expire(items, between)
    window = window_of(items.table.partitions_def, day(1))
    undo_window(items.context(), window, Undo(because="to see"))
    assert items.rows("id") == {("1",)}
    assert set(rejected(items)) == {"2", "3"} and SECRET in str(rejected(items)["2"])
    assert expire(items, between).rows == 2  # what came back has its age, too


def test_decisions_find_their_rows_without_payloads_and_what_needs_a_record_is_refused(items: Loaded) -> None:
    spark, table, lake = items.spark, items.table, items.lake
    assert decide_where(spark, table, lake, "discard", "test", text="amount")[1] == 1
    entry, _ = decide_where(spark, table, lake, "accept", "an exception", text="kind")
    replay(items, 1)
    assert entry is not None and items.rows("id", "kind") == {("1", "a"), ("2", "c")}
    done = expire(items)
    assert done.rows == 2 and not any(SECRET in str(row) for row in items.log("upsert", "_payload"))
    [found] = quarantine_of(spark, table, lake)
    assert (found.open, found.discarded) == (0, 1)
    assert items.rows("id", "kind") == {("1", "a"), ("2", "c")}
    with pytest.raises(IncrementalLoadError, match="the records of 1 of 1 rows were removed after 90 days"):
        take_back(table, lake, "accept", entry.number, "it was not")
    assert items.load(1).evidence.pending == 0


def test_a_row_without_a_record_is_not_accepted(items: Loaded) -> None:
    expire(items)
    with pytest.raises(IncrementalLoadError, match="the records of 1 of 1 rows were removed after 90 days"):
        decide_where(items.spark, items.table, items.lake, "accept", "an exception", text="kind")


def test_the_nightly_job_shows_what_there_was_and_what_is_left(tmp_path: Path, spark_settings: Settings) -> None:
    with house(tmp_path, spark_settings) as h:
        h.deliver(1, guest("1"), guest("2", room=0))
        assert h.load(1) == [True]

        def shown() -> dict[str, Any]:
            job = job_of(EXPIRE_PAYLOADS, h.table)
            config = {"ops": {EXPIRE_PAYLOADS.step_name: {"config": {"confirm": "all tables"}}}}
            result = job.execute_in_process(instance=h.instance, resources=h.resources, run_config=config)
            [event] = [e for e in result.all_events if e.event_type_value == "ASSET_OBSERVATION"]
            return {n: v.value for n, v in event.asset_observation_data.asset_observation.metadata.items()}

        assert shown()["payloads_removed"] == 0
        later = windows.now() + timedelta(days=91)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(windows, "now", lambda: later)
            found = shown()
        assert (found["payloads_removed"], found["payloads_windows"], found["payloads_windows_busy"]) == (1, 1, 0)
        assert found["payloads_bytes_after"] > 0 < found["payloads_bytes_before"]
        assert h.look().records[key(1)].rejected == 1
