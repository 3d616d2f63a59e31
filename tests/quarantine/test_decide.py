"""Rejected rows that people accept: validated at once, replayed, kept at every later load, and taken back."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.errors import DagsterConfigMappingFunctionError
from pyspark.sql import SparkSession

from incload_assets.change_log.context import LoadContext
from incload_assets.checks.source_comparison import content_of, log_content, source_rows
from incload_assets.code_location import incremental_definitions
from incload_assets.declaration.window import window_of
from incload_assets.load.detection import detect
from incload_assets.load.load import LoadReport
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.settings import Settings
from incload_assets.progress.audit import audit_uri
from incload_assets.quarantine.decide import decide_where, take_back
from incload_assets.quarantine.decision_jobs import accept_job, discard_job
from incload_assets.quarantine.replay_sensor import SENSOR, replay_requests
from incload_assets.writes.merge import Merge
from tests.load.test_replay import Narrow, NarrowUnique, one, record_of, replay, small, write
from tests.support.former_fixes import turn_into_fixes
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


def loaded_by_other_code(items: Loaded, info: Callable[[str], None] = print) -> tuple[Loaded, LoadReport]:
    """The table, whose source was read again."""
    changed = replace(items, table=replace(items.table, code_version="2"))
    return changed, changed.load(1, info=info)


def test_an_accepted_row_breaks_a_check_but_no_type(items: Loaded) -> None:
    spark, table, lake = items.spark, items.table, items.lake
    with pytest.raises(IncrementalLoadError, match="would be rejected: "):
        decide_where(spark, table, lake, "accept", "all of them")
    assert lake.delta(audit_uri(lake)) is None, "nothing is recorded"
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
    assert replay(changed, 1).merged.deleted == 1
    assert changed.rows("id", "kind") == {("1", "a"), ("2", "c")}
    assert "3" in {row[0] for row in changed.log("rejected", "id")}
    with pytest.raises(IncrementalLoadError, match=f"no accept in force has the number {entry.number}"):
        take_back(table, lake, "accept", entry.number, "again")


def test_a_fix_of_a_former_version_is_no_longer_applied_and_the_next_load_from_the_source_reports_it(
    items: Loaded,
) -> None:
    decide_where(items.spark, items.table, items.lake, "accept", "by phone", text="kind: ")
    replay(items, 1)
    turn_into_fixes(items.lake, [{"kind": "c"}])
    assert items.rows("id", "kind") == {("1", "a"), ("2", "c")}
    rejected = record_of(items, 1).rejected
    lines: list[str] = []
    changed, report = loaded_by_other_code(items, lines.append)
    assert report.record.rejected == rejected + 1 and report.evidence.pending == 0
    assert changed.rows("id", "kind") == {("1", "a"), ("2", "b")}
    expected = f"items {day(1)}: 1 fix of a former version no longer applied: rows are loaded as their source has them"
    assert any(line.startswith(expected) for line in lines)
    assert "2" in {row[0] for row in changed.log("rejected", "id")}


def test_a_key_without_a_value_is_not_accepted(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INCLOAD_LANDING", str(tmp_path / "landing"))
    write(tmp_path / "landing", 1, [one("1", "a"), one("2", "c") | {"id": None}], "json")
    items = small(spark, tmp_path, Narrow, "1")
    items.load(1)
    with pytest.raises(IncrementalLoadError, match="would be rejected: id: NULL is not allowed"):
        decide_where(spark, items.table, items.lake, "accept", "all of them", text="kind: ")


def test_rows_with_unique_values_are_accepted_next_to_the_others_of_their_window(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INCLOAD_LANDING", str(tmp_path / "landing"))
    write(
        tmp_path / "landing",
        1,
        [one("1", "a"), one("2", "c") | {"value": "value of 1"}, one("3", "b", amount=7)],
        "json",
    )
    items = small(spark, tmp_path, NarrowUnique, "1", write=Merge(buckets=4))
    items.load(1)
    assert decide_where(spark, items.table, items.lake, "accept", "an exception", text="amount: ")[1] == 1
    replay(items, 1)
    assert items.rows("id", "kind") == {("1", "a"), ("3", "b")}
    with pytest.raises(IncrementalLoadError, match="would be rejected: value: the same value under two keys"):
        decide_where(spark, items.table, items.lake, "accept", "an exception", text="kind: ")


def test_a_row_is_accepted_from_the_ui_and_its_replay_is_requested_by_the_sensor_and_a_discard_has_to_be_confirmed(
    tmp_path: Path, spark_settings: Settings
) -> None:
    with house(tmp_path, spark_settings) as h:
        h.deliver(1, guest("1"), guest("2", room=0))
        assert h.load(1) == [True]
        config = {"table": h.table.name, "because": "seen at the desk", "reason": "room: "}
        done = accept_job([h.table]).execute_in_process(
            instance=h.instance,
            resources=h.resources,
            run_config=config,
            tags={"user": "ada"},
        )
        assert done.success
        repository = incremental_definitions([h.asset], Settings()).get_repository_def()
        with dg.build_sensor_context(h.instance, repository_def=repository, resources={"lake": h.lake}) as context:
            [request] = repository.get_sensor_def(SENSOR).evaluate_tick(context).run_requests or []
        assert (request.job_name, request.asset_selection, request.partition_key) == (
            "__ASSET_JOB", [h.table.key], key(1),
        )  # fmt: skip
        assert request.tags["incload/table"] == "guests"
        assert h.run(h.loads, partition=key(1), tags=request.tags).success
        assert list(replay_requests(h.table, h.lake)) == []
        assert h.look().records[key(1)].rejected == 0
        audit = h.lake.delta(audit_uri(h.lake))
        assert audit is not None
        [entry] = [row for row in audit.to_pyarrow_table().to_pylist() if row["action"] == "accept"]
        assert (entry["actor"], entry["because"], entry["partitions"]) == ("ada", "seen at the desk", [key(1)])
        unconfirmed = {"table": h.table.name, "because": "of no interest", "confirm": "guest"}
        with pytest.raises(DagsterConfigMappingFunctionError) as refused:
            discard_job([h.table]).execute_in_process(
                instance=h.instance, resources=h.resources, run_config=unconfirmed
            )
        assert "discard_rows takes rejected rows of guests out of view" in str(refused.value.__cause__)
