"""The code location as a whole, and the files that tell Dagster about it."""

import subprocess
import sys
import tomllib
from datetime import timedelta
from pathlib import Path

import dagster as dg
import pytest
import yaml
from dagster._core.remote_representation.external_data import RepositorySnap
from dagster_cloud_cli.config.models import load_dagster_cloud_yaml

from incload_assets.assets import Kafka
from incload_assets.code_location import incremental_definitions, project_definitions
from incload_assets.definitions import code_location, defs
from incload_assets.platform.dagster_private import serialize_value
from incload_assets.platform.errors import DeclarationError
from incload_assets.platform.project_files import find_project
from incload_assets.platform.settings import Settings
from incload_assets.progress.run_tags import REQUESTED_PARTITIONS_TAG, SERIALIZED_TAG, TABLE_TAG, UPKEEP_TAG
from incload_assets.runs import TableRunCoordinator
from tests.support.workshop import items_asset

ROOT = Path(__file__).resolve().parents[1]


def names(definitions: dg.Definitions) -> dict[str, list[str]]:
    repository = definitions.get_repository_def()
    return {
        "jobs": sorted(repository.job_names),
        "sensors": sorted(sensor.name for sensor in repository.sensor_defs),
        "schedules": sorted(schedule.name for schedule in repository.schedule_defs),
    }


def test_a_table_brings_its_sensor_and_its_checks_and_there_are_jobs_for_all_tables() -> None:
    definitions = incremental_definitions([items_asset()], Settings())
    assert names(definitions) == {
        "jobs": [
            "__ASSET_JOB",
            "accept_rows",
            "adopt_table",
            "backup_instance",
            "check_reconciliation",
            "check_tables",
            "check_uniqueness",
            "compact_files",
            "discard_rows",
            "doctor",
            "expire_history",
            "expire_payloads",
            "fill_columns",
            "pause_table",
            "plan_loads",
            "rebuild_checkpoints",
            "release_partitions",
            "replay_rows",
            "resume_table",
            "shadow_table",
            "undo_loads",
            "vacuum_tables",
        ],
        "sensors": ["collect_loads", "orphaned_runs", "replay_after_contract_change", "watch_sources"],
        "schedules": [
            "backup_instance_schedule",
            "check_reconciliation_schedule",
            "check_uniqueness_schedule",
            "compact_files_schedule",
            "expire_history_schedule",
            "expire_payloads_schedule",
            "reconcile_monthly",
            "reconcile_weekly",
            "vacuum_tables_schedule",
        ],
    }
    assert sorted(key.name for key in definitions.resolve_asset_graph().asset_check_keys) == [
        "gaps",
        "quarantine",
        "reconciliation",
        "rollback",
        "schema",
        "skew",
        "source_files",
        "uniqueness",
        "volume",
    ]


def test_a_table_from_kafka_has_a_check_more_and_a_sensor_looks_as_often_as_its_table_says() -> None:
    asset = items_asset(source=Kafka("shop", "items"), interval=timedelta(minutes=5))
    definitions = incremental_definitions([asset], Settings())
    dg.Definitions.validate_loadable(definitions)
    assert dg.AssetCheckKey(asset.key, "headroom") in definitions.resolve_asset_graph().asset_check_keys
    assert definitions.get_repository_def().get_sensor_def("watch_sources").minimum_interval_seconds == 300
    with pytest.raises(
        DeclarationError,
        match=r"items: interval is 0:00:00. Rule: .*the sensor looks once a second",
    ):
        items_asset(interval=timedelta(0))


def test_the_code_location_with_its_samples_loads_as_dagster_loads_it() -> None:
    definitions = code_location(Settings(samples=True))
    dg.Definitions.validate_loadable(definitions)
    assert {"compact_files", "compact_logs"} <= {*names(definitions)["jobs"]}
    assert {"compact_files_schedule", "compact_logs_schedule"} <= {*names(definitions)["schedules"]}


def test_all_jobs_but_the_shops_clock_and_quick_decisions_and_requests_share_the_places_of_upkeep() -> None:
    repository = defs.get_repository_def()
    tags = {name: repository.get_job(name).tags for name in repository.job_names if name != "__ASSET_JOB"}
    assert tags.keys() - {name for name, of in tags.items() if UPKEEP_TAG in of} == {
        "advance_shop", "pause_table", "resume_table", "accept_rows", "discard_rows", "undo_loads",
        "release_partitions", "replay_rows", "fill_columns",
    }  # fmt: skip


