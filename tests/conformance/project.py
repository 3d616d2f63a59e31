"""A project whose commands run in this process: its folder, its code location, and what stands in lake and Dagster."""

import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import dagster as dg
import pytest
from deltalake import DeltaTable
from typer.testing import CliRunner

from incload_assets.assets.incremental import table_of
from incload_assets.cli.program import program
from incload_assets.code_location import incremental_definitions
from incload_assets.declaration.table import Table
from incload_assets.platform.lake import Lake
from incload_assets.platform.settings import Settings
from tests.support.documents import PROJECT

LOCATION = "incload_assets.definitions"


@dataclass(frozen=True)
class Answer:
    """What a command ended with.

    Args:
        command: As it was given.
        code: Exit code.
        out: Standard output.
        err: Standard error.
    """

    command: tuple[str, ...]
    code: int
    out: str
    err: str

    def __str__(self) -> str:
        return f"incload {' '.join(self.command)} ended with {self.code}:\n{self.out}{self.err}"


@dataclass(frozen=True)
class Stand:
    """What stands at an instant, so that two can be compared.

    Args:
        versions: Of every Delta table, by its path in the lake.
        green: Materialized partitions, by table.
        failed: Partitions whose last run failed, by table.
        runs: Number of runs.
    """

    versions: Mapping[str, int]
    green: Mapping[str, frozenset[str]]
    failed: Mapping[str, frozenset[str]]
    runs: int

    def changed(self, earlier: "Stand") -> set[str]:
        """The paths of Delta tables that have other versions, and ``dagster`` if partitions or runs differ."""
        paths = {path for path in {*self.versions, *earlier.versions}
                 if self.versions.get(path) != earlier.versions.get(path)}  # fmt: skip
        mine, its = ((each.green, each.failed, each.runs) for each in (self, earlier))
        return paths | ({"dagster"} if mine != its else set())


@dataclass
class Project:
    """A code location of some assets, in a folder.

    Args:
        root: The folder, with Dagster's instance.
        lake: Its lake.
        patch: For what a command reads: the environment, and the module of the code location.
    """

    root: Path
    lake: Lake
    patch: pytest.MonkeyPatch

    def declare(self, assets: Sequence[dg.AssetsDefinition]) -> None:
        """Have these tables from now on, as after a deployment."""
        module = ModuleType(LOCATION)
        self.definitions = module.defs = incremental_definitions(assets, Settings())  # type: ignore[attr-defined]
        self.patch.setitem(sys.modules, LOCATION, module)
        self.tables: dict[str, Table] = {t.name: t for asset in assets if (t := table_of(asset)) is not None}

    def ask(self, *command: str, given: str | None = None) -> Answer:
        """Run ``incload …``."""
        done = CliRunner().invoke(program, list(command), input=given, catch_exceptions=False)
        return Answer(command, done.exit_code, done.stdout, done.stderr)

    def do(self, *command: str, given: str | None = None) -> Answer:
        """Run ``incload …``, which has to end well."""
        done = self.ask(*command, given=given)
        assert done.code == 0, str(done)
        return done

    @contextmanager
    def instance(self) -> Iterator[dg.DagsterInstance]:
        """Dagster's instance, as a command opens it."""
        with dg.DagsterInstance.get() as instance:
            yield instance

    def stand(self) -> Stand:
        """What stands in lake and Dagster now."""
        with self.instance() as instance:
            status = {
                name: instance.get_status_by_partition(
                    table.key, table.partitions_def.get_partition_keys(), table.partitions_def
                ) or {}
                for name, table in self.tables.items()
            }  # fmt: skip
            runs = instance.get_runs_count()
        where = Path(self.lake.root)
        logs = [Path(folder) for folder, inner, _ in os.walk(where) if "_delta_log" in inner]
        return Stand(
            {str(log.relative_to(where)): DeltaTable(str(log)).version() for log in logs},
            {name: _of(known, "MATERIALIZED") for name, known in status.items()},
            {name: _of(known, "FAILED") for name, known in status.items()},
            runs,
        )

    def rows(self, table: str, columns: Iterable[str]) -> set[tuple[Any, ...]]:
        """What a table holds, each row once; equal rows are refused."""
        delta = DeltaTable(self.lake.table_uri(self.tables[table].key.path))
        found = [tuple(row.values()) for row in delta.to_pyarrow_table(columns=list(columns)).to_pylist()]
        assert len(set(found)) == len(found), f"rows stand twice: {found}"
        return set(found)

    def lose_dagsters_storage(self) -> None:
        """Remove what Dagster knows."""
        for path in (self.root / ".dagster_home").iterdir():
            if path.is_dir():
                shutil.rmtree(path)


def _of(known: Mapping[str, Any], status: str) -> frozenset[str]:
    return frozenset(key for key, each in known.items() if each is not None and each.name == status)


def project_in(root: Path, spark_url: str, patch: pytest.MonkeyPatch) -> Project:
    """A project without tables in a folder, entered for as long as the patch lasts."""
    home = root / ".dagster_home"
    home.mkdir()
    for name in ("pyproject.toml", "workspace.yaml", ".env", ".dagster_home/dagster.yaml"):
        shutil.copy(PROJECT / name, root / name)
    patch.chdir(root)
    for name, value in {
        "PWD": str(root),
        "DAGSTER_HOME": str(home),
        "INCLOAD_HOME": str(root),
        "INCLOAD_SPARK": spark_url,
        "INCLOAD_SAMPLES": "false",
        "COLUMNS": "200",
        "NO_COLOR": "1",
    }.items():
        patch.setenv(name, value)
    return Project(root, Lake.of(Settings()), patch)
