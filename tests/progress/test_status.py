"""Progress and status: what is loaded, missing, failed, drifted, in progress, waiting."""

import shutil
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
from pyspark.sql import SparkSession

from incload_assets.platform.settings import Settings
from incload_assets.progress.progress import progress_of
from incload_assets.progress.status import TableStatus, table_status
from tests.support.guest_table import NOON, guest, house, key


def test_every_partition_is_in_one_list(tmp_path: Path, spark_settings: Settings) -> None:
    with house(tmp_path, spark_settings) as h:
        assert table_status(h.instance, h.table, h.lake, NOON) == TableStatus(
            table="guests",
            loaded=[],
            missing=[],
            failed=[],
            drifted=[],
            in_progress=[],
            waiting=[key(n) for n in range(1, 5)],
            causes={},
            undone={},
            freshness=6 * 3600.0,
            last_materialized=None,
            rows=None,
            version=None,
        )
        h.deliver(1, guest("1"), guest("2"))
        h.deliver(2, guest("3", day=2))
        h.deliver(3, guest("4", room=0, day=3))
        h.deliver(4, guest("5", day=4))
        before = datetime.now(UTC)
        assert h.load(1, 2, 3) == [True, True, False]
        h.deliver(2, guest("3", "corrected", seq=2, day=2))
        status = table_status(h.instance, h.table, h.lake, NOON + timedelta(days=1))
        assert (status.loaded, status.drifted, status.failed, status.missing, status.waiting) == (
            [key(1)],
            [key(2)],
            [key(3)],
            [key(4)],
            [key(5)],
        )
        assert (status.causes, status.freshness, status.rows) == ({key(3): "contract"}, 6 * 3600.0, 3)
        assert status.last_materialized is not None
        assert before < status.last_materialized < datetime.now(UTC)
        assert status.version == h.lake.version(h.lake.table_uri(["guests"]))


def test_what_the_table_has_lost_is_not_loaded_whether_or_not_a_check_has_seen_it(
    tmp_path: Path, spark: SparkSession, spark_settings: Settings
) -> None:
    with house(tmp_path, spark_settings) as h:
        uri = h.lake.table_uri(h.table.key.path)
        versions = {}
        for number in (1, 2, 3, 4):
            h.deliver(number, guest(str(number), day=number))
            assert h.load(number) == [True]
            versions[number] = h.lake.version(uri) or 0

        def told() -> tuple[list[str], list[str], dict[str, str], float | None, int | None]:
            status = table_status(h.instance, h.table, h.lake, NOON)
            return status.loaded, status.drifted, dict(status.undone), status.freshness, status.rows

        days = [key(number) for number in (1, 2, 3, 4)]
        assert told() == (days, [], {}, 0.0, 4)
        spark.sql(f"RESTORE TABLE {h.lake.sql_name(uri)} TO VERSION AS OF {versions[2]}")
        why = f"version {versions[4] + 1} restored version {versions[2]}"
        late = 6 * 3600.0
        assert told() == (days[:2], days[2:], dict.fromkeys(days[2:], why), late, 2)
        assert h.load(4) == [True]
        assert told() == ([*days[:2], days[3]], [days[2]], {days[2]: why}, 0.0, 3)
        assert h.load(3) == [True]
        assert told() == (days, [], {}, 0.0, 4)

        shutil.rmtree(uri)
        assert told() == ([], days, dict.fromkeys(days, "the table is gone"), late, None)
        assert h.load(4) == [True]
        loaded, drifted, lost, fresh, rows = told()
        assert (loaded, drifted, fresh, rows) == ([days[3]], days[:3], 0.0, 1)
        assert lost.keys() == set(days[:3]) and all("created again" in reason for reason in lost.values())
        assert h.load(1, 2, 3) == [True] * 3

        log = h.lake.log_uri(h.table.key.path)
        h.deliver(2, guest("2", "corrected", seq=2, day=2))
        before = h.lake.version(log)
        assert h.load(2) == [True]
        spark.sql(f"RESTORE TABLE {h.lake.sql_name(log)} TO VERSION AS OF {before}")
        assert told() == ([days[0], *days[2:]], [days[1]], {}, 0.0, 4)


def test_an_empty_window_that_is_allowed_is_missing_until_loaded(tmp_path: Path, spark_settings: Settings) -> None:
    with house(tmp_path, spark_settings, absent="empty") as h:
        at = datetime(2026, 1, 2, 7, tzinfo=UTC)
        assert table_status(h.instance, h.table, h.lake, at).missing == [key(1)]
        assert h.load(1) == [True]
        status = table_status(h.instance, h.table, h.lake, at)
        assert (status.loaded, status.missing, status.freshness, status.rows) == ([key(1)], [], 0.0, 0)


def test_a_partition_that_a_run_has_in_hand_is_in_progress(tmp_path: Path, spark_settings: Settings) -> None:
    with house(tmp_path, spark_settings) as h:
        h.deliver(1, guest("1"))
        h.deliver(2, guest("1", day=2))
        job = dg.Definitions([h.asset], jobs=[dg.define_asset_job("load", [h.asset])], resources=h.resources)
        run = h.instance.create_run_for_job(
            job.resolve_job_def("load"), status=dg.DagsterRunStatus.STARTED, tags={"dagster/partition": key(2)}
        )
        assert [w.status for w in progress_of(h.instance, h.table, h.lake, NOON)][:2] == ["missing", "in_progress"]
        h.instance.report_run_failed(run)
        assert [w.status for w in progress_of(h.instance, h.table, h.lake, NOON)][:2] == ["missing", "failed"]


def test_a_partition_that_somebody_reports_as_materialized_is_not_loaded_by_that(tmp_path: Path) -> None:
    with house(tmp_path, Settings()) as h:
        h.deliver(1, guest("1"))
        for number in (1, 2):
            h.instance.report_runless_asset_event(dg.AssetMaterialization(h.table.key, partition=key(number)))
        seen = [(w.status, w.is_loaded) for w in progress_of(h.instance, h.table, h.lake, NOON)]
        assert seen[:2] == [("missing", False), ("waiting", False)]


def test_changed_code_is_told(tmp_path: Path, spark_settings: Settings) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        with house(tmp_path, spark_settings, instance=instance) as h:
            h.deliver(1, guest("1"))
            assert h.load(1) == [True]
        with house(tmp_path, spark_settings, instance=instance, code_version="2") as h:
            first, second, *_ = progress_of(h.instance, h.table, h.lake, NOON)
            assert (first.key, first.status, first.code_changed, second.code_changed) == (key(1), "loaded", True, False)
            assert first.position is not None
            assert first.checkpoint == first.position.fingerprint


def test_the_status_of_a_thousand_partitions_takes_a_moment(tmp_path: Path, spark_settings: Settings) -> None:
    start = (NOON - timedelta(days=1000)).strftime("%Y-%m-%d")
    with house(tmp_path, spark_settings, partitions_def=dg.DailyPartitionsDefinition(start)) as h:
        for number in range(1000):
            name = (NOON - timedelta(days=1000 - number)).strftime("%Y-%m-%d")
            folder = tmp_path / "landing" / "guests" / name
            folder.mkdir()
            (folder / "a.json").write_text('{"id": "1"}')
        begun = time.monotonic()
        status = table_status(h.instance, h.table, h.lake, NOON)
        assert len(status.missing) == 1000
        assert time.monotonic() - begun < 10
