"""A code location with the table of loads; ``INCLOAD_LAKE`` and ``INCLOAD_LANDING`` say where everything is."""

from pyspark.sql import DataFrame

from incload_assets.assets import Changes, Files, Merge, incremental_asset
from incload_assets.code_location import incremental_definitions
from incload_assets.platform.settings import Settings
from tests.benchmarks.items import WINDOWS
from tests.support.tables import DatedItem


@incremental_asset(
    partitions_def=WINDOWS,
    source=Files("{landing}/{window:%Y-%m-%d}/*.json"),
    contract=DatedItem,
    changes=Changes(keys=["id"], sequence_by=["seq"], delete_when="op = 'd'"),
    write=Merge(partition_by="day"),
    code_version="1",
)
def items(changes: DataFrame) -> DataFrame:
    """Items."""
    return changes


defs = incremental_definitions([items], Settings())
