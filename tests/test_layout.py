"""The shape of the repository, and rules that hold for all of it."""

import ast
import re
import subprocess
import tomllib
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from incload_assets.platform.settings import Settings
from incload_assets.platform.spark.jars import DELTA
from incload_assets.progress import run_tags
from tests.support.documents import PAGES, PROJECT

TOP_LEVEL = {
    "LICENSE",
    "README.md",
    "constraints.txt",
    "dagster_cloud.yaml",
    "incload_assets",
    "pyproject.toml",
    "resources",
    "tests",
    "workspace.yaml",
}
REGISTRY_HOST = re.compile(
    r"\b(?:[\w-]+\.)*(?:"
    + "|".join(["pypi", "pythonhosted", "npmjs", "npmmirror", "debian", "ubuntu", "maven"])
    + r")\.(?:org|com|net|io)\b|\brepo1?\.maven\b|\bmaven\.apache\b|\bproxy\.golang\b|--(?:extra-)?index-url"
)
ON_THE_LOAD_PATH = (
    "assets", "maintenance", "load", "writes", "ingest", "change_log", "protection", "sources", "declaration",
    "contract", "delta",
)  # fmt: skip
ROWS_OUT_OF_SPARK = {
    "collect",
    "toPandas",
    "toArrow",
    "toLocalIterator",
    "foreach",
    "foreachPartition",
    "udf",
    "pandas_udf",
    "mapInPandas",
    "mapInArrow",
    "applyInPandas",
    "rdd",
    "sparkContext",
    "_jvm",
    "_jdf",
}

