"""Freshness: the latest due window decides, nothing else."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg

from incload_assets.assets import Freshness
from incload_assets.change_log.log import ChangeLog
from incload_assets.checks.freshness import freshness
from incload_assets.platform.settings import Settings
from tests.support.guest_table import NOON, guest, house, key
from tests.support.window_records import checkpoint


def test_an_old_backfill_does_not_make_a_stale_table_look_fresh(tmp_path: Path, spark_settings: Settings) -> None:
    with house(tmp_path, spark_settings) as h:
        h.deliver(1, guest("1"))
        h.deliver(4, guest("2", day=4))
        h.checkpoint(1)
        late = freshness(h.look())
        assert (late.passed, late.severity) == (False, dg.AssetCheckSeverity.ERROR)
        assert late.description == (
            "Partition 2026-01-04 is overdue by 6 hours (due 6 hours after its end, at 2026-01-05 06:00 UTC). "
            "The newest loaded partition is 2026-01-01. What to do: the source holds it, but no run has loaded it: "
            "check that the sensors are on, or materialize it."
        )
        assert late.metadata["overdue_seconds"].value == 6 * 3600
        h.checkpoint(4)
        fresh = freshness(h.look())
        assert (fresh.passed, fresh.description) == (True, "The latest due partition, 2026-01-04, is loaded.")
        assert freshness(h.look(NOON + timedelta(days=1))).passed is False


def test_a_partition_that_is_not_due_yet_is_not_asked_for(tmp_path: Path, spark_settings: Settings) -> None:
    with house(tmp_path, spark_settings) as h:
        early = freshness(h.look(datetime(2026, 1, 2, 5, 59, tzinfo=UTC)))
        assert (early.passed, early.description) == (
            True,
            "No partition is due yet: the first one is due 6 hours after its end.",
        )
        due = freshness(h.look(datetime(2026, 1, 2, 6, 0, tzinfo=UTC)))
        assert due.passed is False
        assert "overdue by 0 seconds" in (due.description or "")
        assert "Nothing was ever loaded. What to do: the source holds nothing for it" in (due.description or "")


def test_an_idle_source_is_not_stale_where_it_may_be_empty(tmp_path: Path, spark_settings: Settings) -> None:
    with house(tmp_path, spark_settings, absent="empty") as h:
        idle = freshness(h.look())
        assert (idle.passed, idle.description) == (
            True,
            "The source holds nothing for the latest due partition, 2026-01-04, which this table allows.",
        )
        h.deliver(4, guest("1", day=4))
        assert freshness(h.look()).passed is False


def test_a_failed_load_names_its_run_and_cause(tmp_path: Path, spark_settings: Settings) -> None:
    with house(tmp_path, spark_settings) as h:
        h.deliver(4, guest("1", room=0), guest("2", room=-1))
        assert h.load(4) == [False]
        failed = freshness(h.look())
        [run] = h.instance.get_runs()
        assert failed.passed is False
        assert f"its last load failed (contract): see run {run.run_id}" in (failed.description or "")


def test_a_day_loaded_before_it_ended_is_late_when_the_source_has_more(
    tmp_path: Path, spark_settings: Settings
) -> None:
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    start = (today - timedelta(days=1)).strftime("%Y-%m-%d")
    with house(tmp_path, spark_settings, partitions_def=dg.DailyPartitionsDefinition(start, end_offset=1)) as h:
        folder = tmp_path / "landing" / "guests" / f"{today:%Y-%m-%d}"
        folder.mkdir(parents=True)
        line = '{"id": "1", "name": "a", "room": 1, "seq": 1, "day": "2026-01-01"}\n'
        (folder / "a.json").write_text(line)
        assert h.run(h.loads, partition=f"{today:%Y-%m-%d}").success
        tomorrow = today + timedelta(days=1, hours=7)
        assert freshness(h.look(tomorrow)).passed is True
        (folder / "b.json").write_text(line.replace("1", "2", 1))
        late = freshness(h.look(tomorrow))
        assert late.passed is False
        assert "it was loaded before it ended, and the source has more of it now" in (late.description or "")


def test_a_day_loaded_before_it_ended_stays_late_while_a_load_of_the_rest_goes_on_and_when_it_has_failed(
    tmp_path: Path,
) -> None:
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    tomorrow, number = today + timedelta(days=1, hours=7), f"{today:%Y-%m-%d}"
    with house(tmp_path, Settings(), partitions_def=dg.DailyPartitionsDefinition(number, end_offset=1)) as h:
        folder = tmp_path / "landing" / "guests" / number
        folder.mkdir(parents=True)
        (folder / "a.json").write_text('{"id": "1"}\n')
        fingerprint = h.look(tomorrow).state.positions[number].fingerprint
        checkpoint(h.instance, ChangeLog(h.table, h.lake), {number: fingerprint})
        job = dg.Definitions([h.asset], jobs=[dg.define_asset_job("load", [h.asset])], resources=h.resources)

        def seen() -> tuple[str, bool]:
            look = h.look(tomorrow)
            return look.progress[0].status, freshness(look).passed

        def begin() -> dg.DagsterRun:
            return h.instance.create_run_for_job(
                job.resolve_job_def("load"), status=dg.DagsterRunStatus.STARTED, tags={"dagster/partition": number}
            )

        again = begin()
        assert seen() == ("in_progress", True)
        h.instance.report_run_failed(again)
        assert seen() == ("failed", True), "what failed is a load of what was there already"
        (folder / "b.json").write_text('{"id": "2"}\n')
        assert seen() == ("failed", False)
        begin()
        assert seen() == ("in_progress", False)


def test_what_is_due_depends_on_the_declared_time(tmp_path: Path, spark_settings: Settings) -> None:
    with house(tmp_path, spark_settings, freshness=Freshness(within=timedelta(days=2))) as h:
        assert freshness(h.look()).metadata["latest_due_partition"].value == key(2)
