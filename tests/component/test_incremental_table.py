"""Tables declared in YAML are those that Python declares."""

import inspect
import os
import re
import subprocess
import sys
from dataclasses import fields, replace
from decimal import Decimal
from pathlib import Path

import dagster as dg
import pytest
from click.testing import CliRunner
from dagster.components.component_scaffolding import scaffold_object
from dagster_dg_cli.cli import create_dg_cli

import incload_assets
from incload_assets.assets import Files, incremental_asset
from incload_assets.assets.incremental import table_of
from incload_assets.code_location import project_definitions
from incload_assets.component.kinds import choices_of
from incload_assets.contract.contract import compile_contract
from incload_assets.declaration.source import Source
from incload_assets.declaration.table import Table
from incload_assets.declaration.write import Write
from incload_assets.platform.errors import DeclarationError
from incload_assets.platform.settings import Settings
from incload_assets.platform.spark.resource import SparkResource
from tests.component.files import PAYMENTS, SCHEMA, loaded, reported, table_in, written
from tests.component.twelve import IN_YAML, PERSON, Person, in_python
from tests.support.guest_table import House
from tests.test_definitions import project


def tables_of(assets: list[dg.AssetsDefinition]) -> dict[str, Table]:
    """Tables by name."""
    return {table.name: table for asset in assets if (table := table_of(asset)) is not None}


def comparable(asset: dg.AssetsDefinition) -> dict[str, object]:
    """Everything of an asset and its table, by name; of functions their code, and models without their names."""
    table = table_of(asset)
    assert table is not None
    of_table = {field.name: getattr(table, field.name) for field in fields(table)}
    [spec] = asset.specs
    return {
        **of_table,
        "function": table.function.__code__.co_code,
        "contract": replace(table.contract, model_name=""),
        "protections": table.contract.protections,
        "former_partitions": [str(era) for era in table.former_partitions],
        "spec": spec,
        "metadata": dict(spec.metadata),
        "pool": asset.op.pool,
        "backfill_policy": asset.backfill_policy,
        "partitions": asset.partitions_def,
    }


@pytest.fixture(scope="module")
def twelve(tmp_path_factory: pytest.TempPathFactory) -> list[dg.AssetsDefinition]:
    """The tables of YAML."""
    return loaded(written(tmp_path_factory.mktemp("twelve"), IN_YAML))


def test_twelve_tables_declared_both_ways_are_equal(twelve: list[dg.AssetsDefinition]) -> None:
    of_python = {asset.key: asset for asset in in_python()}
    assert len(twelve) == len(of_python) == 12
    for asset in twelve:
        one, other = comparable(asset), comparable(of_python[asset.key])
        assert {name: one[name] for name in one if one[name] != other[name]} == {}, asset.key
        assert one.keys() == other.keys()


def test_the_twelve_are_of_every_source_and_write_strategy(twelve: list[dg.AssetsDefinition]) -> None:
    tables = tables_of(twelve).values()
    assert {type(table.source) for table in tables} == set(choices_of((Source,)).values())
    assert {type(table.write) for table in tables} == set(choices_of((Write,)).values())


def test_the_schema_accepts_the_twelve_and_knows_every_argument(tmp_path: Path) -> None:
    assert reported(written(tmp_path, IN_YAML)) == []
    arguments = set(inspect.signature(incremental_asset).parameters)
    assert SCHEMA.schema["properties"].keys() == arguments | {"function", "defaults", "tables"}
    assert set(SCHEMA.schema["else"]["required"]) == {"partitions_def", "source", "contract"}


def test_an_inline_contract_is_the_model_that_it_stands_for(tmp_path: Path) -> None:
    columns = "".join(f"    {line}" for line in PERSON.splitlines(keepends=True))
    before, after = PAYMENTS.index("    columns:\n"), PAYMENTS.index("  changes:\n")
    text = (PAYMENTS[:before] + columns + PAYMENTS[after:]).replace("payment_id", "id").replace("updated_at", "seq")
    table = table_in(written(tmp_path, text.replace("merge\n    partition_by: day", "merge")))
    expected = compile_contract(Person, "")
    assert (table.contract.fields, table.contract.unique) == (expected.fields, ("email",))
    assert table.contract.protections == expected.protections
    assert table.contract.in_clear == expected.in_clear