def test_a_load_is_followed_by_its_checks_in_the_same_process() -> None:
    items = items_asset()
    every = incremental_definitions([items, items_asset(name="others")], Settings())
    job = every.resolve_implicit_global_asset_job_def().get_subset(asset_selection={items.key})
    assert {node.name for node in job.nodes} == {"items", "items__checks", "items__uniqueness", "items__reconciliation"}
    assert job.executor_def is dg.in_process_executor


@pytest.mark.filterwarnings("ignore:Property `ScheduleDefinition.environment_vars`:DeprecationWarning")  # of Dagster
def test_each_table_adds_neither_a_job_nor_much_to_what_dagsters_processes_pass_to_each_other() -> None:
    def measured(tables: int) -> tuple[int, int]:
        assets = [items_asset(name=f"items_{number:02d}") for number in range(tables)]
        repository = incremental_definitions(assets, Settings()).get_repository_def()
        return len(repository.job_names), len(serialize_value(RepositorySnap.from_def(repository)))

    (jobs, size), (more_jobs, larger) = measured(2), measured(12)
    assert more_jobs == jobs < 40
    assert (larger - size) / 10 < 25_000


def test_assets_of_other_kinds_are_taken_as_they_are() -> None:
    @dg.asset
    def report() -> None: ...

    definitions = incremental_definitions([report], Settings())
    assert names(definitions) == {"jobs": ["__ASSET_JOB"], "sensors": ["orphaned_runs"], "schedules": []}


def test_two_tables_with_one_place_in_the_lake_are_refused() -> None:
    with pytest.raises(DeclarationError) as caught:
        incremental_definitions([items_asset(name="items"), items_asset(name="Items")], Settings(lake="s3://lake"))
    assert str(caught.value) == (
        "items (tests.support.workshop.items_asset.<locals>.items) and "
        "Items (tests.support.workshop.items_asset.<locals>.items) would be written to s3://lake/items and "
        "s3://lake/Items. Rule: each table has a folder of its own in the lake, named after its asset key. "
        "Remedy: give one of them another name or key_prefix."
    )


def test_a_table_inside_the_folder_of_another_is_refused() -> None:
    inner = items_asset(name="items", key_prefix="shop")
    with pytest.raises(DeclarationError, match=r"shop/items .* and shop .* would be written to"):
        incremental_definitions([inner, items_asset(name="shop")], Settings())
    others = [items_asset(name=name) for name in ("items", "shop_items", "Shops", "a", "z")]
    with pytest.raises(DeclarationError, match=r"Shop .* and shop/items .* would be written to"):
        incremental_definitions([*others, items_asset(name="Shop"), inner], Settings())


def test_tables_whose_checks_would_have_one_name_are_refused() -> None:
    twins = [items_asset(name="b__c", key_prefix="a"), items_asset(name="c", key_prefix=["a", "b"])]
    with pytest.raises(
        DeclarationError, match=r"a/b__c .* and a/b/c .* would both have the checks' step a__b__c\. Rule"
    ):
        incremental_definitions(twins, Settings())


def test_tables_with_similar_names_have_places_of_their_own() -> None:
    definitions = incremental_definitions([items_asset(name="item"), items_asset(name="items")], Settings())
    assert names(definitions)["sensors"] == [
        "collect_loads",
        "orphaned_runs",
        "replay_after_contract_change",
        "watch_sources",
    ]


