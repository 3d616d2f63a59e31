"""Prices, from the database of the shop's application."""

from datetime import timedelta

import pandera.pyspark as pa
import pyspark.sql.types as T
from pyspark.sql import DataFrame

from incload_assets.assets import Changes, Freshness, Merge, QueryByTime, incremental_asset
from incload_assets.shop.database import DATABASE, PRICES
from incload_assets.tables.retail.partitions import real_days


class ArticlePrice(pa.DataFrameModel):
    """The price of an article."""

    sku: T.StringType = pa.Field(nullable=False, str_matches=r"^SKU-\d{3}$", description="The article")
    price: T.DecimalType = pa.Field(
        nullable=False, ge=0, dtype_kwargs={"precision": 10, "scale": 2}, description="Price in euros"
    )
    valid_from: T.TimestampType = pa.Field(nullable=False, description="From when on, by the shop's clock")
    updated_at: T.TimestampType = pa.Field(nullable=False, description="When the application wrote it, by the database")


@incremental_asset(
    partitions_def=real_days,
    source=QueryByTime(DATABASE, PRICES, modified="updated_at", lag=timedelta(minutes=1)),
    contract=ArticlePrice,
    changes=Changes(keys=["sku"], sequence_by=["updated_at"], delete_when="discontinued = 'true'"),
    write=Merge(),
    freshness=Freshness(within=timedelta(hours=6)),
    group_name="retail",
    owners=["team:shop"],
)
def prices(changes: DataFrame) -> DataFrame:
    """One row per article that is sold, with its price as last set."""
    return changes