def test_one_file_declares_two_hundred_tables_in_forty_lines(tmp_path: Path) -> None:
    names = [f"{kind}_{number:02d}" for kind in ("orders", "customers", "invoices", "payments") for number in range(49)]
    lines = [", ".join(names[at : at + 14]) for at in range(0, len(names), 14)]
    text = f"""\
type: incload_assets.IncrementalTable

attributes:
  defaults:
    key_prefix: erp
    partitions_def: {{type: daily, start_date: "2026-01-01", end_offset: 1}}
    source: {{type: query_by_time, database: erp, table: "public.{{{{ name }}}}", modified: updated_at}}
    contract:
      columns:
        id: bigint
        updated_at: timestamp
        status: {{type: string, nullable: true}}
    changes: {{keys: [id], sequence_by: [updated_at]}}
    owners: [team:erp]
  tables: {{
    {f",{chr(10)}    ".join(lines)},
    articles: {{source: {{modified: changed_at}}}},
    journal: {{write: {{type: append}}, source: {{type: query_by_id, database: erp, table: public.journal, id: id}}}},
    prices: {{contract: {{columns: {{price: "decimal(12,2)"}}}}, interval: 5min}},
    stock: {{changes: {{keys: [id, status]}}}},
  }}
"""
    assert len(text.splitlines()) <= 40
    file = written(tmp_path, text)
    tables = tables_of(loaded(file))
    assert (len(tables), reported(file)) == (200, [])
    assert str(tables["erp/orders_07"].source) == "erp.public.orders_07 by updated_at"
    assert str(tables["erp/articles"].source) == "erp.public.articles by changed_at"
    assert str(tables["erp/journal"].source) == "erp.public.journal by id"
    assert tables["erp/prices"].columns == ("id", "updated_at", "status", "price")
    assert tables["erp/stock"].changes.keys == ("id", "status")
    assert {table.owners for table in tables.values()} == {("team:erp",)}


def test_a_description_is_the_docstring_of_a_table_without_a_function(tmp_path: Path) -> None:
    [asset] = loaded(written(tmp_path, PAYMENTS.replace("  name:", "  description: What was paid.\n  name:")))
    table = table_of(asset)
    assert table is not None
    assert asset.descriptions_by_key[asset.key] == table.function.__doc__ == "What was paid."
    assert f"{table.function.__module__}" == str(tmp_path / "defs.yaml")


def test_the_package_exports_the_component_and_imports_it_only_when_asked() -> None:
    asks = "import sys, incload_assets; print('IncrementalTable' in dir(incload_assets), len(sys.modules) < 200)"
    answer = subprocess.run([sys.executable, "-c", asks], capture_output=True, text=True, check=True)
    assert answer.stdout == "True True\n"
    with pytest.raises(AttributeError, match="has no attribute 'IncrementalTabel'"):
        _ = incload_assets.IncrementalTabel


def test_what_dagster_scaffolds_is_a_table(tmp_path: Path) -> None:
    for append in (False, True):
        path = tmp_path / "orders"
        scaffold_object(
            path / "defs.yaml" if append else path, "incload_assets.IncrementalTable", None, "yaml", None, append=append
        )
    one, other = (path / "defs.yaml").read_text().split("---\n")
    for text in (one, other.replace("orders", "other")):
        file = written(tmp_path, text)
        assert reported(file) == []
        assert table_in(file).changes.keys == ("order_id",)
    with pytest.raises(ValueError, match="in Python a table is a function"):
        scaffold_object(tmp_path / "more", "incload_assets.IncrementalTable", None, "python", None)