def project(folder: Path, **modules: str) -> Path:
    """A project with modules below its folder of tables; the file of its definitions. It replaces the one before."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "a_lake"]:
        del sys.modules[name]
    tables = folder / "a_lake" / "tables"
    tables.mkdir(parents=True)
    (folder / "pyproject.toml").write_text(
        '[tool.dg]\ndirectory_type = "project"\n'
        '[tool.dg.project]\nroot_module = "a_lake"\ndefs_module = "a_lake.tables"\n'
    )
    (folder / "a_lake" / "__init__.py").touch()
    for name, text in {"__init__": "", **modules}.items():
        file = tables.joinpath(*name.split("__dot__")).with_suffix(".py")
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    return folder / "a_lake" / "definitions.py"


ORDERS = "import dagster as dg\n\n@dg.asset\ndef orders() -> None: ...\n"


def test_two_assets_with_one_key_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    definitions = project_definitions(project(tmp_path, one=ORDERS, other=ORDERS))
    with pytest.raises(dg.DagsterInvalidDefinitionError, match=r"Duplicate asset key.*orders"):
        definitions.get_repository_def()


def test_a_new_module_is_found_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    found = project_definitions(project(tmp_path, sub__dot____init__="", sub__dot__orders=ORDERS))
    assert dg.AssetKey("orders") in found.resolve_asset_graph().get_all_asset_keys()


def test_without_samples_there_is_no_shop() -> None:
    assert "advance_shop" in names(defs)["jobs"]
    samples = (
        *("orders", "customers", "events", "inventory", "daily_sales", "stock_levels", "prices", "price_changes"),
        *("customer_features", "service_logs", "service_health", "settings"),
        *("web_events", "visitor_days", "articles", "assortment"),
    )
    assert {dg.AssetKey(table) for table in samples} <= defs.resolve_asset_graph().get_all_asset_keys()
    assert names(code_location(Settings(samples=False))) == names(incremental_definitions([], Settings()))


def test_dagster_cloud_yaml_keeps_to_the_published_model() -> None:
    [location] = load_dagster_cloud_yaml((ROOT / "dagster_cloud.yaml").read_text()).locations
    assert location.code_source is not None
    assert (location.location_name, location.code_source.module_name) == ("incload", "incload_assets.definitions")


def test_all_that_name_the_code_location_name_the_same() -> None:
    [entry] = yaml.safe_load((ROOT / "workspace.yaml").read_text())["load_from"]
    [location] = yaml.safe_load((ROOT / "dagster_cloud.yaml").read_text())["locations"]
    assert entry["python_module"]["module_name"] == location["code_source"]["module_name"]
    assert entry["python_module"]["location_name"] == location["location_name"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["dg"]["project"]
    assert project["code_location_name"] == location["location_name"]
    assert find_project(ROOT / "tests").module == entry["python_module"]["module_name"]


def test_the_instance_configuration_is_what_dagster_understands(tmp_path: Path) -> None:
    (tmp_path / "dagster.yaml").write_text((ROOT / ".dagster_home" / "dagster.yaml").read_text())
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        assert isinstance(instance.run_coordinator, TableRunCoordinator)
        queue = instance.get_concurrency_config()
        assert queue.run_queue_config is not None
        assert queue.run_queue_config.max_concurrent_runs == 4
        limits = {limit["key"]: limit["limit"] for limit in queue.run_queue_config.tag_concurrency_limits}
        assert limits == {TABLE_TAG: 2, REQUESTED_PARTITIONS_TAG: 1, SERIALIZED_TAG: 1, UPKEEP_TAG: 1}
        assert (queue.pool_config.default_pool_limit, queue.pool_config.pool_granularity.value) == (1, "op")
        assert (instance.run_retries_max_retries, instance.run_retries_retry_on_asset_or_op_failure) == (2, False)
        assert instance.run_monitoring_enabled
        assert not instance.telemetry_enabled


def test_the_postgres_section_is_what_dagster_understands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = (ROOT / ".dagster_home" / "dagster.yaml").read_text().splitlines()
    start = lines.index("# storage:")
    section = [line.removeprefix("# ") for line in lines[start:] if line.startswith("# ")][: lines[start:].index("")]
    for name in ("HOST", "DB", "USERNAME", "PASSWORD"):
        monkeypatch.setenv(f"DAGSTER_PG_{name}", name.lower())
    (tmp_path / "dagster.yaml").write_text("\n".join(section))
    ref = dg._core.instance.ref.InstanceRef.from_dir(str(tmp_path))
    assert ref.storage_data is not None
    assert (ref.storage_data.module_name, ref.storage_data.class_name) == (
        "dagster_postgres",
        "DagsterPostgresStorage",
    )


def test_no_table_prints_warnings_about_what_is_new_in_dagster_when_it_is_loaded() -> None:
    code = (
        "from incload_assets.code_location import incremental_definitions\n"
        "from incload_assets.platform.settings import Settings\n"
        "from incload_assets.tables.retail.daily_sales import daily_sales\n"
        "from incload_assets.tables.retail.orders import orders\n"
        "definitions = incremental_definitions([orders, daily_sales], Settings())\n"
        "print(len(definitions.get_repository_def().assets_defs_by_key))\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("2\n", "")


def test_a_wrong_declaration_is_named_by_the_validation_command(tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text(
        "import dagster as dg\n"
        "from incload_assets.platform.settings import Settings\n"
        "from incload_assets.code_location import incremental_definitions\n"
        "from tests.support.workshop import items_asset\n"
        "defs = incremental_definitions([items_asset(name='a'), items_asset(name='A')], Settings())\n"
    )
    validated = subprocess.run(
        [sys.executable, "-m", "dagster", "definitions", "validate", "-f", str(tmp_path / "wrong.py"), "-d", str(ROOT)],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
    )
    assert validated.returncode == 1
    assert "Rule: each table has a folder of its own in the lake" in validated.stdout + validated.stderr
