"""Two environments of one project on one machine: the same source, and two lakes with two Dagster states."""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from deltalake import DeltaTable

from tests.conformance.project import project_in
from tests.support.project_copy import Clone

TABLES = """
import dagster as dg
import pandera.pyspark as pa
import pyspark.sql.types as T
from pyspark.sql import functions as F

from incload_assets.assets import Changes, Files, Merge, Overwrite, Upstream, derived_asset, incremental_asset
from incload_assets.progress.run_tags import TABLE_TAG

DAYS = dg.DailyPartitionsDefinition("2026-01-01", end_date="2026-01-03")


class Sale(pa.DataFrameModel):
    id: T.LongType = pa.Field(nullable=False)
    day: T.DateType = pa.Field(nullable=False)
    amount: T.LongType = pa.Field(nullable=False)


class Total(pa.DataFrameModel):
    day: T.DateType = pa.Field(nullable=False)
    amount: T.LongType = pa.Field(nullable=False)


@incremental_asset(
    partitions_def=DAYS,
    source=Files("{landing}/sales/{window:%Y-%m-%d}.csv"),
    contract=Sale,
    changes=Changes(keys=["id"], sequence_by=["amount"]),
    write=Merge(partition_by="day"),
)
def sales(changes):
    return changes


@derived_asset(
    partitions_def=DAYS,
    of={"sales": Upstream(sales, partition="day")},
    contract=Total,
    write=Overwrite(partition_by="day"),
    keys=["day"],
)
def totals(sales):
    return sales.groupBy("day").agg(F.sum("amount").alias("amount"))
"""
ROWS = [(1, 10), (2, 32)]


def rows(lake: str | Path, table: str, *columns: str) -> list[tuple[Any, ...]]:
    found = DeltaTable(f"{lake}/{table}").to_pyarrow_table(columns=list(columns)).to_pylist()
    return sorted(tuple(row.values()) for row in found)


def files_of(folder: Path) -> Mapping[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def test_an_environment_does_not_share_the_dagster_state_of_the_one_without_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = project_in(tmp_path, "sc://localhost:1", monkeypatch)
    monkeypatch.setenv("INCLOAD_ENVIRONMENT", "staging")
    (tmp_path / ".env").write_text("DAGSTER_HOME=${PWD}/.dagster_home\n")  # as projects had it before
    refused = project.ask("status")
    assert (refused.code, refused.err) == (
        1,
        f"Error: DAGSTER_HOME is {tmp_path}/.dagster_home, and the environment is staging. Rule: an environment has a "
        "Dagster state of its own, and this is the one of the environment without a name. Remedy: write "
        f"DAGSTER_HOME=${{PWD}}/.dagster_home/${{INCLOAD_ENVIRONMENT:-}} in {tmp_path}/.env, and below it nothing that "
        "sets INCLOAD_ENVIRONMENT.\n",
    )


@pytest.mark.slow
def test_two_environments_load_one_file_at_once_and_neither_writes_to_the_others_lake(
    tmp_path: Path, spark_url: str
) -> None:
    clone = Clone.of(tmp_path, spark_url)
    clone.write("my_lake/tables/sales.py", TABLES)
    clone.write(".incload/landing/sales/2026-01-01.csv", "id,day,amount\n1,2026-01-01,10\n2,2026-01-01,32\n")
    at_once = [
        subprocess.Popen(
            clone.command("load", "sales", "--partitions", "2026-01-01"),
            cwd=clone.root,
            env=clone.environment(INCLOAD_SAMPLES="false", INCLOAD_ENVIRONMENT=name),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for name in ("prod", "staging")
    ]
    said = [process.communicate(timeout=300)[0] for process in at_once]
    assert [process.returncode for process in at_once] == [0, 0], said
    lakes = {name: clone.root / ".incload" / "environments" / name / "lake" for name in ("prod", "staging")}
    for name, lake in lakes.items():
        assert rows(lake, "sales", "id", "amount") == ROWS
        with dg.DagsterInstance.from_config(str(clone.root / ".dagster_home" / name)) as instance:
            [run] = instance.get_runs()
            assert (run.tags["incload/table"], run.is_success) == ("sales", True)
            assert type(instance.run_launcher).__name__ == "WarmRunLauncher"  # as the project configures it
    assert not (clone.root / ".incload" / "lake").exists()
    assert not (clone.root / ".dagster_home" / "history").exists()

    shown = clone.incload("status", "sales", INCLOAD_SAMPLES="false", INCLOAD_ENVIRONMENT="staging").stdout
    home = clone.root / ".dagster_home" / "staging"
    assert shown.splitlines()[0] == f"Environment staging: lake {lakes['staging']}, Dagster in {home}"

    staging = {"INCLOAD_SAMPLES": "false", "INCLOAD_ENVIRONMENT": "staging"}
    before, prod = files_of(lakes["prod"]), str(lakes["prod"])
    refused = clone.incload("load", "sales", "--partitions", "2026-01-01", INCLOAD_LAKE=prod, **staging)
    assert refused.returncode == 1 and refused.stderr.startswith(
        f"Error: sales: the lake {prod}/staging of the environment staging would be made in the lake of the "
        "environment prod. Rule: an environment writes to a lake of its own; nothing was written. Remedy: set "
        "INCLOAD_LAKE to a folder that is no lake"
    ), refused.stderr
    load_totals = ("load", "totals", "--partitions", "2026-01-01")
    derived = clone.incload(*load_totals, INCLOAD_UPSTREAM_LAKE=prod, INCLOAD_LAKE="other", **staging)
    assert derived.returncode == 0, derived.stderr
    assert rows(clone.root / "other" / "staging", "totals", "amount") == [(42,)]
    assert files_of(lakes["prod"]) == before
