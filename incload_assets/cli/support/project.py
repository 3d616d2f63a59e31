"""The code location with everything that commands work with, the same as for ``dagster dev``."""

import difflib
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import cast

import dagster as dg
from pyspark.sql import SparkSession

from incload_assets.assets.incremental import table_of
from incload_assets.automation.check_jobs import CHECK_RECONCILIATION
from incload_assets.change_log.context import LoadContext
from incload_assets.cli.support.folder import enter_project
from incload_assets.declaration.table import Table
from incload_assets.monitoring.telemetry.emitters import collect_and_send
from incload_assets.platform.dagster_private import keep_connection
from incload_assets.platform.dagster_sqlite import tune_sqlite
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.lake import Lake
from incload_assets.platform.project_files import ProjectFiles
from incload_assets.platform.settings import Settings
from incload_assets.platform.spark.resource import SparkResource


@dataclass(frozen=True)
class Project:
    """The code location with its Dagster instance, lake and Spark, whose output is shown if ``verbose``.

    Attributes:
        folder: The folder of the code location's module, with the tables.
    """

    definitions: dg.Definitions
    instance: dg.DagsterInstance
    tables: dict[str, Table]
    settings: Settings = field(default_factory=Settings)
    verbose: bool = False
    folder: Path = Path()

    @cached_property
    def lake(self) -> Lake:
        """The lake of the settings."""
        return Lake.of(self.settings)

    def table(self, name: str) -> Table:
        """The table with the given name; if there is none, the error names the existing ones."""
        if name in self.tables:
            return self.tables[name]
        close = difflib.get_close_matches(name, self.tables, n=1)
        raise IncrementalLoadError(
            f"there is no table {name!r}",
            rule=f"the tables are {', '.join(sorted(self.tables)) or 'none yet'}",
            remedy=f"write {close[0]!r}" if close else "name one of them",
        )

    def named(self, names: Collection[str] | None) -> list[Table]:
        """The tables with the given names, or all in the order of their names if none is given."""
        return [self.table(name) for name in names or sorted(self.tables)]

    def spark(self, doing: str) -> AbstractContextManager[SparkSession]:
        """A session of Spark, which is started if it is not up; messages name what it is for, for example a table."""
        return SparkResource().session(doing)

    @contextmanager
    def load(self, table: Table) -> Iterator[LoadContext]:
        """The context of a load of a table, with a session of its own."""
        with self.spark(table.name) as spark:
            yield LoadContext(spark, table, self.lake.followed())

    def collect(self) -> None:
        """Records the loads that ended since the last time in the lake's table ``_loads``."""
        collect_and_send(self.instance, self.tables.values(), self.lake)

    @property
    def reconciling(self) -> list[str]:
        """The names of the schedules that reconcile tables."""
        schedules = self.definitions.get_repository_def().schedule_defs
        return [schedule.name for schedule in schedules if schedule.job_name == CHECK_RECONCILIATION.name]


@contextmanager
def open_project(*, verbose: bool = False) -> Iterator[Project]:
    """The project of the current folder, with its instance open for the block.

    Raises:
        IncrementalLoadError: The current folder is not in a project, or a table's declaration is wrong.
    """
    found = enter_project()
    tune_sqlite()
    defs = _definitions(found)
    declared = (table_of(asset) for asset in defs.get_repository_def().assets_defs_by_key.values())
    tables = {table.name: table for table in declared if table is not None}
    with dg.DagsterInstance.get() as instance:
        keep_connection(instance)
        folder = Path(getattr(import_module(found.module), "__file__", None) or found.file).parent
        yield Project(defs, instance, tables, Settings(), verbose, folder)


def _definitions(project: ProjectFiles) -> dg.Definitions:
    """The definitions of a project's code location.

    Raises:
        IncrementalLoadError: Its module has none, or several.
    """
    module = import_module(project.module)  # here: it reads the environment, which has to be the project's
    found = [getattr(module, project.attribute)] if project.attribute else list(vars(module).values())
    found = [each for each in found if isinstance(each, dg.Definitions)]
    if len(found) != 1:
        raise IncrementalLoadError(
            f"the module {project.module} has {len(found) or 'no'} Dagster definitions",
            rule=f"{project.file} names a module with one",
            remedy="write in it: defs = project_definitions(__file__)",
        )
    return cast(dg.Definitions, found[0])
