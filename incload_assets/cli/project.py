"""The folder, the Dagster instance and the tables that commands work with: those of ``dagster dev``."""

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
    """The code location with its instance.

    Args:
        definitions: Everything in it.
        instance: Where runs and checkpoints are.
        tables: The incremental tables by name.
    """

    definitions: "dg.Definitions"
    instance: "dg.DagsterInstance"
    tables: "dict[str, Table]"

    def table(self, name: str) -> "Table":
        """The table of this name.

        Raises:
            IncrementalLoadError: There is none; the message names those there are.
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
    """Work where ``dagster dev`` works: in the project's folder, with its ``.env`` and its ``DAGSTER_HOME``.

    Relative paths in settings mean the same here and there then.

    Returns:
        The project's folder.

    Raises:
        IncrementalLoadError: This is no project's folder.
    """
    here = Path.cwd()
    package = Path(__file__).resolve().parents[2]
    root = next((folder for folder in (here, *here.parents, package) if (folder / "workspace.yaml").is_file()), None)
    if root is None:
        raise IncrementalLoadError(
            f"there is no workspace.yaml in {here} or above it",
            rule="incload works in the folder of a code location",
            remedy="change into it and try again",
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
            remedy="write it from the root on, or unset it",
        )
    home.mkdir(parents=True, exist_ok=True)
    return root


@contextmanager
def open_project() -> Iterator[Project]:
    """The project of the current folder, with its instance open for the block.

    Raises:
        IncrementalLoadError: This is no project's folder, or a table of it is declared wrongly.
    """
    enter_project()
    import dagster as dg

    # who loads a table need not hear which parts of Dagster are new
    warnings.simplefilter("ignore", dg.BetaWarning)
    warnings.simplefilter("ignore", dg.PreviewWarning)
    from incload_assets.assets.incremental import table_of
    from incload_assets.definitions import defs

    declared = (table_of(asset) for asset in defs.get_repository_def().assets_defs_by_key.values())
    tables = {table.name: table for table in declared if table is not None}
    with dg.DagsterInstance.get() as instance:
        yield Project(defs, instance, tables)
