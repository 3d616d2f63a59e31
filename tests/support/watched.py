"""Tables that real Dagster runs load: each run has to succeed, and to say something of every check of its table."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg

from incload_assets.assets.incremental import table_of
from incload_assets.checks import check_names, checks_for
from incload_assets.declaration.table import Table
from incload_assets.platform.lake import Lake
from incload_assets.platform.settings import Settings
from incload_assets.platform.spark.resource import SparkResource
from incload_assets.progress.run_tags import RANGE_END_TAG, RANGE_START_TAG

OF_ROWS = ("uniqueness", "reconciliation")
"""Checks that pass after a load, whatever the time of day."""


@dataclass
class Watched:
    """Assets, the first of which is looked after.

    Args:
        folder: Where the lake is.
        settings: Whose Spark is used.
        instance: Where runs are recorded.
        assets: The table, and others upstream of it.
    """

    folder: Path
    settings: Settings
    instance: dg.DagsterInstance
    assets: Sequence[dg.AssetsDefinition]
    lake: Lake = field(init=False)

    def __post_init__(self) -> None:
        self.lake = Lake(str(self.folder / "lake"))

    @property
    def table(self) -> Table:
        """The declaration of the first."""
        table = table_of(self.assets[0])
        assert table is not None
        return table

    def run(self, first: str, last: str | None = None, of: int = 0, **options: Any) -> dg.ExecuteInProcessResult:
        """A run of a partition, or of a range, of one of the assets, with every check of it; it may fail."""
        table = table_of(self.assets[of])
        assert table is not None
        return dg.materialize(
            [*self.assets, *checks_for(table)],
            selection=dg.AssetSelection.assets(table.key),
            partition_key=first if last is None else None,
            tags={} if last is None else {RANGE_START_TAG: first, RANGE_END_TAG: last},
            instance=self.instance,
            resources={
                "spark": dg.ResourceDefinition.hardcoded_resource(
                    SparkResource(spark=self.settings.spark, home=str(self.settings.home))
                ),
                "lake": dg.ResourceDefinition.hardcoded_resource(self.lake),
            },
            raise_on_error=False,
            **options,
        )

    def load(self, first: str, last: str | None = None, of: int = 0) -> None:
        """Run, and expect that it succeeds and that every check was evaluated in it.

        Raises:
            AssertionError: The run failed, a check was not evaluated, or one of rows does not pass.
        """
        result = self.run(first, last, of)
        failures = [e.step_failure_data.user_failure_data for e in result.all_events if e.is_step_failure]
        assert result.success, failures
        table = table_of(self.assets[of])
        assert table is not None
        said = {found.check_name: found for found in result.get_asset_check_evaluations()}
        assert set(said) == set(check_names(table))
        wrong = {name: said[name].description for name in OF_ROWS if name in said and not said[name].passed}
        assert wrong == {}
        keys = [dg.AssetCheckKey(table.key, name) for name in said]
        latest = self.instance.event_log_storage.get_latest_asset_check_execution_by_key(keys)
        assert {latest[key].status.value for key in keys} <= {"SUCCEEDED", "FAILED"}
