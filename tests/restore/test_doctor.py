"""The doctor tells each disagreement between Dagster, log, table and lake in one line, whose remedy removes it."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.test_utils import create_run_for_test  # has no public name
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from incload_assets.automation.orphans import fail_orphans
from incload_assets.change_log.context import LoadContext
from incload_assets.checks.freshness import freshness
from incload_assets.checks.gaps import gaps
from incload_assets.platform.lake import Lake
from incload_assets.platform.settings import Settings
from incload_assets.progress.audit import AuditEntry, audit_uri, record
from incload_assets.progress.process import process_tags
from incload_assets.progress.run_tags import PROCESS_TAG, TABLE_TAG
from incload_assets.progress.status import table_status
from incload_assets.restore.doctor import Disagreement, examine_lake, examine_table, in_one
from incload_assets.restore.jobs_doctor import doctor_job
from incload_assets.restore.rebuild import rebuild
from tests.support.guest_table import NOON, House, guest, house, key


@pytest.fixture
def h(tmp_path: Path, spark_settings: Settings) -> Iterator[House]:
    """A house with three loaded days, the second of which is empty, and the third a correction of the first."""
    with house(tmp_path, spark_settings) as h:
        for number, records in enumerate(([guest("1")], [], [guest("1", seq=2)]), start=1):
            h.deliver(number, *records)
        assert h.load(1, 2, 3) == [True, True, True]
        assert examine(h) == []
        yield h


def examine(h: House) -> list[Disagreement]:
    return examine_table(h.instance, h.table, h.lake, NOON)


def told(h: House) -> list[tuple[list[str], str, str]]:
    """Partitions, the words before the details, and the command of each disagreement."""
    return [(list(d.partitions), d.what.split(":")[0], " ".join(d.remedy.split()[:2])) for d in examine(h)]


def table_uri(h: House) -> str:
    return h.lake.table_uri(h.table.key.path)


def log_uri(h: House) -> str:
    return h.lake.log_uri(h.table.key.path)


def versions(h: House) -> list[int | None]:
    return [h.lake.version(uri) for uri in (table_uri(h), log_uri(h))]


def test_a_table_restored_without_its_log_and_the_reverse_are_one_line_each_and_the_load_puts_it_right(
    h: House,
) -> None:
    log, table = DeltaTable(log_uri(h)), DeltaTable(table_uri(h))
    third = h.instance.fetch_materializations(
        dg.AssetRecordsFilter(asset_key=h.table.key, asset_partitions=[key(2)]), limit=1
    ).records[0]
    assert third.asset_materialization is not None
    before = {name: third.asset_materialization.metadata[name].value for name in ("delta_version", "log_version")}

    table.restore(before["delta_version"])
    assert told(h) == [([key(3)], "the log has them, and the table has lost them", "incload load")]
    assert h.load(3) == [True] and told(h) == []
    assert rows(h) == [("1", 2)]

    log.update_incremental()
    log.restore(before["log_version"])
    assert told(h) == [([key(3)], "Dagster has them as loaded, and the log has no record of them", "incload load")]
    assert h.load(3) == [True] and told(h) == []
    assert rows(h) == [("1", 2)]


def test_a_log_restored_to_former_content_of_a_window_is_told_from_a_restored_dagster(
    h: House, spark: SparkSession
) -> None:
    former = h.lake.version(log_uri(h))
    with dg.DagsterInstance.ephemeral() as old:
        for found in reversed(h.instance.fetch_materializations(h.table.key, limit=9).records):
            assert found.asset_materialization is not None
            old.report_runless_asset_event(found.asset_materialization)
        h.deliver(3, guest("1", seq=3))
        assert h.load(3) == [True]

        new, h.instance = h.instance, old  # a backup of Dagster's storage from before the last load
        what = "the log has newer content than Dagster knows of"
        assert told(h) == [([key(3)], what, "incload rebuild")]
        assert rebuild(LoadContext(spark, h.table, h.lake), old).proven == [key(3)]
        assert told(h) == []
    h.instance = new
    DeltaTable(log_uri(h)).restore(former)
    assert told(h) == [([key(3)], "Dagster has newer content than the log", "incload load")]
    assert h.load(3) == [True] and told(h) == []
    assert rows(h) == [("1", 3)]


def test_lost_checkpoints_and_a_lost_table_are_told_with_their_remedies(h: House, tmp_path: Path) -> None:
    shutil.copytree(table_uri(h), tmp_path / "older")
    h.deliver(4, guest("4", day=4))
    assert h.load(4) == [True]
    with dg.DagsterInstance.ephemeral() as wiped:
        known, h.instance = h.instance, wiped
        four = [key(1), key(2), key(3), key(4)]
        what = "the log has them, and Dagster does not know that they were loaded"
        assert told(h) == [(four, what, "incload rebuild")]
        assert table_status(h.instance, h.table, h.lake, NOON).forgotten == four
        [one] = in_one([*examine(h), *(replace(each, table="rooms") for each in examine(h))])
        assert one.what.startswith("the logs have loads of 8 partitions of guests, rooms that Dagster does not know")
        assert one.remedy.endswith(": incload rebuild") and in_one(examine(h)) == examine(h)
        for result, text in (
            (gaps(h.look()), "does not know the loads of 4 windows that the log has, as after a loss of its storage"),
            (freshness(h.look()), "Dagster does not know it: incload rebuild guests."),
        ):
            assert not result.passed and text in (result.description or "")
        assert h.load(4) == [True]
        assert table_status(h.instance, h.table, h.lake, NOON).forgotten == four[:3]
        h.instance = known
    assert table_status(h.instance, h.table, h.lake, NOON).forgotten == []
    shutil.rmtree(table_uri(h))
    assert told(h) == [(four, "the log has them, and the table is gone", "incload load")]
    shutil.copytree(tmp_path / "older", table_uri(h))  # a copy whose history Dagster has not seen
    [lost] = examine(h)
    assert lost.partitions == [key(4)] and "a copy of version" in lost.what


def test_a_window_that_the_table_never_committed_is_told_even_if_dagster_remembers_nothing_of_the_table(
    h: House, spark: SparkSession, tmp_path: Path
) -> None:
    shutil.copytree(table_uri(h), tmp_path / "older")
    h.deliver(4, guest("4", day=4))
    assert h.load(4) == [True]
    with dg.DagsterInstance.ephemeral() as other:
        assert rebuild(LoadContext(spark, h.table, h.lake), other).proven == [key(1), key(2), key(3), key(4)]
        h.instance = other
        assert told(h) == []
        shutil.rmtree(table_uri(h))
        shutil.copytree(tmp_path / "older", table_uri(h))
        delta = DeltaTable(table_uri(h))
        for _ in range(5):  # versions that hide that it is older
            delta.update(new_values={"name": "'other'"}, predicate="id = '1'")
        what = "the log has them, and the table has no commit of their load"
        assert told(h) == [([key(4)], what, "incload load")]


def test_a_copied_lake_is_told_and_no_run_writes_to_it(h: House) -> None:
    lake, copy = h.lake, Lake(f"{h.lake.root} copy")
    shutil.copytree(lake.root, copy.root)
    h.deliver(4, guest("4", day=4))
    h.lake = copy
    before = versions(h)
    done = h.run(h.loads, partition=key(4))
    assert not done.success and "incload doctor --adopt-lake" in str(
        done.get_step_failure_events()[0].step_failure_data.user_failure_data.metadata[key(4)].value
    )
    assert versions(h) == before
    [found] = examine(h)
    assert "is at" in found.what and "--adopt-lake" in found.remedy
    h.lake = lake
    assert h.load(4) == [True] and examine(h) == []


def test_the_job_fails_with_a_line_for_the_audit_and_for_a_run_whose_process_is_gone(h: House) -> None:
    record(h.lake, AuditEntry(action="load", table="guests"))
    doctor = doctor_job([h.table])
    resources = {"lake": h.resources["lake"]}
    assert doctor.execute_in_process(instance=h.instance, resources=resources).success

    DeltaTable(audit_uri(h.lake)).update(new_values={"actor": "'nobody'"})
    [altered] = examine_lake(h.lake, h.instance)
    assert altered.what.startswith("the audit was altered from entry 1 on")
    run = create_run_for_test(h.instance, status=dg.DagsterRunStatus.STARTED, tags={TABLE_TAG: "guests"})
    mark = process_tags(run.run_id)[PROCESS_TAG].split(" ")[0].split(":")
    h.instance.add_run_tags(run.run_id, {PROCESS_TAG: f"{mark[0]}:{mark[1]}:1.00 {run.run_id}"})
    [dead] = examine(h)
    assert run.run_id[:8] in dead.what and "is gone" in dead.what
    failed = doctor.execute_in_process(instance=h.instance, resources=resources, raise_on_error=False)
    assert not failed.success
    assert fail_orphans(h.instance) == [run.run_id] and examine(h) == []


def rows(h: House) -> list[tuple[str, int]]:
    found = DeltaTable(table_uri(h)).to_pyarrow_table(columns=["id", "seq"]).to_pylist()
    return sorted((row["id"], row["seq"]) for row in found)
