"""Rejected rows that people fix or accept: judged at once, replayed, kept at every later load, and taken back."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from incload_assets.change_log.context import LoadContext
from incload_assets.checks.source_comparison import content_of, log_content, source_rows
from incload_assets.declaration.window import window_of
from incload_assets.load.detection import detect
from incload_assets.load.load import LoadReport
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.settings import Settings
from incload_assets.progress.audit import audit_uri
from incload_assets.quarantine.decide import decide_where, fix_row, parsed, take_back
from incload_assets.quarantine.decision_jobs import decision_jobs
from incload_assets.quarantine.replay_jobs import replay_requests
from incload_assets.writes.merge import Merge
from tests.load.test_replay import Narrow, NarrowUnique, one, record_of, replay, small, write
from tests.support.guest_table import guest, house, key
from tests.support.tables import Loaded, day

ROWS = [one("1", "a"), one("2", "c"), one("3", "b", amount=7), one("4", "b", seq="none"), one("2", "b", seq=0)]


@pytest.fixture(params=["json", "csv"])
def items(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path, monkeypatch: Any) -> Loaded:
    """A day with three rejected rows, and one that cannot be parsed."""
    monkeypatch.setenv("INCLOAD_LANDING", str(tmp_path / "landing"))
    write(tmp_path / "landing", 1, ROWS, request.param)
    items = small(spark, tmp_path, Narrow, "1", request.param)
    items.load(1)
    assert items.rows("id", "kind") == {("1", "a"), ("2", "b")}
    return items


def fix(items: Loaded, id: str, *values: str) -> int:
    return fix_row(
        items.spark, items.table, items.lake, {"id": id}, parsed(items.table, values), "by phone", actor="ada"
    ).number


def loaded_by_other_code(items: Loaded) -> tuple[Loaded, LoadReport]:
    """The table, whose source was read again."""
    changed = replace(items, table=replace(items.table, code_version="2"))
    return changed, changed.load(1)


def test_a_fixed_row_takes_its_own_place_and_stays_fixed_when_its_file_is_read_again(items: Loaded) -> None:
    fix(items, "2", "kind=a")
    assert replay(items, 1).merged.updated == 1
    assert items.rows("id", "kind") == {("1", "a"), ("2", "a")}
    number = fix(items, "4", "seq=3", "value=")
    assert replay(items, 1).control.rejected == record_of(items, 1).rejected
    assert items.rows("id", "kind", "value") >= {("4", "b", None)}
    changed, report = loaded_by_other_code(items)
    assert report.ingested and report.evidence.pending == 0
    assert changed.rows("id", "kind") == {("1", "a"), ("2", "a"), ("4", "b")}

    take_back(changed.table, changed.lake, "fix", number, "it was not")
    assert replay(changed, 1).merged.deleted == 1
    assert changed.rows("id", "kind") == {("1", "a"), ("2", "a")}
    assert "4" in {row[0] for row in changed.log("rejected", "id")}
    with pytest.raises(IncrementalLoadError, match=f"no fix in force has the number {number}"):
        take_back(changed.table, changed.lake, "fix", number, "again")


def test_an_accepted_row_breaks_a_check_but_no_type(items: Loaded) -> None:
    spark, table, lake = items.spark, items.table, items.lake
    with pytest.raises(IncrementalLoadError, match="would be rejected: "):
        decide_where(spark, table, lake, "accept", "all of them")
    entry, count = decide_where(spark, table, lake, "accept", "an exception", text="amount: ")
    assert entry is not None and count == 1
    assert decide_where(spark, table, lake, "accept", "an exception", text="kind: ")[1] == 1
    replay(items, 1)
    assert items.rows("id", "kind") == {("1", "a"), ("2", "c"), ("3", "b")}
    changed, _ = loaded_by_other_code(items)
    assert changed.rows("id", "kind") == {("1", "a"), ("2", "c"), ("3", "b")}
    load, window = LoadContext(spark, changed.table, lake), window_of(table.partitions_def, day(1))
    position = detect(load, [window])[window.key]
    with source_rows(spark, changed.table, lake, window, position) as found:
        version = load.log.version()
        assert version is not None
        logged = log_content(spark, changed.table, load.log, version, window, position, found)
        assert content_of(found) == logged
    take_back(table, lake, "accept", entry.number, "no exception")
    replay(changed, 1)
    assert changed.rows("id", "kind") == {("1", "a"), ("2", "c")}


def test_a_key_without_a_value_is_not_accepted(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INCLOAD_LANDING", str(tmp_path / "landing"))
    write(tmp_path / "landing", 1, [one("1", "a"), one("2", "c") | {"id": None}], "json")
    items = small(spark, tmp_path, Narrow, "1")
    items.load(1)
    with pytest.raises(IncrementalLoadError, match="would be rejected: id: NULL is not allowed"):
        decide_where(spark, items.table, items.lake, "accept", "all of them", text="kind: ")


def test_a_correction_that_does_not_make_a_good_row_is_refused_and_nothing_is_recorded(items: Loaded) -> None:
    for id, values, why in (
        ("2", ["kind=z"], "would be rejected: kind: 'z' not in"),
        ("9", ["kind=a"], "no rejected row has the key id=9"),
        ("4", ["kind=a"], "would be rejected: seq: 'none' is not bigint"),
        ("2", ["colour=a"], "'colour' is no column of Narrow"),
        ("2", ["kind"], "'kind' is no column with a value"),
        ("2", [], "no value is given"),
    ):
        with pytest.raises(IncrementalLoadError, match=why):
            fix(items, id, *values)
    assert items.lake.delta(audit_uri(items.lake)) is None


def test_rows_with_unique_values_are_fixed_beside_the_others_of_their_window(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INCLOAD_LANDING", str(tmp_path / "landing"))
    write(tmp_path / "landing", 1, [one("1", "a"), one("2", "c") | {"value": "value of 1"}, one("3", "c")], "json")
    items = small(spark, tmp_path, NarrowUnique, "1", write=Merge(buckets=4))
    items.load(1)
    fix(items, "3", "kind=b")
    replay(items, 1)
    assert items.rows("id", "kind") == {("1", "a"), ("3", "b")}
    with pytest.raises(IncrementalLoadError, match="would be rejected: value: the same value under two keys"):
        fix(items, "2", "kind=b")
    fix(items, "2", "kind=b", "value=own")
    replay(items, 1)
    assert items.rows("id", "kind", "value") == {("1", "a", "value of 1"), ("2", "b", "own"), ("3", "b", "value of 3")}


def test_a_row_is_fixed_from_the_ui_and_its_replay_is_requested_by_the_sensor_and_a_discard_has_to_be_confirmed(
    tmp_path: Path, spark_settings: Settings
) -> None:
    with house(tmp_path, spark_settings) as h:
        h.deliver(1, guest("1"), guest("2", room=0))
        assert h.load(1) == [True]
        jobs = {job.name: job for job in decision_jobs([h.table])}
        config = {"table": h.table.name, "because": "seen at the desk", "key": ["id=2"], "values": ["room=7"]}
        done = jobs["fix_row"].execute_in_process(
            instance=h.instance,
            resources=h.resources,
            run_config={"ops": {"fix": {"config": config}}},
            tags={"user": "ada"},
        )
        assert done.success
        [request] = replay_requests(h.table, h.lake)
        assert request.partition_key == key(1)
        assert h.run(h.loads, partition=key(1), tags=request.tags).success
        assert list(replay_requests(h.table, h.lake)) == []
        assert h.look().controls[key(1)].rejected == 0
        audit = h.lake.delta(audit_uri(h.lake))
        assert audit is not None
        [entry] = [row for row in audit.to_pyarrow_table().to_pylist() if row["action"] == "fix"]
        assert (entry["actor"], entry["because"], entry["partitions"]) == ("ada", "seen at the desk", [key(1)])
        unconfirmed = {"table": h.table.name, "because": "of no interest", "confirm": "guest"}
        with pytest.raises(IncrementalLoadError, match="discard_rows takes rejected rows of guests out of view"):
            jobs["discard_rows"].execute_in_process(
                instance=h.instance,
                resources=h.resources,
                run_config={"ops": {"discard": {"config": unconfirmed}}},
            )
        assert "room" in entry["details"] and '"7"' not in entry["details"]
