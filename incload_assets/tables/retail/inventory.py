"""Inventory movements, from the scanners' Parquet files."""

from datetime import date, timedelta

import pandera.pyspark as pa
import pyspark.sql.types as T
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incload_assets.assets import Changes, Files, Freshness, Merge, Quarantine, incremental_asset
from incload_assets.tables.retail.partitions import daily


class Movement(pa.DataFrameModel):
    """Goods that came into a warehouse or left it."""

    movement_id: T.LongType = pa.Field(nullable=False, gt=0, description="Number of the movement")
    sku: T.StringType = pa.Field(nullable=False, str_matches=r"^SKU-\d{3}$", description="What moved")
    warehouse: T.StringType = pa.Field(nullable=False, isin=["STO", "BER", "LIS"], description="Where")
    quantity: T.IntegerType = pa.Field(
        nullable=False, ge=-1000, le=1000, description="Pieces that came in; negative for those that left"
    )
    moved_at: T.TimestampType = pa.Field(nullable=False, description="When it moved; never changes")
    recorded_at: T.TimestampType = pa.Field(
        nullable=False, description="When the count was recorded; a recount is later"
    )
    movement_date: T.DateType = pa.Field(
        nullable=False, ge=date(2020, 1, 1), description="Day it moved, UTC; partitions the table"
    )


@incremental_asset(
    partitions_def=daily,
    source=Files("{landing}/inventory/{window:%Y-%m-%d}/*.parquet", absent="wait"),
    contract=Movement,
    changes=Changes(keys=["movement_id"], sequence_by=["recorded_at"]),
    write=Merge(partition_by="movement_date"),
    freshness=Freshness(within=timedelta(hours=6)),
    quarantine=Quarantine(max_share=0.2),
    group_name="retail",
    owners=["team:shop"],
)
def inventory(changes: DataFrame) -> DataFrame:
    """One row per inventory movement, as last counted."""
    return changes.withColumn("movement_date", F.to_date("moved_at"))
