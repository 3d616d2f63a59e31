"""The project around a folder, by the files that describe it."""

from pathlib import Path

import pytest

from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.project_files import find_project

DG = 'directory_type = "project"\n[project]\nroot_module = "of_dg"\n'
WORKSPACE = "load_from:\n  - grpc_server: {port: 1}\n  - python_module: {module_name: of.workspace, attribute: all}\n"


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    return folder


@pytest.mark.parametrize(
    ("files", "module", "attribute"),
    [
        ({"pyproject_toml": '[tool.dg.project]\nroot_module = "a"\n'}, "a.definitions", None),
        (
            {"pyproject_toml": '[tool.dg.project]\nroot_module = "a"\ncode_location_target_module = "a.all"\n'},
            "a.all",
            None,
        ),
        ({"pyproject_toml": '[tool.dagster]\nmodule_name = "b"\n', "dg_toml": DG}, "b", None),
        (
            {"pyproject_toml": '[project]\nname = "c"\n', "dg_toml": DG, "workspace_yaml": WORKSPACE},
            "of_dg.definitions",
            None,
        ),
        ({"pyproject_toml": '[project]\nname = "c"\n', "workspace_yaml": WORKSPACE}, "of.workspace", "all"),
        ({"workspace_yaml": "load_from:\n  - python_module: d.defs\n"}, "d.defs", None),
    ],
)
def test_the_module_is_the_one_that_dagster_loads(
    tmp_path: Path, files: dict[str, str], module: str, attribute: str | None
) -> None:
    below = write(tmp_path, **files) / "a" / "folder"
    below.mkdir(parents=True)
    found = find_project(below)
    assert (found.root, found.module, found.attribute) == (tmp_path, module, attribute)


def test_the_nearest_project_is_taken_and_a_folder_that_is_none_is_passed(tmp_path: Path) -> None:
    write(tmp_path, dg_toml=DG)
    inner = write(tmp_path / "inner", pyproject_toml='[tool.dg.project]\nroot_module = "inner"\n')
    # what has no code location that is a module: another tool's file, a workspace of dg, an empty one of Dagster
    below = write(
        inner / "below", pyproject_toml="[tool.ruff]\n", dg_toml='directory_type = "workspace"\n', workspace_yaml=""
    )
    assert find_project(below).module == "inner.definitions"
    assert find_project(tmp_path).module == "of_dg.definitions"


@pytest.mark.parametrize("name", ["pyproject_toml", "dg_toml", "workspace_yaml"])
def test_a_file_that_cannot_be_read_is_named_and_no_other_project_is_taken(tmp_path: Path, name: str) -> None:
    write(tmp_path, dg_toml=DG)
    with pytest.raises(
        IncrementalLoadError, match=rf"{name.replace('_', '.')} cannot be read: .*Remedy: mend the file"
    ):
        find_project(write(tmp_path / "inner", **{name: "[a: {"}))
    with pytest.raises(IncrementalLoadError, match=r"dg.toml cannot be read: 'int' object has no attribute 'get'"):
        find_project(write(tmp_path / "odd", dg_toml="project = 1"))