ROOMS = (
    "incload_assets.cli",
    "incload_assets.cli.commands",
    "incload_assets.cli.support",
    "incload_assets.definitions",
    "resources",
    "incload_assets.code_location",
    "incload_assets.component",
    "incload_assets.tables",
    "incload_assets.shop",
    "incload_assets.assets",
    "incload_assets.monitoring.readiness",
    "incload_assets.monitoring.dashboard",
    "incload_assets.monitoring.prometheus",
    "incload_assets.monitoring.telemetry",
    "incload_assets.monitoring",
    "incload_assets.quarantine",
    "incload_assets.erasure",
    "incload_assets.restore",
    "incload_assets.what_if",
    "incload_assets.inference",
    "incload_assets.trial",
    "incload_assets.history",
    "incload_assets.automation",
    "incload_assets.runs",
    "incload_assets.checks",
    "incload_assets.maintenance",
    "incload_assets.load",
    "incload_assets.writes",
    "incload_assets.ingest",
    "incload_assets.progress",
    "incload_assets.change_log",
    "incload_assets.protection",
    "incload_assets.sources.debezium",
    "incload_assets.sources.kafka",
    "incload_assets.sources.database",
    "incload_assets.sources.upstream",
    "incload_assets.sources",
    "incload_assets.sources.files",
    "incload_assets.declaration",
    "incload_assets.delta",
    "incload_assets.contract",
    "incload_assets.platform.samples",
    "incload_assets.platform.spark",
    "incload_assets.platform.local_servers",
    "incload_assets.platform",
)
"""The rooms from top to bottom: a file imports only its own room and rooms below it."""
FLOORS = 13
"""The longest way down, from room to room; rooms of one kind of source are one here."""
TESTS_OF_ROOMS = {
    "incload_assets": ("test_definitions.py",),
    "incload_assets/assets": ("load/test_load.py", "checks/test_with_loads.py"),
    "incload_assets/automation": ("automation/test_window_requests.py",),
    "incload_assets/change_log": ("load/test_load.py", "mutations/test_laws.py"),
    "incload_assets/checks": ("checks/test_definitions.py", "checks/test_reconciliation.py"),
    "incload_assets/cli": ("cli/test_help.py",),
    "incload_assets/cli/commands": ("cli/test_commands.py",),
    "incload_assets/cli/support": ("cli/test_commands.py", "cli/test_dev.py"),
    "incload_assets/component": ("component/test_incremental_table.py", "component/test_mistakes.py"),
    "incload_assets/contract": ("contract/test_contract.py",),
    "incload_assets/declaration": ("declaration/test_declared_names.py", "declaration/test_field_types.py"),
    "incload_assets/delta": ("delta/test_tables.py", "mutations/test_laws.py"),
    "incload_assets/erasure": ("erasure/test_erase.py",),
    "incload_assets/history": ("history/test_collect.py", "history/test_row_trace.py"),
    "incload_assets/inference": ("inference/test_rules.py", "inference/test_infer.py"),
    "incload_assets/ingest": ("load/test_load.py", "ingest/test_gains.py"),
    "incload_assets/load": ("load/test_load.py", "model/test_real_steps.py"),
    "incload_assets/monitoring": ("history/test_collect.py", "monitoring/test_slis.py"),
    "incload_assets/monitoring/dashboard": ("monitoring/dashboard/test_page.py",),
    "incload_assets/monitoring/prometheus": ("monitoring/prometheus/test_prometheus.py",),
    "incload_assets/monitoring/readiness": ("monitoring/readiness/test_readiness.py",),
    "incload_assets/monitoring/telemetry": ("monitoring/telemetry/test_emitters.py",),
    "incload_assets/platform": ("platform/test_settings.py", "platform/test_failures.py"),
    "incload_assets/platform/dialects": ("platform/test_databases.py", "sources/database/test_query_by_time.py"),
    "incload_assets/platform/local_servers": ("platform/spark/test_server.py",),
    "incload_assets/platform/object_stores": (
        "platform/object_stores/test_azure.py",
        "platform/object_stores/test_google.py",
        "platform/object_stores/test_known.py",
    ),
    "incload_assets/platform/samples": ("platform/samples/test_database.py", "platform/samples/test_topics.py"),
    "incload_assets/platform/spark": ("platform/spark/test_server.py", "platform/spark/test_resource.py"),
    "incload_assets/progress": ("progress/test_status.py", "checks/test_rollback.py"),
    "incload_assets/protection": ("protection/test_encrypted.py", "erasure/test_erase.py"),
    "incload_assets/quarantine": ("quarantine/test_decide.py", "load/test_replay.py"),
    "incload_assets/restore": ("restore/test_rebuild.py", "restore/test_adopt.py"),
    "incload_assets/runs": ("runs/test_warm_runs.py", "runs/test_warm_commands.py"),
    "incload_assets/shop": ("shop/test_shop.py", "shop/test_loaded.py"),
    "incload_assets/sources": ("sources/test_source_conformance.py",),
    "incload_assets/sources/debezium": ("sources/debezium/test_debezium.py", "sources/debezium/test_types.py"),
    "incload_assets/sources/files": ("sources/files/test_detection.py", "sources/files/test_reading.py"),
    "incload_assets/sources/kafka": ("sources/kafka/test_kafka.py",),
    "incload_assets/sources/database": ("sources/database/test_query_by_time.py", "sources/database/test_errors.py"),
    "incload_assets/sources/upstream": ("sources/upstream/test_tables.py",),
    "incload_assets/tables/retail": ("shop/test_loaded.py",),
    "incload_assets/trial": ("trial/test_without_spark.py", "trial/test_with_spark.py"),
    "incload_assets/what_if": ("what_if/test_preview.py", "what_if/test_shadow.py"),
    "incload_assets/writes": ("writes/test_conformance.py", "mutations/test_laws.py"),
}
"""Where modules without a test file of their name are tested; paths below ``tests``."""


