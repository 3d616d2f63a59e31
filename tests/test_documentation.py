"""The documentation: its examples work, and what its pages point to is there."""

import ast
import inspect
import json
import re
import shlex
import subprocess
import tomllib
from datetime import UTC, datetime, timedelta
from inspect import isclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pandera.pyspark as pa
import pyspark.sql.types as T
import pytest
import typer
from dagster._cli import create_dagster_cli
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from typer.core import TyperGroup

from incload_assets import assets
from incload_assets.assets import Changes, derived_asset, incremental_asset
from incload_assets.assets.incremental import table_of
from incload_assets.automation.check_jobs import JOB_OF
from incload_assets.checks import LIGHT_CHECKS, TABLE_CHECKS
from incload_assets.cli.program import program
from incload_assets.declaration.source import Source
from incload_assets.declaration.table import Table
from incload_assets.declaration.write import Write
from incload_assets.maintenance import JOBS
from incload_assets.platform.errors import ContractViolation
from incload_assets.platform.lake import Lake
from incload_assets.platform.settings import Settings
from tests.component.files import loaded, reported, written
from tests.support.documents import DOCS, PAGES, PROJECT, README, Page, documented_block
from tests.support.guest_table import job_of

COMMANDS = typer.main.get_command(program)
OF_THE_SYSTEM = {"df", "du", "kafka-acls.sh", "openssl", "pg_isready"}
"""Programs of the operating system, of OpenSSL, PostgreSQL and Kafka that a page may call."""
LANGUAGES = {"sh", "python", "csv", "text", "sql", "json", "yaml"}
"""SQL is run, and JSON given to an account, by the tests of privileges."""
FIRST, SECOND = dg.DailyPartitionsDefinition("2026-01-01"), dg.HourlyPartitionsDefinition("2026-01-01-00:00")

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


class DailySales(pa.DataFrameModel):
    """For the example of a derived table."""

    order_date: T.DateType = pa.Field(nullable=False)
    country: T.StringType = pa.Field(nullable=False)
    amount: T.DecimalType = pa.Field(dtype_kwargs={"precision": 12, "scale": 2})


class Customer(pa.DataFrameModel):
    """Another table that it is made of."""

    customer_id: T.LongType = pa.Field(nullable=False)
    country: T.StringType = pa.Field(nullable=False)
    seq: T.LongType = pa.Field(nullable=False)


class CdcOrder(pa.DataFrameModel):
    """For the example of Debezium."""

    id: T.LongType = pa.Field(nullable=False)
    cdc_sequence: T.StringType = pa.Field(nullable=False)


class CdcItem(CdcOrder):
    """For the example of Debezium with MariaDB."""

    changed_at: T.TimestampType = pa.Field(nullable=True)
    clock: T.StringType = pa.Field(nullable=True)
    total: T.DecimalType = pa.Field(nullable=True, dtype_kwargs={"precision": 20, "scale": 0})


class Stock(pa.DataFrameModel):
    """For the example of several sources."""

    sku: T.StringType = pa.Field(nullable=False)
    as_of: T.TimestampType = pa.Field(nullable=False)


@incremental_asset(
    partitions_def=FIRST,
    source=assets.Files("{landing}/customers/{window:%Y-%m-%d}.json"),
    contract=Customer,
    changes=Changes(keys="customer_id", sequence_by="seq"),
)
def customers(changes: DataFrame) -> DataFrame:
    """Customers."""
    return changes


def given() -> dict[str, Any]:
    """What the examples of a page take as given."""
    own = {name: getattr(assets, name) for name in assets.__all__}
    return {
        **own,
        **{model.__name__: model for model in (DailySales, CdcOrder, CdcItem, Stock)},
        **{"dg": dg, "F": F, "T": T, "pa": pa, "DataFrame": DataFrame, "timedelta": timedelta},
        **{"DAYS": FIRST, "HOURS": SECOND, "customers": customers, "__name__": "documentation"},
    }


