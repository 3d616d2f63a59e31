"""What checks say in runs that also load."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from incload_assets.assets import run
from incload_assets.automation.repairs import with_repairs
from incload_assets.checks import LIGHT_CHECKS, TABLE_CHECKS, check_names, checks_for, last_results, reconciliation
from incload_assets.checks.registry import light_checks
from incload_assets.platform.settings import Settings
from incload_assets.progress.run_tags import CHECKED_BY_LOAD, PARTITION_TAG, RANGE_END_TAG, RANGE_START_TAG
from incload_assets.progress.verdicts import last_finding, last_verdict, measured_in
from tests.support.guest_table import House, guest, house, key


def shown(h: House, name: str) -> tuple[str, str]:
    """Status and description of a check's last run, as the UI shows them."""
    check = dg.AssetCheckKey(h.table.key, name)
    record = h.instance.event_log_storage.get_latest_asset_check_execution_by_key([check])[check]
    event = record.event.dagster_event if record.event else None
    if event is None or event.event_type is not dg.DagsterEventType.ASSET_CHECK_EVALUATION:
        return record.status.value, ""
    return record.status.value, event.asset_check_evaluation_data.description or ""


def test_a_run_over_several_partitions_evaluates_its_checks(tmp_path: Path, spark_settings: Settings) -> None:
    with house(tmp_path, spark_settings) as h:
        for number in range(1, 5):
            h.deliver(number, guest(str(number), day=number))
        assert h.run(tags={RANGE_START_TAG: key(1), RANGE_END_TAG: key(4)}).success
        names = light_checks(h.table)
        assert {name: shown(h, name)[0] for name in names} == dict.fromkeys(names, "SUCCEEDED") | {
            "freshness": "FAILED",  # the house stands long after its days
            "gaps": "FAILED",
        }


def test_a_load_repeats_the_last_verdict_of_the_checks_that_are_too_dear_for_it(
    tmp_path: Path, spark_settings: Settings
) -> None:
    with house(tmp_path, spark_settings) as h:
        h.deliver(1, guest("1"))
        assert h.run(partition=key(1)).success
        assert shown(h, "reconciliation")[0] == "SUCCEEDED"
        h.deliver(1, guest("1", name="changed behind its back"))
        assert h.run(dg.AssetSelection.checks(dg.AssetCheckKey(h.table.key, "reconciliation"))).success
        verdict, finding = shown(h, "reconciliation")
        assert (verdict, "changed at the source" in finding) == ("FAILED", True)
        h.deliver(2, guest("2", day=2))
        assert h.run(partition=key(2)).success
        verdict, repeated = shown(h, "reconciliation")
        assert verdict == "FAILED"
        assert repeated.startswith("As of 20") and repeated.endswith(finding)
        h.deliver(3, guest("3", day=3))
        assert h.run(tags={RANGE_START_TAG: key(2), RANGE_END_TAG: key(3)}).success
        assert shown(h, "reconciliation") == ("FAILED", repeated)
        known = last_verdict(h.instance, dg.AssetCheckKey(h.table.key, "reconciliation"))
        assert known is not None and (measured_in(known[1]) or 0) > 0, "how long it took is repeated, too"


