"""The folder, the Dagster instance and the tables that commands work with, the same as for ``dagster dev``."""

import difflib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import dagster as dg

from incload_assets.assets.incremental import table_of
from incload_assets.checks.reconciliation import NAME as RECONCILIATION
from incload_assets.cli.support.folder import enter_project
from incload_assets.declaration.table import Table
from resources.errors import IncrementalLoadError


@dataclass(frozen=True)
class Project:
    """The code location with its Dagster instance.

    Args:
        definitions: All definitions of the code location.
        instance: The instance with runs and checkpoints.
        tables: The incremental tables by name.
    """

    definitions: dg.Definitions
    instance: dg.DagsterInstance
    tables: dict[str, Table]

    def table(self, name: str) -> Table:
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

    def reconciling(self, table: Table) -> list[str]:
        """The names of the schedules whose jobs have the check ``reconciliation`` of a table."""
        code = self.definitions.get_repository_def()
        check = dg.AssetCheckKey(table.key, RECONCILIATION)
        return [
            schedule.name
            for schedule in code.schedule_defs
            if check in code.get_job(schedule.job_name).asset_layer.asset_graph.asset_check_keys
        ]


@contextmanager
def open_project() -> Iterator[Project]:
    """The project of the current folder, with its instance open for the block.

    Raises:
        IncrementalLoadError: The current folder is not in a project, or a table's declaration is wrong.
    """
    enter_project()
    # warnings about new parts of Dagster are of no use to the user of a command
    warnings.simplefilter("ignore", dg.BetaWarning)
    warnings.simplefilter("ignore", dg.PreviewWarning)
    from incload_assets.definitions import defs  # here: it reads the environment, which has to be the project's

    declared = (table_of(asset) for asset in defs.get_repository_def().assets_defs_by_key.values())
    tables = {table.name: table for table in declared if table is not None}
    with dg.DagsterInstance.get() as instance:
        yield Project(defs, instance, tables)