def executed(containing: str) -> dict[str, Any]:
    """The names that a block of Python defines."""
    names = given()
    exec(compile(documented_block("python", containing), "a page", "exec"), names)
    return names


def parse(arguments: list[str]) -> None:
    """Read the arguments of ``incload`` as it reads them, and do nothing."""
    context = COMMANDS.make_context("incload", list(arguments))
    while isinstance(context.command, TyperGroup):
        rest = [*context._protected_args, *context.args]
        name, command, rest = context.command.resolve_command(context, rest)
        assert command is not None and name is not None
        context = command.make_context(name, rest, parent=context)


def read_by_dagster(arguments: list[str]) -> None:
    """Read the arguments of ``dagster`` as it reads them, and do nothing; it is a program of click."""
    command: Any = create_dagster_cli()
    context = command.make_context("dagster", list(arguments))
    while hasattr(command, "commands"):
        name, command, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        context = command.make_context(name, rest, parent=context)


@each_page
def test_links_pictures_and_anchors_are_there(page: Page) -> None:
    anchors = {other.path: other.anchors for other in PAGES}
    missing = []
    for link in page.links:
        if re.match(r"https?://", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.path.parent / path).resolve() if path else page.path
        if not target.is_file() or (anchor and anchor not in anchors.get(target, ())):
            missing.append(link)
    assert missing == []


def test_every_picture_is_shown_and_small() -> None:
    pictures = set((DOCS / "pictures").glob("*.png"))
    shown = {(page.path.parent / link).resolve() for page in PAGES for link in page.links if link.endswith(".png")}
    assert shown == pictures
    assert max(picture.stat().st_size for picture in pictures) < 200_000


@each_page
def test_named_files_and_tests_are_there(page: Page) -> None:
    missing = []
    for code in page.code:
        named = re.fullmatch(r"((?:incload_assets|resources|tests)/[\w./]*)(?:::(\w+))?", code)
        if named is None or code == "my_lake/tables/payments.py":  # the reader writes this one
            continue
        path, test = PROJECT / named[1], named[2]
        if not path.exists():
            missing.append(code)
        elif test:
            functions = [node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)]
            missing += [] if test in functions else [code]
    assert missing == []