@pytest.fixture
def location(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with one table in YAML; the file of the table."""
    monkeypatch.syspath_prepend(tmp_path)
    definitions = project(tmp_path)
    folder = definitions.parent / "tables" / "payments"
    folder.mkdir()
    return written(folder, PAYMENTS)


def test_a_project_loads_its_files_of_yaml_and_makes_what_they_share(location: Path) -> None:
    location.with_name("names.py").write_text(
        "import dagster as dg\nfrom incload_assets.assets import Files\n\n@dg.template_var\n"
        "def files(_):\n    return lambda name: Files('{landing}/' + name + '/{window:%Y-%m-%d}.csv')\n"
    )
    before, after = PAYMENTS.index("  source:\n"), PAYMENTS.index("  contract:\n")
    source = '  source: "{{ files(name) }}"\n'
    location.write_text(f"{PAYMENTS[:before]}{source}{PAYMENTS[after:]}template_vars_module: .names\n")
    found = project_definitions(location.parents[2] / "definitions.py", settings=Settings(samples=False))
    [table] = [table for asset in found.assets or () if (table := table_of(asset)) is not None]
    assert table.source == Files("{landing}/payments/{window:%Y-%m-%d}.csv")
    repository = found.get_repository_def()
    assert {"watch_sources", "orphaned_runs"} <= {sensor.name for sensor in repository.sensor_defs}
    assert repository.has_job("undo_loads")


def test_a_location_that_makes_nothing_of_what_tables_share_is_refused_with_the_line_to_write(location: Path) -> None:
    with pytest.raises(Exception, match="defs\\.yaml") as raised:
        dg.load_from_defs_folder(path_within_project=location.parents[2])
    assert isinstance(raised.value.__cause__, DeclarationError)
    assert "write `defs = project_definitions(__file__)` there" in str(raised.value.__cause__)


def test_a_file_without_a_table_is_refused(location: Path) -> None:
    location.write_text("type: incload_assets.IncrementalTable\n")
    with pytest.raises(DeclarationError, match=re.escape(f"{location.parent}: declares no table.")):
        project_definitions(location.parents[2] / "definitions.py", settings=Settings(samples=False))


def test_a_table_of_yaml_loads(tmp_path: Path, spark_settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INCLOAD_LANDING", str(tmp_path / "landing"))
    file = tmp_path / "landing" / "payments" / "2026-01-02.csv"
    file.parent.mkdir(parents=True)
    file.write_text(
        "payment_id,payer,amount,day,updated_at,more\n"
        "1,Anna,10.50,2026-01-02,2026-01-02T08:00:00Z,x\n"
        "1,Anna,11.00,2026-01-02,2026-01-02T09:00:00Z,x\n"
        "2,,0,2026-01-02,2026-01-02T08:00:00Z,\n"
        "3,Carl,-1,2026-01-02,2026-01-02T08:00:00Z,\n"
    )
    [asset] = loaded(written(tmp_path, PAYMENTS + "  quarantine: {max_share: 0.5}\n"))
    spark = SparkResource(spark=spark_settings.spark, home=str(spark_settings.home))
    with dg.DagsterInstance.ephemeral() as instance:
        house = House(tmp_path, spark, instance, asset)
        assert house.load(2) == [True]
    delta = house.lake.delta(house.lake.table_uri(["payments"]))
    assert delta is not None
    rows = delta.to_pyarrow_table().select(["payment_id", "payer", "amount"]).sort_by("payment_id").to_pylist()
    assert rows == [
        {"payment_id": 1, "payer": "Anna", "amount": Decimal("11.00")},
        {"payment_id": 2, "payer": None, "amount": Decimal("0.00")},
    ]


@pytest.mark.slow
def test_dg_knows_the_component_and_checks_its_files(
    location: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, spark_url: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INCLOAD_SPARK", spark_url)
    monkeypatch.setenv("INCLOAD_SAMPLES", "false")
    location.parents[2].joinpath("definitions.py").write_text(
        "from incload_assets.code_location import project_definitions\n\ndefs = project_definitions(__file__)\n"
    )

    def dg_says(*command: str, fails: bool = False) -> str:
        answer = CliRunner().invoke(create_dg_cli(), list(command))
        assert (answer.exit_code != 0) == fails, answer.output
        return answer.output

    assert "incload_assets.IncrementalTable" in dg_says("list", "components")
    assert '"partitions_def"' in dg_says("utils", "inspect-component", "incload_assets.IncrementalTable")
    dg_says("scaffold", "defs", "incload_assets.IncrementalTable", "orders")
    assert "validated successfully" in dg_says("check", "yaml")
    location.parents[1].joinpath("orders", "defs.yaml").unlink()  # dg looks at one file of a component
    (tmp_path / "sales_2026-01-05.csv").write_text("sale,amount,updated_at\n1,2.50,2026-01-05T09:00:00Z\n")
    dg_says("scaffold", "defs", "incload_assets.IncrementalTable", "sales", "--rows", "sales_2026-01-05.csv")
    sales = location.parents[1].joinpath("sales", "defs.yaml")
    assert "\n      sale: bigint\n" in sales.read_text()
    sales.unlink()
    location.write_text(PAYMENTS.replace("keys: [payment_id]", "key: [id]"))
    said = dg_says("check", "yaml", fails=True)
    assert re.search(
        rf"{location}:20 - .*attributes.changes.key .*'one of the keys keys, sequence_by, .*' was expected", said
    )
    location.write_text(PAYMENTS.replace("keys: [payment_id]", "keys: [id]"))
    check = [str(Path(sys.executable).with_name("dg")), "check", "defs"]  # loads the location in processes of its own
    answer = subprocess.run(check, env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True)
    assert answer.returncode == 1
    assert f"{location}:20: payments: changes.keys names 'id'" in answer.stdout + answer.stderr
