"""The folder, the Dagster instance and the tables that commands work with, the same as for ``dagster dev``."""

import difflib
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from resources.errors import IncrementalLoadError

if TYPE_CHECKING:  # Dagster takes seconds to import, which `--help` should not
    import dagster as dg

    from incload_assets.declaration.table import Table


@dataclass(frozen=True)
class Project:
    """The code location with its Dagster instance.

    Args:
        definitions: All definitions of the code location.
        instance: The instance with runs and checkpoints.
        tables: The incremental tables by name.
    """

    definitions: "dg.Definitions"
    instance: "dg.DagsterInstance"
    tables: "dict[str, Table]"

    def table(self, name: str) -> "Table":
        """The table with the given name.

        Raises:
            IncrementalLoadError: There is no such table; the message names the existing ones.
        """
        if name in self.tables:
            return self.tables[name]
        close = difflib.get_close_matches(name, self.tables, n=1)
        raise IncrementalLoadError(
            f"there is no table {name!r}",
            rule=f"the tables are {', '.join(sorted(self.tables)) or 'none yet'}",
            remedy=f"write {close[0]!r}" if close else "name one of them",
        )


def enter_project() -> Path:
    """Changes into the project's folder and loads its ``.env`` and ``DAGSTER_HOME``, as ``dagster dev`` does.

    So relative paths in settings have the same meaning in both.

    Returns:
        The project's folder.

    Raises:
        IncrementalLoadError: The current folder is not in a project.
    """
    here = Path.cwd()
    package = Path(__file__).resolve().parents[2]
    root = next((folder for folder in (here, *here.parents, package) if (folder / "workspace.yaml").is_file()), None)
    if root is None:
        raise IncrementalLoadError(
            f"there is no workspace.yaml in {here} or above it",
            rule="incload works in the folder of a code location",
            remedy="change into such a folder and try again",
        )
    from dotenv import load_dotenv

    os.chdir(root)
    os.environ["PWD"] = str(root)  # the .env writes ${PWD}
    load_dotenv(root / ".env", override=True)  # wins over the environment, as in `dagster dev`
    home = Path(os.environ.setdefault("DAGSTER_HOME", str(root / ".dagster_home")))
    if not home.is_absolute():
        raise IncrementalLoadError(
            f"DAGSTER_HOME is {str(home)!r}",
            rule="it is an absolute path",
            remedy="set the full path, or unset it",
        )
    home.mkdir(parents=True, exist_ok=True)
    return root


@contextmanager
def open_project() -> Iterator[Project]:
    """The project of the current folder, with its instance open for the block.

    Raises:
        IncrementalLoadError: The current folder is not in a project, or a table's declaration is wrong.
    """
    enter_project()
    import dagster as dg

    # warnings about new parts of Dagster are of no use to the user of a command
    warnings.simplefilter("ignore", dg.BetaWarning)
    warnings.simplefilter("ignore", dg.PreviewWarning)
    from incload_assets.assets.incremental import table_of
    from incload_assets.definitions import defs

    declared = (table_of(asset) for asset in defs.get_repository_def().assets_defs_by_key.values())
    tables = {table.name: table for table in declared if table is not None}
    with dg.DagsterInstance.get() as instance:
        yield Project(defs, instance, tables)
