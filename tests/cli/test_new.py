"""A project of one's own: made by ``incload new`` and used with the package as it is installed."""

import ast
import os
import re
import zipfile
from pathlib import Path

import pytest

from incload_assets.cli.support.scaffold import make_project
from incload_assets.platform.errors import IncrementalLoadError
from tests.support.installed import Installed, installed
from tests.support.project_copy import readme_files

__all__ = ["installed"]


@pytest.mark.parametrize(
    ("name", "suggested"), [("My Lake", "my_lake"), ("2lakes", "lake_2lakes"), ("class", "lake_class"), ("é", "lake")]
)
def test_a_name_that_no_package_can_have_is_refused_with_one_that_it_can(
    tmp_path: Path, name: str, suggested: str
) -> None:
    with pytest.raises(IncrementalLoadError, match=rf"cannot be named '{name}'.*Remedy: try {suggested}\."):
        make_project(tmp_path / name, sample=False)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["dagster", "tests", "json"])
def test_a_name_that_would_hide_an_installed_package_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(IncrementalLoadError, match=f"cannot be named '{name}'.*try {name}_lake"):
        make_project(tmp_path / name, sample=False)


def test_no_file_is_overwritten_and_none_is_written_where_one_would_be(tmp_path: Path) -> None:
    (tmp_path / "my_lake").mkdir()
    (tmp_path / "my_lake" / "README.md").write_text("mine")
    with pytest.raises(IncrementalLoadError, match=r"README\.md is there already"):
        make_project(tmp_path / "my_lake", sample=True)
    assert [(path.name, path.read_text()) for path in (tmp_path / "my_lake").iterdir()] == [("README.md", "mine")]


def test_a_project_is_made_around_what_is_there_and_named_after_its_folder(tmp_path: Path) -> None:
    (tmp_path / "my-lake" / ".git").mkdir(parents=True)
    made = make_project(tmp_path / "my-lake", sample=False)
    assert tmp_path / "my-lake" / "my_lake" / "definitions.py" in made
    definitions = ast.parse((tmp_path / "my-lake" / "my_lake" / "definitions.py").read_text())
    assert len(definitions.body) == 3  # docstring, import, call


def test_the_sample_is_the_table_of_the_readme(tmp_path: Path) -> None:
    make_project(tmp_path / "my_lake", sample=True)
    made = (tmp_path / "my_lake" / "my_lake" / "tables" / "payments.py").read_text()
    [start] = re.findall(r'DailyPartitionsDefinition\("([^"]+)"', made)
    assert made == readme_files()["my_lake/tables/payments.py"].replace("2026-01-01", start)
    assert made in (tmp_path / "my_lake" / "AGENTS.md").read_text()


def test_a_wheel_brings_one_top_level_package_into_other_environments(installed: Installed) -> None:
    [wheel] = (installed.root / "dist").glob("*.whl")
    tops = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"incload_assets"}


def test_a_command_outside_of_any_project_says_how_to_make_one(installed: Installed, tmp_path: Path) -> None:
    done = installed.run("incload", "status", folder=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"Error: there is no project in {tmp_path} or above it. Rule: ")
    assert "make one: `incload new my_lake`" in done.stderr


@pytest.mark.slow
def test_a_new_project_loads_its_sample_and_passes_the_checks_of_dagster_and_its_own(
    installed: Installed, tmp_path: Path, spark_url: str
) -> None:
    made = installed.run("incload", "new", "my_lake", "--sample", folder=tmp_path)
    assert (made.returncode, made.stderr) == (0, "")
    project = tmp_path / "my_lake"

    loaded = installed.run("incload", "load", "payments", "--all-missing", folder=project, INCLOAD_SPARK=spark_url)
    assert (loaded.returncode, loaded.stderr) == (0, "")
    assert "6 read, 1 inserted" in loaded.stdout or "6 read, 2 inserted" in loaded.stdout  # today may be a new day

    checked = installed.run("dg", "check", "defs", folder=project)
    assert "All definitions loaded successfully." in checked.stdout, checked.stdout + checked.stderr
    listed = installed.run("dg", "list", "defs", "--json", folder=project)
    assert '"watch_sources"' in listed.stdout
    launched = installed.run(
        *("dg", "launch", "--assets", "payments", "--partition"),
        sorted(file.stem for file in (project / ".incload/landing/payments").iterdir())[0],
        folder=project,
        INCLOAD_SPARK=spark_url,
    )
    assert launched.returncode == 0, launched.stdout + launched.stderr
    tested = installed.run("pytest", "-q", folder=project)
    assert tested.returncode == 0, tested.stdout
