"""Tables that nothing loads, for what shows loads."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import dagster as dg
from pyspark.sql import DataFrame

from incload_assets.assets import Changes, Files, Freshness, Merge, incremental_asset
from incload_assets.assets.incremental import table_of
from incload_assets.declaration.table import Table
from tests.support.guest_table import DAYS, Guest


def asset(
    name: str, definition: dg.TimeWindowPartitionsDefinition = DAYS, folder: str = "%Y-%m-%d", **options: Any
) -> dg.AssetsDefinition:
    """A table of guests as an asset."""

    @incremental_asset(
        name=name,
        partitions_def=definition,
        source=Files(f"{{landing}}/{name}/{{window:{folder}}}/*.json"),
        contract=Guest,
        changes=Changes(keys=["id"], sequence_by=["seq"]),
        write=Merge(partition_by="day"),
        freshness=Freshness(within=timedelta(hours=6)),
        **options,
    )
    def load(changes: DataFrame) -> DataFrame:
        """Guests that nobody invited."""
        return changes

    return load


def declared(*names: str, start: str = "2026-01-01") -> Mapping[str, Table]:
    """Tables of days by name, and one of hours, ``hourly``.

    Args:
        names: The names of the tables of days.
        start: The first day.
    """
    days, hours = dg.DailyPartitionsDefinition(start), dg.HourlyPartitionsDefinition(f"{start}-00:00")
    assets = [*(asset(name, days) for name in names), asset("hourly", hours, "%Y-%m-%d/%H")]
    return {table.name: table for one in assets if (table := table_of(one)) is not None}
