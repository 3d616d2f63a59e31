"""Every price ever set, from the journal in the database of the shop's application."""

from datetime import timedelta

import pandera.pyspark as pa
import pyspark.sql.types as T
from pyspark.sql import DataFrame

from incload_assets.assets import Append, Changes, Freshness, QueryById, incremental_asset
from incload_assets.shop.database import DATABASE, PRICE_CHANGES
from incload_assets.tables.retail.partitions import real_days


class PriceChange(pa.DataFrameModel):
    """A price as it was set."""

    change_id: T.LongType = pa.Field(nullable=False, gt=0, description="Number of the entry; only grows")
    sku: T.StringType = pa.Field(nullable=False, str_matches=r"^SKU-\d{3}$", description="The article")
    price: T.DecimalType = pa.Field(
        nullable=False, ge=0, dtype_kwargs={"precision": 10, "scale": 2}, description="Price in euros"
    )
    discontinued: T.BooleanType = pa.Field(nullable=False, description="Whether the article left the assortment")
    valid_from: T.TimestampType = pa.Field(nullable=False, description="From when on, by the shop's clock")
    written_at: T.TimestampType = pa.Field(nullable=False, description="When the application wrote it, by the database")


@incremental_asset(
    partitions_def=real_days,
    source=QueryById(DATABASE, PRICE_CHANGES, id="change_id", lag=timedelta(minutes=1)),
    contract=PriceChange,
    changes=Changes(keys=["change_id"]),
    write=Append(),
    freshness=Freshness(within=timedelta(hours=6)),
    group_name="retail",
    owners=["team:shop"],
)
def price_changes(changes: DataFrame) -> DataFrame:
    """One row per price that was ever set."""
    return changes
