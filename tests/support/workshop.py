"""A table over real files, with a real Dagster instance, and loads that end as a test says."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pandera.pyspark as pa
import pyspark.sql.types as T
from dagster._core.storage.tags import RUN_KEY_TAG, TAGS_TO_MAYBE_OMIT_ON_RETRY
from pyspark.sql import DataFrame

from incload_assets.assets import Changes, Files, Merge, incremental_asset
from incload_assets.assets.incremental import table_of
from incload_assets.automation.policy import Decision
from incload_assets.automation.window_requests import look, run_requests
from incload_assets.change_log.log import ChangeLog
from incload_assets.code_location import incremental_definitions
from incload_assets.declaration.field_types import as_in_dagster
from incload_assets.declaration.source import Absent
from incload_assets.declaration.table import Table
from incload_assets.platform.lake import Lake
from incload_assets.platform.settings import Settings
from incload_assets.progress.checkpoint import DATA_VERSION_TAG
from incload_assets.progress.observed import SENSOR
from incload_assets.progress.progress import progress_of
from incload_assets.progress.run_tags import FAILURE_TAG, own_tags
from tests.support.window_records import land

DAYS = dg.DailyPartitionsDefinition("2026-01-01", end_date="2026-01-15")


class Item(pa.DataFrameModel):
    """A key, a value, a sequence."""

    id: T.StringType = pa.Field(nullable=False)
    value: T.StringType = pa.Field(nullable=True, isin=["a", "b", "c"])
    seq: T.LongType = pa.Field(nullable=False)


def day(number: int) -> str:
    return f"2026-01-{number:02d}"


def items_asset(*, absent: Absent = "wait", code_version: str = "1", **options: Any) -> dg.AssetsDefinition:
    @incremental_asset(
        partitions_def=options.pop("partitions_def", DAYS),
        source=options.pop("source", None) or Files("{landing}/items/{window:%Y-%m-%d}/*.json", absent=absent),
        contract=Item,
        changes=Changes(keys=["id"], sequence_by=["seq"]),
        write=Merge(),
        name=options.pop("name", "items"),
        code_version=code_version,
        **options,
    )
    def items(changes: DataFrame) -> DataFrame:
        return changes

    return items


@dataclass
class Workshop:
    folder: Path
    instance: dg.DagsterInstance
    asset: dg.AssetsDefinition

    @property
    def table(self) -> Table:
        table = table_of(self.asset)
        assert table is not None
        return table

    @property
    def lake(self) -> Lake:
        return Lake.of(self.settings)

    @property
    def settings(self) -> Settings:
        return Settings()

    def definitions(self) -> dg.Definitions:
        return incremental_definitions([self.asset], self.settings)

    def write(self, number: int, value: str = "a") -> Path:
        """The file of a day, with one row."""
        file = self.folder / "landing" / "items" / day(number) / "part.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"id": str(number), "value": value, "seq": 1}) + "\n")
        return file

    def tick(self) -> list[dg.RunRequest]:
        """What the sensor asks for now, as the daemon gets it."""
        return list(self.evaluate().run_requests or [])

    def evaluate(self) -> Any:
        repository = self.definitions().get_repository_def()
        sensor = repository.get_sensor_def(SENSOR)
        with dg.build_sensor_context(
            instance=self.instance, repository_def=repository, resources={"lake": self.lake}
        ) as context:
            return sensor.evaluate_tick(context)

    def plan(self, later: timedelta = timedelta(0)) -> Decision:
        return look(self.instance, self.table, self.lake, datetime.now(UTC) + later)[1]

    def requests(self, later: timedelta = timedelta(0)) -> list[dg.RunRequest]:
        at = datetime.now(UTC) + later
        progress, planned = look(self.instance, self.table, self.lake, at)
        return run_requests(self.instance, self.table, progress, planned.asks, at)

    def run(self, request: dg.RunRequest, *, cause: str | None = None) -> dg.ExecuteInProcessResult:
        """A real run of what was asked for, which materializes what the source holds, or fails for a cause."""
        seen = progress_of(self.instance, self.table, self.lake, datetime.now(UTC))
        fingerprints = {w.key: w.position.fingerprint for w in seen if w.position}

        with as_in_dagster(self.table.name):

            @dg.asset(
                key=self.table.key,
                partitions_def=DAYS,
                backfill_policy=dg.BackfillPolicy.multi_run(10),
                output_required=False,
            )
            def load(context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult[None]]:
                if cause is not None:
                    run_id = context.run.run_id
                    context.instance.add_run_tags(run_id, own_tags(run_id, {FAILURE_TAG: cause}))
                    raise dg.Failure(cause, allow_retries=False)
                land(ChangeLog(self.table, self.lake), {key: fingerprints[key] for key in context.partition_keys})
                for key in context.partition_keys:
                    tags = {DATA_VERSION_TAG: fingerprints[key]}
                    context.log_event(dg.AssetMaterialization(context.asset_key, partition=key, tags=tags))
                yield from ()

        asked_for = {RUN_KEY_TAG: request.run_key} if request.run_key else {}  # as the daemon does
        return dg.materialize(
            [load],
            partition_key=request.partition_key,
            tags={**request.tags, **asked_for},
            instance=self.instance,
            raise_on_error=False,
        )

    def progress(self) -> list[Any]:
        return look(self.instance, self.table, self.lake, datetime.now(UTC))[0]

    def load_all(self) -> None:
        for request in self.requests():
            assert self.run(request).success


def partitions(requests: list[dg.RunRequest]) -> list[str]:
    """The partitions of the requests, in order."""
    keys: list[str] = []
    for request in requests:
        bounds = request.partition_key_range
        keys += DAYS.get_partition_keys_in_range(bounds) if bounds else [request.partition_key or ""]
    return keys


def copied_tags(parent: dg.DagsterRun) -> dict[str, str]:
    """The tags that Dagster copies from a run to its retry."""
    return {name: value for name, value in parent.tags.items() if name not in TAGS_TO_MAYBE_OMIT_ON_RETRY}