@each_page
def test_python_examples_run(page: Page, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Declarations are checked by that as they are when the code location is loaded."""
    monkeypatch.setenv("INCLOAD_LANDING", str(tmp_path))
    names = given()
    for block in page.blocks:
        if block.language == "python":
            exec(compile(block.content, page.name, "exec"), names)
    tables = [table_of(value) for value in names.values() if isinstance(value, dg.AssetsDefinition)]
    assert all(isinstance(table, Table) for table in tables)


@each_page
def test_tables_in_yaml_can_be_declared(page: Page, tmp_path: Path) -> None:
    for block in page.blocks:
        if block.language == "yaml" and block.content.startswith("type: incload_assets.IncrementalTable"):
            file = written(tmp_path, block.content)
            assert (reported(file), bool(loaded(file))) == ([], True)


@each_page
def test_commands_can_be_read(page: Page) -> None:
    extras = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for block in page.blocks:
        if block.language == "sh":
            subprocess.run(["sh", "-n"], input=block.content, text=True, check=True)
    for words in (words for block in page.blocks for words in block.commands):
        while re.match(r"INCLOAD_TEST_\w+=", words[0]):
            words = words[1:]
        if words[0] == "export":
            for name, value in (word.split("=", 1) for word in words[1:]):
                assert_setting(name, value)
        elif Path(words[0]).name == "incload":
            parse(words[1:])
        elif words[0] == "dagster":
            read_by_dagster(words[1:])
        elif words[0] in OF_THE_SYSTEM:
            assert len(words) > 1, words
        elif words[0] == ".ci/test":
            assert all((PROJECT / path).exists() for path in words), words
        elif "install" in words:
            assert {extra for word in words for extra in re.findall(r"\.\[(\w+)\]", word)} <= extras.keys(), words
        else:
            assert words[:3] == ["python3", "-m", "venv"] or words == [".", ".venv/bin/activate"], words


def assert_setting(name: str, value: str) -> None:
    """A setting that there is, with a value that it takes."""
    if re.fullmatch(r"INCLOAD_KEY_(CRM|ERASURE)(_FILE)?", name):
        return
    if re.fullmatch(r"INCLOAD_REGISTRY_MAIN_(URL|USER|PASSWORD|TOKEN|CA)", name):
        return
    if named := re.fullmatch(r"INCLOAD_(DATABASE|KAFKA)_(?:WEB)?SHOP_([A-Z]+)(_FILE)?", name):
        assert named[2] in {"DATABASE": ("URL", "USER", "PASSWORD"), "KAFKA": ("SERVERS", "OPTIONS")}[named[1]], name
        assert not named[3] or named[2] in ("PASSWORD", "OPTIONS"), name
        assert named[2] != "OPTIONS" or isinstance(json.loads(value), dict)
        return
    field = name.removeprefix("INCLOAD_").lower()
    assert field in Settings.model_fields, name
    Settings.model_validate({field: json.loads(value) if value.startswith("{") else value})


@each_page
def test_commands_within_the_text_can_be_read(page: Page) -> None:
    for code in page.code:
        if code.startswith("incload ") and "…" not in code:
            words = shlex.split(code)[1:]
            if len(words) > 1:
                parse(words)
            else:  # a command by its name alone
                assert isinstance(COMMANDS, TyperGroup) and words[0] in {"--help", *COMMANDS.commands}, code


def test_the_csv_example_has_the_columns_of_its_contract() -> None:
    [(header, *rows)] = [block.content.splitlines() for block in README.blocks if block.language == "csv"]
    module = next(block.content for block in README.blocks if block.language == "python")
    assert {"payment_id", "payer", "amount", "updated_at"} <= set(header.split(","))
    assert all(f"    {name}: T." in module for name in header.split(",")[:-1])
    assert {row.count(",") for row in rows} == {header.count(",")}


def test_every_block_is_in_a_language_that_is_checked() -> None:
    assert {block.language for page in PAGES for block in page.blocks} == LANGUAGES


def test_every_page_begins_with_its_title_and_a_sentence() -> None:
    for page in PAGES:
        title, _, first = page.text.splitlines()[:3]
        assert re.match(r"# \S", title) and re.match(r"[A-Zi][^|#`]", first), page.name


def test_the_readme_names_every_page() -> None:
    assert {f"incload_assets/docs/{path.name}" for path in DOCS.glob("*.md")} <= set(README.links)


@pytest.mark.parametrize("declared", [incremental_asset, derived_asset, Changes])
def test_everything_that_a_declaration_can_say_is_in_the_tables(declared: Any) -> None:
    page = Page(DOCS / "tables.md")
    named = {word for code in page.code for word in re.findall(r"\w+", code)}
    assert set(inspect.signature(declared).parameters) - {"options"} - named == set()


def test_every_source_and_write_strategy_is_described() -> None:
    named = {word for page in PAGES[1:] for code in page.code for word in re.findall(r"\w+", code)}
    kinds = {
        name for name in assets.__all__ if isclass(kind := getattr(assets, name)) and issubclass(kind, Source | Write)
    }
    assert {*kinds, "incremental_asset", "derived_asset", "staged_json"} - {"Source"} - named == set()


def test_every_check_and_job_is_described_with_its_time() -> None:
    rows = {
        row.split("|")[1].strip().strip("`"): row
        for row in (DOCS / "operating.md").read_text().splitlines()
        if "|" in row
    }
    assert {*LIGHT_CHECKS, *TABLE_CHECKS, "reconciliation"} - rows.keys() == set()
    for job in JOBS:
        minute, hour = job.cron.split()[:2]
        assert f"{hour:>02}:{minute:>02}" in rows[job.name]
    for name in ("uniqueness", "reconciliation"):
        minute, hour = JOB_OF[name].cron.split()[:2]
        assert f"{hour:>02}:{minute:>02}" in rows[name]


@each_page
def test_the_words_are_those_of_the_field(page: Page) -> None:
    odd = re.findall(r"(?i)\b(?:ways? of writing|likewise|those of|of which|at one's)\b", page.text)
    assert odd == []


def test_every_claim_names_what_shows_it() -> None:
    """About us a test, about others their page."""
    page = (DOCS / "compared_with.md").read_text()
    better, differently = (page.split(f"## {title}\n")[1].split("\n## ")[0].splitlines()[3:] for title in
                           ("What they do better", "What incload does differently"))  # fmt: skip
    rows = [row for row in better if row.startswith("| ") and not row.startswith("| Tool")]
    assert rows and all("](" in row.split("|")[3] for row in rows)
    rows = [row for row in differently if row.startswith("| ") and not row.startswith("| Question")]
    assert rows and all("`tests/" in row.split("|")[3] for row in rows)
    assert all("](http" in row.split("|")[4] or "Not described" in row.split("|")[4] for row in rows)


def test_the_source_of_ones_own_is_the_one_that_passes_the_conformance_suite() -> None:
    module = (PROJECT / "tests" / "support" / "http_api.py").read_text()
    assert documented_block("python", "class HttpApi") == module.strip()
    assert len(module.splitlines()) < 60


def test_the_check_of_ones_own_finds_a_silent_source() -> None:
    names = executed("def silence")

    def found(rows: list[int]) -> dg.AssetCheckResult:
        ends = [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=number) for number in range(len(rows))]
        windows = [SimpleNamespace(key=f"{end}", window=SimpleNamespace(end=end)) for end in ends]
        records = {window.key: SimpleNamespace(rows_read=count) for window, count in zip(windows, rows, strict=True)}
        table = SimpleNamespace(key=dg.AssetKey("orders"))
        look = SimpleNamespace(progress=windows, records=records, now=ends[-1], table=table, trouble=None)
        result = names["silence"](look)
        assert isinstance(result, dg.AssetCheckResult)
        return result

    assert not found([5, *[0] * 7]).passed
    assert found([0] * 6).passed and found([*[0] * 6, 3]).passed
    assert found([1] * 9).description == "7 rows in the latest 7 windows."


def test_the_write_strategy_of_ones_own_keeps_a_partition_full() -> None:
    guard = executed("class OverwriteFilled")["OverwriteFilled"](partition_by="day").guard
    context = SimpleNamespace(table=SimpleNamespace(name="orders"))

    def landing(read: int) -> SimpleNamespace:
        before = SimpleNamespace(rows_read=read, rejected=1)
        return SimpleNamespace(before=before, window=SimpleNamespace(key="2026-01-01"))

    guard(context, landing(1), SimpleNamespace(rows=2, rejected=2))
    guard(context, landing(5), SimpleNamespace(rows=3, rejected=2))
    with pytest.raises(ContractViolation, match="orders 2026-01-01: the window has no acceptable row any more"):
        guard(context, landing(5), SimpleNamespace(rows=2, rejected=2))


def test_the_maintenance_job_of_ones_own_observes_each_table(tmp_path: Path) -> None:
    names = executed("MEASURE_TABLES")
    table = table_of(customers)
    assert table is not None
    job = job_of(names["MEASURE_TABLES"], table)
    with dg.DagsterInstance.ephemeral() as instance:
        done = job.execute_in_process(
            instance=instance,
            resources={
                "lake": dg.ResourceDefinition.hardcoded_resource(Lake(str(tmp_path))),
                "spark": dg.ResourceDefinition.none_resource(),
            },
        )
    [event] = [event for event in done.all_events if event.event_type_value == "ASSET_OBSERVATION"]
    observed = event.asset_observation_data.asset_observation
    assert {name: value.value for name, value in observed.metadata.items()} == {"files": 0, "bytes": 0}
    assert names["MEASURE_TABLES"].cron == "30 5 * * 1"