@pytest.fixture(scope="module")
def files() -> list[Path]:
    """Every file that is tracked, or would be."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [Path(line) for line in listed.stdout.splitlines() if (PROJECT / line).is_file()]


@dataclass(frozen=True)
class Import:
    """A module of this project that a file imports."""

    file: Path
    module: str
    target: str
    line: int
    hidden: bool
    said: bool


@pytest.fixture(scope="module")
def imports(files: list[Path]) -> list[Import]:
    """All of them, also within functions and under ``TYPE_CHECKING``."""
    sources = {
        file: (PROJECT / file).read_text() for file in files if file.suffix == ".py" and file.parts[0] != "tests"
    }
    modules = {_module(file) for file in sources}
    found = []
    for file, source in sources.items():
        tree, lines = ast.parse(source), source.splitlines()
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            if isinstance(node, ast.ImportFrom):
                names = [
                    f"{node.module}.{name}" if f"{node.module}.{name}" in modules else node.module or ""
                    for name in names
                ]
            for name in {name for name in names if name in modules}:
                assert isinstance(node, ast.Import | ast.ImportFrom)
                said = any("#" in line for line in lines[node.lineno - 1 : node.end_lineno])
                found.append(Import(file, _module(file), name, node.lineno, node.col_offset > 0, said))
    return found


def _module(file: Path) -> str:
    return ".".join(file.with_suffix("").parts).removesuffix(".__init__")


def _room(module: str) -> str:
    if module == "incload_assets":
        return "incload_assets.component"  # exports it
    return max((room for room in ROOMS if f"{module}.".startswith(f"{room}.")), key=len)


def _storey(module: str) -> str:
    return ".".join(module.split(".")[:2])


@pytest.fixture(scope="module")
def project() -> dict[str, dict[str, object]]:
    return tomllib.loads((PROJECT / "pyproject.toml").read_text())


def test_the_top_level_holds_the_agreed_names_and_dot_files_only(files: list[Path]) -> None:
    assert {file.parts[0] for file in files if not file.parts[0].startswith(".")} == TOP_LEVEL


def test_no_file_names_the_host_of_a_package_registry(files: list[Path]) -> None:
    found = {
        f"{file}: {match.group()}"
        for file in files
        for match in REGISTRY_HOST.finditer((PROJECT / file).read_bytes().decode(errors="ignore"))
        if file.name != "test_layout.py"
    }
    assert found == set()


def test_rows_stay_in_spark_on_the_load_path(files: list[Path]) -> None:
    found = {
        f"{file}:{node.lineno}: {node.attr}"
        for file in files
        if file.suffix == ".py" and any(file.is_relative_to(f"incload_assets/{room}") for room in ON_THE_LOAD_PATH)
        for node in ast.walk(ast.parse((PROJECT / file).read_text()))
        if isinstance(node, ast.Attribute) and node.attr in ROWS_OUT_OF_SPARK
    }
    assert found == set()


def test_rows_of_the_lake_are_chosen_by_values_in_one_place(files: list[Path]) -> None:
    """A dataset of deltalake leaves out files by statistics that prove nothing; see ``platform/lake_rows.py``."""
    of_deltalake = re.compile(r"to_pyarrow_dataset|QueryBuilder|to_pyarrow_table\([^)]*\b(?:filters|partitions)=")
    chosen = [
        str(path)
        for path in files
        if path.suffix == ".py" and path.parts[0] in ("incload_assets", "resources") and path.name != "lake_rows.py"
        if of_deltalake.search(path.read_text())
    ]
    assert not chosen, f"use rows_where of incload_assets.platform.lake_rows instead of deltalake's datasets: {chosen}"


def test_one_module_spells_the_tags_of_runs(files: list[Path]) -> None:
    names = {value for value in vars(run_tags).values() if isinstance(value, str) and re.fullmatch(r"\w+/\w+", value)}
    assert len(names) > 15
    spelled = {
        f"{file}:{node.lineno}: {node.value}"
        for file in files
        if file.suffix == ".py" and file.parts[0] in ("incload_assets", "resources") and file.name != "run_tags.py"
        for node in ast.walk(ast.parse((PROJECT / file).read_text()))
        if isinstance(node, ast.Constant) and node.value in names
    }
    assert spelled == set()


def test_a_file_imports_only_its_own_room_and_rooms_below_it(imports: list[Import]) -> None:
    floor = {room: number for number, room in enumerate(ROOMS)}
    upwards = {
        f"{i.file}:{i.line} imports {i.target}" for i in imports if floor[_room(i.module)] > floor[_room(i.target)]
    }
    assert upwards == set()


def test_no_two_files_import_each_other_by_whatever_way(imports: list[Import]) -> None:
    graph: dict[str, set[str]] = {}
    for i in imports:
        if i.module != i.target:
            graph.setdefault(i.module, set()).add(i.target)
    tuple(TopologicalSorter(graph).static_order())  # raises CycleError, which names the files


def test_the_way_from_the_top_room_to_the_lowest_has_few_floors(imports: list[Import]) -> None:
    rooms: dict[str, set[str]] = {}
    for i in imports:
        above, below = _storey(i.module), _storey(i.target)
        if above != below:
            rooms.setdefault(above, set()).add(below)
    floors: dict[str, int] = {}
    for room in TopologicalSorter(rooms).static_order():
        floors[room] = 1 + max((floors[below] for below in rooms.get(room, ())), default=0)
    assert max(floors.values()) <= FLOORS


def test_an_import_within_a_function_spares_the_start_of_a_command_or_says_what_it_spares(
    imports: list[Import],
) -> None:
    hidden = {f"{i.file}:{i.line}" for i in imports if i.hidden and not i.said}
    assert hidden == set()


def test_a_page_says_what_each_folder_is_for() -> None:
    page = (PROJECT / "incload_assets" / "docs" / "how_to_extend.md").read_text()
    places = page.partition("## Where things are")[2].partition("\n## ")[0]
    folders = {folder.parent.name for folder in (PROJECT / "incload_assets").glob("*/__init__.py")}
    assert set(re.findall(r"`(\w+)/`", places)) - {"commands", "support", "resources"} == folders


def test_one_module_imports_what_dagster_does_not_export(files: list[Path]) -> None:
    private = re.compile(r"^\s*(?:from|import) dagster\w*(?:\.\w+)*\._", re.MULTILINE)
    found = {str(file) for file in files if file.suffix == ".py" and file.parts[0] != "tests"
             if private.search((PROJECT / file).read_text())}  # fmt: skip
    assert found == {"incload_assets/platform/dagster_private.py"}


def test_no_import_is_for_types_alone(files: list[Path]) -> None:
    sources = [file for file in files if file.suffix == ".py" and file.parts[0] in ("incload_assets", "resources")]
    assert [file for file in sources if "TYPE_CHECKING" in (PROJECT / file).read_text()] == []


def test_every_module_has_a_test_of_its_name_or_a_room_whose_tests_are_named(files: list[Path]) -> None:
    assert [
        test for tests in TESTS_OF_ROOMS.values() for test in tests if not (PROJECT / "tests" / test).is_file()
    ] == []
    alone = set()
    for file in files:
        if file.suffix == ".py" and file.parts[0] in ("incload_assets", "resources") and file.stem[:2] != "__":
            test = Path("tests", *file.parts[file.parts[0] == "incload_assets" : -1], f"test_{file.name}")
            if test not in files:
                alone.add(str(file.parent))
    assert alone == TESTS_OF_ROOMS.keys()


def test_every_dependency_has_one_tested_version(project: dict[str, dict[str, object]]) -> None:
    pins = [line for line in (PROJECT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert [pin for pin in pins if not re.fullmatch(r"[\w.-]+==[\w.!]+", pin)] == []
    pinned = {_normal(pin.partition("==")[0]) for pin in pins}
    extras = project["project"]["optional-dependencies"]
    assert isinstance(extras, dict)
    wanted = [*project["project"]["dependencies"], *(name for extra in extras.values() for name in extra)]  # type: ignore[misc]
    assert {
        _normal(re.split(r"[\[<>=~! ]", name)[0]) for name in wanted if not name.startswith("incload[")
    } - pinned == set()


def test_the_jar_and_the_package_of_delta_have_one_version(project: dict[str, dict[str, object]]) -> None:
    [jar] = DELTA
    assert f"delta-spark=={jar.rpartition(':')[2]}" in project["project"]["dependencies"]  # type: ignore[operator]


def test_the_package_brings_its_documentation_along(files: list[Path], project: dict[str, dict[str, object]]) -> None:
    patterns = project["tool"]["setuptools"]["package-data"]["incload_assets"]  # type: ignore[index]
    brought = {
        found.relative_to(PROJECT) for pattern in patterns for found in (PROJECT / "incload_assets").glob(pattern)
    }
    assert {file for file in files if file.suffix != ".py" and file.parts[0] == "incload_assets"} - brought == set()


def test_the_engine_imports_nothing_from_the_resources_of_a_code_location(imports: list[Import]) -> None:
    assert {i.module for i in imports if i.target.startswith("resources")} == {"incload_assets.definitions"}


def test_the_documentation_lists_every_setting() -> None:
    text = "\n".join(page.text for page in PAGES)
    listed = set(re.findall(r"^\| `(INCLOAD_\w+)` \|[^|]*\| \S", text, re.MULTILINE))
    assert listed == {f"INCLOAD_{name.upper()}" for name in Settings.model_fields} | {"INCLOAD_SHOP_OPENED"}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
