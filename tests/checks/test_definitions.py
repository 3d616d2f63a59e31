"""The checks as Dagster runs them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg

from incload_assets.assets import (
    Append,
    Changes,
    Debezium,
    DeleteInsert,
    FullReload,
    Kafka,
    QueryByTime,
    Several,
)
from incload_assets.checks import LIGHT_CHECKS, checks_for
from incload_assets.checks.registry import light_checks
from incload_assets.code_location import incremental_definitions
from incload_assets.platform.settings import Settings
from tests.support.guest_table import guest, house, key
from tests.support.tables import Item, declared

ALL = {
    "freshness", "gaps", "volume", "quarantine", "schema", "source_files", "rollback", "skew", "uniqueness",
    "reconciliation",
}  # fmt: skip


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
        assert set(LIGHT_CHECKS) - {"headroom", "clock"} == ALL - {"uniqueness", "reconciliation"}
        assert set(LIGHT_CHECKS) - set(light_checks(replace(h.table, source=Kafka("shop", "orders")))) == {
            "clock",
            "source_files",
        }
        dated = QueryByTime("shop", "orders", modified="changed")
        assert set(LIGHT_CHECKS) - set(light_checks(replace(h.table, source=dated))) == {"headroom", "source_files"}
        both = Several({"events": Debezium(Kafka("shop", "orders"), table="public.orders", keys=["id"]), "rows": dated})
        assert set(LIGHT_CHECKS) - set(light_checks(replace(h.table, source=both))) == {"source_files"}
        exports = Several({"events": Debezium(h.table.source, table="public.orders", keys=["id"]), "rows": dated})
        assert set(LIGHT_CHECKS) - set(light_checks(replace(h.table, source=exports))) == {"headroom"}
        assert set(LIGHT_CHECKS) - set(light_checks(replace(h.table, freshness=None))) == {
            "freshness",
            "headroom",
            "clock",
        }


def test_where_nothing_has_to_be_unique_nothing_is_looked_for_twice_and_no_job_does_nothing() -> None:
    def checks_of(table: dg.AssetsDefinition) -> set[str]:
        keys = incremental_definitions([table], Settings()).resolve_asset_graph().asset_check_keys
        return {key.name for key in keys}

    class Named(Item):
        class Config:
            unique = ["value"]  # noqa: RUF012 - pandera's own form

    everything = {"gaps", "volume", "quarantine", "schema", "rollback", "source_files", "reconciliation"}
    no_keys: dict[str, Any] = {"contract": Item, "changes": Changes()}
    for write in (Append(), FullReload()):
        assert checks_of(declared(write=write, **no_keys)) == everything
    by_group = declared(write=DeleteInsert(by=["id"]), contract=Item, changes=Changes(sequence_by=["seq"]))
    assert checks_of(by_group) == everything
    assert checks_of(declared(write=Append(), contract=Named, changes=Changes())) == everything | {"uniqueness"}
    definitions = incremental_definitions([by_group], Settings())
    dg.Definitions.validate_loadable(definitions)
    assert "check_uniqueness" not in definitions.get_repository_def().job_names
    assert "check_tables" in definitions.get_repository_def().job_names
