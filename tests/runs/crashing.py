"""A code location whose loads do as they are told by a file: they die at a point of their road, or wait there."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
from pyspark.sql import DataFrame, SparkSession

from incload_assets.assets import Changes, Files, incremental_asset
from incload_assets.platform.lake import Lake
from incload_assets.platform.settings import Settings
from incload_assets.platform.spark.resource import SparkResource
from tests.integration.loader import POINTS, at, die
from tests.support.guest_table import DAYS, Guest

TABLES = [f"guests_{number}" for number in range(len(POINTS) + 1)]
"""One for each point, and one more."""


def end_the_server() -> None:
    """End the process that this one was forked from."""
    os.kill(os.getppid(), signal.SIGKILL)


def end_both() -> None:
    """Leave nobody who knows that this process is gone."""
    end_the_server()
    die()


def wait() -> None:
    """Wait until told to go on."""
    Path("waiting").touch()
    while not Path("go").exists():
        time.sleep(0.05)


ACTS = {act.__name__: act for act in (die, end_the_server, end_both, wait)}


class Told(SparkResource):
    """Spark, whose sessions look for the file of the table that they are for: what it says is done once."""

    @contextmanager
    def session(self, doing: str = "Spark") -> Iterator[SparkSession]:
        """A session; from now on this process does what the file says."""
        told = Path(doing)
        if told.exists():
            point, act = told.read_text().split(": ")
            told.unlink()
            at(point, ACTS[act])
        with super().session(doing) as session:
            yield session


def _table(name: str) -> dg.AssetsDefinition:
    @incremental_asset(
        name=name,
        partitions_def=DAYS,
        source=Files(f"{{landing}}/{name}/{{window:%Y-%m-%d}}/*.json"),
        contract=Guest,
        changes=Changes(keys=["id"], sequence_by=["seq"], delete_when="op = 'd'"),
    )
    def guests(changes: DataFrame) -> DataFrame:
        """Guests."""
        return changes

    return guests


assets = [_table(name) for name in TABLES]
defs = dg.Definitions(
    assets=assets,
    jobs=[dg.define_asset_job(f"load_{asset.key.path[-1]}", dg.AssetSelection.assets(asset.key)) for asset in assets],
    resources={"spark": Told(), "lake": Lake.of(Settings())},
    executor=dg.in_process_executor,
)
