"""The shape of the repository, and rules that hold for all of it."""

import ast
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from resources.jars import DELTA
from resources.settings import Settings
from tests.documents import PAGES, PROJECT

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
        if file.suffix == ".py" and file.is_relative_to("incload_assets/loading")
        for node in ast.walk(ast.parse((PROJECT / file).read_text()))
        if isinstance(node, ast.Attribute) and node.attr in ROWS_OUT_OF_SPARK
    }
    assert found == set()


def test_dagster_dev_reads_workspace_yaml(project: dict[str, dict[str, object]]) -> None:
    """With a section of Dagster's own in pyproject.toml it would not."""
    assert project["tool"].keys().isdisjoint({"dg", "dagster"})


def test_every_dependency_has_one_tested_version(project: dict[str, dict[str, object]]) -> None:
    pins = [line for line in (PROJECT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert [pin for pin in pins if not re.fullmatch(r"[\w.-]+==[\w.]+", pin)] == []
    pinned = {_normal(pin.partition("==")[0]) for pin in pins}
    extras = project["project"]["optional-dependencies"]
    assert isinstance(extras, dict)
    wanted = [*project["project"]["dependencies"], *(name for extra in extras.values() for name in extra)]  # type: ignore[misc]
    assert {_normal(re.split(r"[\[<>=~! ]", name)[0]) for name in wanted} - pinned == set()


def test_the_jar_and_the_package_of_delta_have_one_version(project: dict[str, dict[str, object]]) -> None:
    [jar] = DELTA
    assert f"delta-spark=={jar.rpartition(':')[2]}" in project["project"]["dependencies"]  # type: ignore[operator]


def test_the_package_brings_its_documentation_along(files: list[Path], project: dict[str, dict[str, object]]) -> None:
    patterns = project["tool"]["setuptools"]["package-data"]["incload_assets"]  # type: ignore[index]
    brought = {
        found.relative_to(PROJECT) for pattern in patterns for found in (PROJECT / "incload_assets").glob(pattern)
    }
    assert {file for file in files if file.suffix != ".py" and file.parts[0] == "incload_assets"} - brought == set()


def test_the_documentation_lists_every_setting() -> None:
    text = "\n".join(page.text for page in PAGES)
    listed = set(re.findall(r"^\| `(INCLOAD_\w+)` \|[^|]*\| \S", text, re.MULTILINE))
    assert listed == {f"INCLOAD_{name.upper()}" for name in Settings.model_fields} | {"INCLOAD_SHOP_OPENED"}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
