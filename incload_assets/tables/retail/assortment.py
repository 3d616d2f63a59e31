"""The stores' assortment, from changes and, every third day, a full extract."""

from datetime import timedelta

import pandera.pyspark as pa
import pyspark.sql.types as T
from pyspark.sql import DataFrame

from incload_assets.assets import Changes, Files, Freshness, Merge, Several, incremental_asset
from incload_assets.tables.retail.partitions import daily


class Shelf(pa.DataFrameModel):
    """An article in a store."""

    store: T.StringType = pa.Field(nullable=False, isin=["STO", "BER", "LIS"], description="The store")
    sku: T.StringType = pa.Field(nullable=False, str_matches=r"^SKU-\d{3}$", description="The article")
    shelves: T.IntegerType = pa.Field(nullable=False, ge=0, description="How many shelves it has there")
    as_of: T.TimestampType = pa.Field(nullable=False, description="When the store's system said so")


@incremental_asset(
    partitions_def=daily,
    source=Several(
        {
            "full": Files("{landing}/assortment_full/{window:%Y-%m-%d}/*.csv", absent="empty"),
            "changes": Files("{landing}/assortment_changes/{window:%Y-%m-%d}/*.json"),
        }
    ),
    contract=Shelf,
    changes=Changes(
        keys=["store", "sku"], sequence_by=["as_of"], delete_when="op = 'd'", snapshot_when="source_name = 'full'"
    ),
    write=Merge(),
    freshness=Freshness(within=timedelta(hours=6)),
    group_name="retail",
    owners=["team:shop"],
    criticality="low",
)
def assortment(changes: DataFrame) -> DataFrame:
    """One row per article that a store has; what a change was lost for, the next full extract puts right."""
    return changes
