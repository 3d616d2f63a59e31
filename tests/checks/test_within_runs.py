"""What checks say in runs that also load."""

from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from incload_assets.automation.repairs import with_repairs
from incload_assets.automation.tags import RANGE_END_TAG, RANGE_START_TAG
from incload_assets.checks import checks_for, reconciliation
from incload_assets.checks.cheap import cheap_checks
from incload_assets.loading.checkpoint import PARTITION_TAG
from incload_assets.operations.verdicts import last_finding
from resources.settings import Settings
from tests.house import House, guest, house, key


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
        names = cheap_checks(h.table)
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
        assert h.run(tags={RANGE_START_TAG: key(1), RANGE_END_TAG: key(2)}).success
        assert shown(h, "reconciliation") == ("FAILED", repeated)


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
            "Source, log and table agree in 2 compared windows. None of 3 landed windows has drifted.",
        )
