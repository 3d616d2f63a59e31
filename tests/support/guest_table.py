"""A small table that real Dagster runs load from real files, for tests of what is watched about it."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import dagster as dg
import pandera.pyspark as pa
import pyspark.sql.types as T
from pyspark.sql import DataFrame

from incload_assets.assets import Changes, Evolution, Files, Freshness, Merge, Quarantine, Subject, incremental_asset
from incload_assets.assets.incremental import table_of
from incload_assets.change_log.log import ChangeLog
from incload_assets.checks import checks_for
from incload_assets.checks.observation import Observation, look
from incload_assets.declaration.table import FailedReconciliation, Table
from incload_assets.maintenance.jobs import MaintenanceJob
from incload_assets.platform.lake import Lake
from incload_assets.platform.settings import Settings
from incload_assets.platform.spark.resource import SparkResource
from tests.support.window_records import checkpoint

NO_OUTPUT = {
    "compute_logs": {"module": "dagster._core.storage.noop_compute_log_manager", "class": "NoOpComputeLogManager"}
}
"""Dagster's setting to capture no output: it starts four processes for each run, which a later test may find left."""
DAYS = dg.DailyPartitionsDefinition("2026-01-01")
NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
"""Days 1 to 4 are over; with six hours of freshness all of them are due."""


class Guest(pa.DataFrameModel):
    """A guest of the house."""

    id: T.StringType = pa.Field(nullable=False)
    name: T.StringType = pa.Field(nullable=True, metadata={"personal": True})
    room: T.LongType = pa.Field(nullable=True, ge=1)
    seq: T.LongType = pa.Field(nullable=False)
    day: T.DateType = pa.Field(nullable=False)

    class Config:
        """No two guests have one name."""

        unique = ["name"]  # noqa: RUF012 - pandera's own form


def key(number: int) -> str:
    """The partition key of a day of January 2026."""
    return f"2026-01-{number:02d}"


def guest(id: str, name: str | None = None, *, room: Any = 1, seq: int = 1, day: int = 1) -> dict[str, Any]:
    """A record of a file."""
    return {"id": id, "name": name or f"name of {id}", "room": room, "seq": seq, "day": key(day)}


@dataclass
class House:
    """A table, its files and its Dagster instance."""

    root: Path
    spark: SparkResource
    instance: dg.DagsterInstance
    asset: dg.AssetsDefinition
    lake: Lake = field(init=False)
    table: Table = field(init=False)

    def __post_init__(self) -> None:
        table = table_of(self.asset)
        assert table is not None
        self.table, self.lake = table, Lake(str(self.root / "lake"))

    @property
    def resources(self) -> dict[str, dg.ResourceDefinition]:
        """What loads and checks require."""
        return {
            "spark": dg.ResourceDefinition.hardcoded_resource(self.spark),
            "lake": dg.ResourceDefinition.hardcoded_resource(self.lake),
        }

    @property
    def loads(self) -> dg.AssetSelection:
        """The table without its checks."""
        return dg.AssetSelection.assets(self.table.key).without_checks()

    def file(self, number: int, name: str = "a.json") -> Path:
        """Where a file of a day is."""
        return self.root / "landing" / "guests" / key(number) / name

    def deliver(self, number: int, *records: dict[str, Any], name: str = "a.json") -> None:
        """Write a file of a day."""
        path = self.file(number, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(record) + "\n" for record in records))

    def run(
        self,
        selection: dg.AssetSelection | None = None,
        *,
        partition: str | None = None,
        tags: dict[str, str] | None = None,
        config: dict[str, Any] | None = None,
    ) -> dg.ExecuteInProcessResult:
        """One run in this process, of everything if nothing is selected; it may fail."""
        return dg.materialize(
            [self.asset, *checks_for(self.table)],
            selection=selection,
            partition_key=partition,
            instance=self.instance,
            resources=self.resources,
            tags=tags,
            run_config=config,
            raise_on_error=False,
        )

    def load(self, *numbers: int) -> list[bool]:
        """Load days, each in a run of its own; whether each succeeded."""
        return [self.run(self.loads, partition=key(number)).success for number in numbers]

    def checkpoint(self, *numbers: int) -> None:
        """Record days as loaded with what the source holds now; enough where only Dagster and the source are asked."""
        for number in numbers:
            fingerprint = self.look().state.positions[key(number)].fingerprint
            checkpoint(self.instance, ChangeLog(self.table, self.lake), {key(number): fingerprint})

    def look(self, now: datetime = NOON) -> Observation:
        """Look at the table."""
        return look(self.instance, self.table, self.lake, now)


@contextmanager
def house(
    root: Path,
    settings: Settings,
    *,
    partitions_def: dg.TimeWindowPartitionsDefinition = DAYS,
    absent: str = "wait",
    freshness: Freshness | None = Freshness(within=timedelta(hours=6)),  # noqa: B008 - immutable
    write: Merge = Merge(partition_by="day"),  # noqa: B008 - immutable
    quarantine: Quarantine = Quarantine(max_share=0.5),  # noqa: B008 - immutable
    code_version: str = "1",
    instance: dg.DagsterInstance | None = None,
    log_retention: timedelta | None = None,
    on_failed_reconciliation: FailedReconciliation | None = None,
    evolution: Evolution = Evolution(),  # noqa: B008 - immutable
    subject: Subject | None = None,
) -> Iterator[House]:
    """A house under a folder, with a landing area of its own."""

    @incremental_asset(
        partitions_def=partitions_def,
        source=Files("{landing}/guests/{window:%Y-%m-%d}/*.json", absent=absent),  # type: ignore[arg-type]
        contract=Guest,
        changes=Changes(keys=["id"], sequence_by=["seq"], delete_when="op = 'd'"),
        write=write,
        freshness=freshness,
        quarantine=quarantine,
        code_version=code_version,
        log_retention=log_retention,
        on_failed_reconciliation=on_failed_reconciliation,
        evolution=evolution,
        subject=subject,
    )
    def guests(changes: DataFrame) -> DataFrame:
        """Guests."""
        return changes

    (root / "landing" / "guests").mkdir(parents=True, exist_ok=True)
    spark = SparkResource(spark=settings.spark, home=str(settings.home))
    with (
        mock.patch.dict(os.environ, INCLOAD_LANDING=str(root / "landing")),
        nullcontext(instance) if instance is not None else dg.DagsterInstance.ephemeral() as used,
    ):
        yield House(root, spark, used, guests)


def job_of(job: MaintenanceJob, table: Table) -> dg.JobDefinition:
    """A maintenance job over one table."""
    definition = job.definition([table])
    assert definition is not None
    return definition
