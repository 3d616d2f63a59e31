"""The project around a folder: the files that say which module is the code location, as Dagster reads them."""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from incload_assets.platform.errors import IncrementalLoadError

WORKSPACE = "workspace.yaml"
_NAMES = ("pyproject.toml", "dg.toml", WORKSPACE)


@dataclass(frozen=True)
class ProjectFiles:
    """A project: its folder, the file that describes it, and the module of its code location.

    Attributes:
        root: The folder, which is on the module search path of Dagster's processes.
        file: The file in it that names the module.
        module: The full name of the module, for example ``my_lake.definitions``.
        attribute: The name of its definitions in the module; None: the only ones that it has.
    """

    root: Path
    file: Path
    module: str
    attribute: str | None = None


def find_project(here: Path) -> ProjectFiles:
    """The project of a folder: described in the folder itself or in the nearest one above it.

    In each folder a ``pyproject.toml`` with ``[tool.dagster]`` or ``[tool.dg.project]`` wins over a ``dg.toml``, and
    that over a ``workspace.yaml``, as for ``dagster dev`` and ``dg dev``.

    Raises:
        IncrementalLoadError: There is none, or a file is not valid TOML or YAML.
    """
    for folder in (here, *here.parents):
        for found in _described(folder):
            return found
    raise IncrementalLoadError(
        f"there is no project in {here} or above it",
        rule="a project is a folder with a pyproject.toml that has [tool.dg.project], a dg.toml or a workspace.yaml",
        remedy="change into a project, or make one: `incload new my_lake`",
    )


def _described(folder: Path) -> Iterator[ProjectFiles]:
    for file in (folder / name for name in _NAMES):
        if file.is_file():
            try:
                module, attribute = _named_in(file)
            except Exception as error:  # of two parsers, of what is not text, and of values that are no tables
                raise IncrementalLoadError(
                    f"{file} cannot be read: {' '.join(str(error).split())}",
                    rule="it describes the project",
                    remedy="mend the file",
                ) from error
            if module:
                yield ProjectFiles(folder, file, module, attribute)


def _named_in(file: Path) -> tuple[str | None, str | None]:
    """The module that a file names, and the name of its definitions, if the file says so."""
    if file.name == WORKSPACE:
        import yaml  # here: most projects have none, and the command line begins with this module

        return _in_workspace(yaml.safe_load(file.read_text()) or {})
    return _in_tool(_tools(file)), None


def _tools(file: Path) -> Mapping[str, Any]:
    """The sections of tools in a file of TOML, by the name of the tool."""
    content = tomllib.loads(file.read_text())
    return content.get("tool", {}) if file.name == "pyproject.toml" else {"dg": content}


def _in_tool(tool: Mapping[str, Any]) -> str | None:
    if module := tool.get("dagster", {}).get("module_name"):
        return str(module)
    project = tool.get("dg", {}).get("project", {})
    if root := project.get("root_module"):
        return str(project.get("code_location_target_module", f"{root}.definitions"))
    return None


def _in_workspace(content: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Module and attribute of the first code location that is a module."""
    for entry in content.get("load_from") or []:
        module = entry.get("python_module") if isinstance(entry, Mapping) else None
        if isinstance(module, str):
            return module, None
        if module:
            return module["module_name"], module.get("attribute")
    return None, None


def tables_folder(project: ProjectFiles) -> Path:
    """The folder of the modules that declare a project's tables: that of ``defs_module``, as ``dg`` finds it.

    Raises:
        IncrementalLoadError: There is no such folder.
    """
    declared = {} if project.file.name == WORKSPACE else _tools(project.file).get("dg", {}).get("project", {})
    package = project.module.rpartition(".")[0] or project.module
    module = str(declared.get("defs_module") or f"{declared.get('root_module', package)}.defs")
    below = Path(*module.split("."))
    folders = [project.root / below, project.root / "src" / below]
    for folder in folders:
        if folder.is_dir():
            return folder
    raise IncrementalLoadError(
        f"{project.file} names {module!r} as the package of tables, and there is no folder {folders[0]}",
        rule="tables are modules in the folder of [tool.dg.project] defs_module",
        remedy="make the folder, or correct defs_module",
    )
