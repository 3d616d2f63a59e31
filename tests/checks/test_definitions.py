"""The checks as Dagster runs them."""

from dataclasses import replace
from pathlib import Path

import dagster as dg

from incload_assets.checks import CHEAP, checks_for
from incload_assets.checks.cheap import cheap_checks
from incload_assets.loading import Debezium, Kafka, QueryByTime, Several
from resources.settings import Settings
from tests.house import guest, house, key

ALL = {"freshness", "gaps", "volume", "quarantine", "source_files", "rollback", "uniqueness", "reconciliation"}


def test_a_first_load_runs_every_check_and_reconciliation_runs_alone_where_it_is_asked_for(
    tmp_path: Path, spark_settings: Settings
) -> None:
    with house(tmp_path, spark_settings) as h:
        h.deliver(1, guest("1"))
        run = h.run(partition=key(1))
        assert run.success
        assert {e.check_name for e in run.get_asset_check_evaluations()} == ALL
        alone = h.run(
            dg.AssetSelection.checks(dg.AssetCheckKey(h.table.key, "reconciliation")),
            config={"ops": {"guests__reconciliation": {"config": {"partitions": [key(1)]}}}},
        )
        [evaluation] = alone.get_asset_check_evaluations()
        assert (evaluation.check_name, evaluation.passed) == ("reconciliation", True)


def test_one_of_the_cheap_checks_can_run_alone(tmp_path: Path, spark_settings: Settings) -> None:
    with house(tmp_path, spark_settings) as h:
        run = h.run(dg.AssetSelection.checks(dg.AssetCheckKey(h.table.key, "gaps")))
        assert [e.check_name for e in run.get_asset_check_evaluations()] == ["gaps"]


def test_no_check_blocks_and_each_says_what_it_is_for(tmp_path: Path, spark_settings: Settings) -> None:
    with house(tmp_path, spark_settings) as h:
        specs = [spec for checks in checks_for(h.table) for spec in checks.check_specs]
        assert {spec.name for spec in specs} == ALL
        assert not any(spec.blocking for spec in specs)
        assert all(spec.description for spec in specs)
        assert "spark" not in checks_for(h.table)[0].required_resource_keys
        assert set(CHEAP) - {"headroom", "clock"} == ALL - {"uniqueness", "reconciliation"}
        assert set(CHEAP) - set(cheap_checks(replace(h.table, source=Kafka("shop", "orders")))) == {"clock"}
        dated = QueryByTime("shop", "orders", modified="changed")
        assert set(CHEAP) - set(cheap_checks(replace(h.table, source=dated))) == {"headroom"}
        both = Several({"events": Debezium(Kafka("shop", "orders"), table="public.orders", keys=["id"]), "rows": dated})
        assert set(cheap_checks(replace(h.table, source=both))) == set(CHEAP)
