"""Stock of each article, from the inventory movements of all days."""

from datetime import timedelta

import pandera.pyspark as pa
import pyspark.sql.types as T
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incload_assets.assets import Fold, Freshness, Upstream, derived_asset
from incload_assets.tables.retail.inventory import inventory as inventory_table
from incload_assets.tables.retail.partitions import daily


class StockLevel(pa.DataFrameModel):
    """The stock of an article in a warehouse; of one day: the change by that day's movements."""

    sku: T.StringType = pa.Field(nullable=False, description="What is stored")
    warehouse: T.StringType = pa.Field(nullable=False, description="Where")
    quantity: T.LongType = pa.Field(nullable=False, description="Pieces: those that came in less those that left")
    movements: T.LongType = pa.Field(nullable=False, ge=1, description="Movements that made it")
    last_moved_at: T.TimestampType = pa.Field(nullable=False, description="When the latest of them was")


@derived_asset(
    partitions_def=daily,
    of={"inventory": Upstream(inventory_table, partition="movement_date")},
    contract=StockLevel,
    write=Fold(sums=["quantity", "movements"], maxes=["last_moved_at"]),
    keys=["sku", "warehouse"],
    freshness=Freshness(within=timedelta(hours=6)),
    group_name="retail",
    owners=["team:shop"],
)
def stock_levels(inventory: DataFrame) -> DataFrame:
    """One row per article and warehouse: all its movements taken together, each counted once, late ones included."""
    return inventory.groupBy("sku", "warehouse").agg(
        F.sum("quantity").alias("quantity"),
        F.count("*").alias("movements"),
        F.max("moved_at").alias("last_moved_at"),
    )