def test_what_the_reconciliation_finds_while_loads_go_on_is_not_hidden_by_what_they_repeat(
    tmp_path: Path, spark: SparkSession, spark_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = dg.AssetCheckKey(dg.AssetKey("guests"), reconciliation.NAME)
    with house(tmp_path, spark_settings) as h:
        for number in (1, 2):
            h.deliver(number, guest(str(number), day=number))
            assert h.run(partition=key(number)).success
        spark.sql(f"DELETE FROM {h.lake.sql_name(h.lake.table_uri(h.table.key.path))} WHERE id = '1'").first()
        reconcile = reconciliation.reconciliation

        def slowly(*args: Any) -> dg.AssetCheckResult:
            found = reconcile(*args)
            h.deliver(2, guest("2", seq=2, day=2))
            assert h.run(partition=key(2)).success
            return found

        with monkeypatch.context() as patched:
            patched.setattr(reconciliation, "reconciliation", slowly)
            assert h.run(dg.AssetSelection.checks(alone)).success
        assert shown(h, "reconciliation")[0] == "FAILED"
        to_repair = with_repairs(h.instance, h.table, h.look().progress)
        assert [window.key for window in to_repair if window.status == "drifted"] == [key(1)]
        assert h.run(partition=key(2)).success
        assert shown(h, "reconciliation")[1].startswith("As of 20")
        assert h.run(partition=key(1)).success
        assert shown(h, "reconciliation")[0] == "SUCCEEDED"


def test_a_finding_is_known_for_as_long_as_loads_fail(tmp_path: Path, spark_settings: Settings) -> None:
    with house(tmp_path, spark_settings) as h:
        check = dg.AssetCheckKey(h.table.key, reconciliation.NAME)
        wrong = {reconciliation.REPAIR: dg.MetadataValue.json([key(1)])}
        h.instance.report_runless_asset_event(
            dg.AssetCheckEvaluation(asset_key=check.asset_key, check_name=check.name, passed=False, metadata=wrong)
        )
        loads = dg.define_asset_job("loads", [h.asset])
        location = dg.Definitions([h.asset], jobs=[loads], asset_checks=checks_for(h.table), resources=h.resources)
        for _ in range(25):  # the checks of each come to no verdict
            h.instance.create_run_for_job(location.resolve_job_def("loads"), tags={PARTITION_TAG: key(1)})
        known = last_finding(h.instance, check, reconciliation.REPAIR)
        assert known is not None and known[1] == [key(1)]


def test_what_the_reconciliation_found_wrong_it_looks_at_again_when_all_of_it_is_loaded_again(
    tmp_path: Path, spark: SparkSession, spark_settings: Settings
) -> None:
    with house(tmp_path, spark_settings) as h:
        for number in (1, 2, 3):
            h.deliver(number, guest(str(number), day=number))
            assert h.run(partition=key(number)).success
        spark.sql(f"DELETE FROM {h.lake.sql_name(h.lake.table_uri(h.table.key.path))} WHERE id <> '3'").first()
        assert h.run(dg.AssetSelection.checks(dg.AssetCheckKey(h.table.key, "reconciliation"))).success
        assert shown(h, "reconciliation")[0] == "FAILED"
        assert h.run(partition=key(1)).success
        assert shown(h, "reconciliation")[0] == "FAILED"
        assert h.run(partition=key(2)).success
        assert shown(h, "reconciliation") == (
            "SUCCEEDED",
            "Source, log and table agree in 2 compared windows. None of 3 ingested windows has drifted.",
        )


def reconcile(h: House) -> None:
    assert h.run(dg.AssetSelection.checks(dg.AssetCheckKey(h.table.key, reconciliation.NAME))).success


def test_windows_that_changed_are_no_finding_any_more_when_they_are_loaded_one_by_one_or_at_once_and_failures_count_not(
    tmp_path: Path, spark_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with house(tmp_path, spark_settings) as h:
        for number in range(1, 7):
            h.deliver(number, guest(str(number), day=number))
        assert h.run(tags={RANGE_START_TAG: key(1), RANGE_END_TAG: key(6)}).success
        for number in range(1, 6):
            h.deliver(number, guest(str(number), f"renamed {number}", seq=2, day=number))
        reconcile(h)
        assert shown(h, "reconciliation")[1].startswith("5 windows changed at the source since the load: 2026-01-01, ")
        with monkeypatch.context() as patched:  # positions tell: no row is read
            patched.setattr(reconciliation, "compare", None)
            assert h.run(partition=key(3)).success
            status, said = shown(h, "reconciliation")
            assert (status, said.split(".")[0]) == (
                "FAILED",
                "4 windows changed at the source since the load: 2026-01-01, 2026-01-02, 2026-01-04, 2026-01-05",
            )
            h.deliver(1, guest("1", room="none", day=1))
            h.deliver(2, guest("2", room="none", day=2))
            assert not h.run(partition=key(1)).success
            assert not h.run(tags={RANGE_START_TAG: key(1), RANGE_END_TAG: key(2)}).success
            h.deliver(1, guest("1", "again", seq=3, day=1))
            h.deliver(2, guest("2", "again", seq=3, day=2))
            assert h.run(tags={RANGE_START_TAG: key(1), RANGE_END_TAG: key(4)}).success
            assert shown(h, "reconciliation")[1].startswith(
                "1 window changed at the source since the load: 2026-01-05."
            )
            h.deliver(6, guest("6", "later", seq=2, day=6))
            assert h.run(partition=key(5)).success
        assert shown(h, "reconciliation") == (
            "SUCCEEDED",
            "5 windows changed at the source and were loaded again since. Changed since then, and left to the sensor: "
            "2026-01-06.",
        )


def test_of_loads_side_by_side_the_one_that_ends_last_has_the_last_word_whenever_it_was_begun(
    tmp_path: Path, spark_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with house(tmp_path, spark_settings) as h:
        for number in (1, 2):
            h.deliver(number, guest(str(number), day=number))
        assert h.run(tags={RANGE_START_TAG: key(1), RANGE_END_TAG: key(2)}).success
        for number in (1, 2):
            h.deliver(number, guest(str(number), "renamed", seq=2, day=number))
        reconcile(h)
        finish, others = run.metadata_of, [key(2)]

        def slowly(*args: Any) -> Any:
            while others:  # a load that is begun now, and done before this one has told what it loaded
                assert h.run(partition=others.pop()).success
                assert shown(h, "reconciliation")[1].startswith("1 window changed at the source since the load: ")
            return finish(*args)

        monkeypatch.setattr(run, "metadata_of", slowly)
        assert h.run(partition=key(1)).success
        assert shown(h, "reconciliation") == (
            "SUCCEEDED",
            "2 windows changed at the source and were loaded again since. None of 2 ingested windows has drifted.",
        )


def test_what_was_found_wrong_in_some_windows_is_still_known_when_others_are_looked_at_and_mended(
    tmp_path: Path, spark: SparkSession, spark_settings: Settings
) -> None:
    with house(tmp_path, spark_settings) as h:
        for number in (1, 2):
            h.deliver(number, guest(str(number), day=number))
            assert h.run(partition=key(number)).success
        spark.sql(f"DELETE FROM {h.lake.sql_name(h.lake.table_uri(h.table.key.path))} WHERE id IN ('1', '2')").first()
        reconcile(h)
        only = {"ops": {"guests__reconciliation": {"config": {"partitions": [key(2)]}}}}
        alone = dg.AssetSelection.checks(dg.AssetCheckKey(h.table.key, reconciliation.NAME))
        assert h.run(partition=key(2)).success
        assert h.run(alone, config=only).success
        status, said = shown(h, "reconciliation")
        assert (status, said.split(".")[0]) == ("FAILED", "The table does not match the log for 2026-01-01")
        to_repair = with_repairs(h.instance, h.table, h.look().progress)
        assert [window.key for window in to_repair if window.status == "drifted"] == [key(1)]
        assert h.run(tags={RANGE_START_TAG: key(1), RANGE_END_TAG: key(2)}).success
        assert shown(h, "reconciliation")[0] == "SUCCEEDED"


def test_a_source_that_did_not_answer_is_asked_again_with_the_next_load(
    tmp_path: Path, spark_settings: Settings
) -> None:
    with house(tmp_path, spark_settings) as h:
        h.deliver(1, guest("1"))
        assert h.run(partition=key(1)).success
        (tmp_path / "landing").rename(tmp_path / "elsewhere")
        reconcile(h)
        assert shown(h, "reconciliation")[1].startswith("The source could not be checked: ")
        assert not h.run(partition=key(1)).success
        (tmp_path / "elsewhere").rename(tmp_path / "landing")
        h.deliver(2, guest("2", day=2))
        assert h.run(partition=key(2)).success
        assert shown(h, "reconciliation")[0] == "SUCCEEDED"


def test_a_doubled_key_is_no_finding_any_more_when_a_load_has_removed_it(
    tmp_path: Path, spark: SparkSession, spark_settings: Settings
) -> None:
    with house(tmp_path, spark_settings) as h:
        h.deliver(1, guest("1", "Ada", day=1))
        h.deliver(2, guest("1", "Grace", day=2))
        for number in (1, 2):
            assert h.run(partition=key(number)).success
        assert h.run(dg.AssetSelection.checks(dg.AssetCheckKey(h.table.key, "uniqueness"))).success
        assert shown(h, "uniqueness")[0] == "FAILED"
        h.deliver(2, guest("2", "Grace", day=2))
        assert h.run(partition=key(2)).success
        assert shown(h, "uniqueness") == ("SUCCEEDED", "2 rows, no key twice.")


def test_a_check_that_raises_fails_its_run_by_its_name_and_hides_neither_the_load_nor_what_the_others_say(
    tmp_path: Path, spark_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raises(*_: Any) -> dg.AssetCheckResult:
        raise KeyError("rows")

    with house(tmp_path, spark_settings) as h:
        h.deliver(1, guest("1"))
        h.deliver(2, guest("2", day=2))
        monkeypatch.setitem(LIGHT_CHECKS, "volume", replace(LIGHT_CHECKS["volume"], evaluate=raises))
        monkeypatch.setitem(TABLE_CHECKS, "uniqueness", replace(TABLE_CHECKS["uniqueness"], evaluate=raises))
        keys = [dg.AssetCheckKey(h.table.key, name) for name in check_names(h.table)]
        both = {RANGE_START_TAG: key(1), RANGE_END_TAG: key(2)}
        for load in (partial(h.run, partition=key(1)), partial(h.run, tags=both)):
            result = load()
            assert not result.success
            told = {
                name: reason.value
                for event in result.all_events
                if event.is_step_failure and event.step_failure_data.user_failure_data
                for name, reason in event.step_failure_data.user_failure_data.metadata.items()
            }
            unforeseen = "KeyError: 'rows'. Remedy: this was not foreseen; the run's log has the stack trace."
            assert told == {name: f"guests: check {name}: {unforeseen}" for name in ("volume", "uniqueness")}
            latest = h.instance.event_log_storage.get_latest_asset_check_execution_by_key(keys)
            assert {found.run_id for found in latest.values()} == {result.run_id}
            silent = {check.name for check, found in latest.items() if found.status.value == "PLANNED"}
            assert silent == {"volume", "uniqueness"}
        assert {window.key: window.status for window in h.look().progress[:2]} == {key(1): "loaded", key(2): "loaded"}


def test_a_load_that_was_requested_without_steps_of_checks_evaluates_them_and_leaves_no_plans_of_them(
    tmp_path: Path, spark_settings: Settings
) -> None:
    with house(tmp_path, spark_settings) as h:
        h.deliver(1, guest("1"))
        result = h.run(h.loads, partition=key(1), tags=CHECKED_BY_LOAD)
        assert result.success
        found = last_results(h.instance, [h.table])["guests"]
        assert found.keys() == {*check_names(h.table)}
        assert [name for name, (_, verdict) in found.items() if not verdict.passed] == ["freshness", "gaps"]
        planned = h.instance.all_logs(result.run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION_PLANNED)
        assert planned == []
