"""Articles, from the events of the ERP's database."""

from datetime import timedelta

import pandera.pyspark as pa
import pyspark.sql.types as T
from pyspark.sql import DataFrame

from incload_assets.assets import Debezium, Files, Freshness, Merge, incremental_asset
from incload_assets.shop.articles import SOURCE_TABLE
from incload_assets.tables.retail.partitions import daily

events = Debezium(
    Files("{landing}/articles/{window:%Y-%m-%d}/*.json"), table=SOURCE_TABLE, keys=["sku"], decimals="string"
)


class Article(pa.DataFrameModel):
    """An article as the ERP has it."""

    sku: T.StringType = pa.Field(nullable=False, str_matches=r"^A-\d+(-N)?$", description="Its number")
    name: T.StringType = pa.Field(nullable=False, description="What it is called")
    price: T.DecimalType = pa.Field(
        nullable=False, ge=0, dtype_kwargs={"precision": 10, "scale": 2}, description="List price in euros"
    )
    description: T.StringType = pa.Field(nullable=True, description="A text that events leave out if it is as before")
    cdc_sequence: T.StringType = pa.Field(nullable=False, description="Place of its newest change in PostgreSQL's log")


@incremental_asset(
    partitions_def=daily,
    source=events,
    contract=Article,
    changes=events.changes(),
    write=Merge(),
    freshness=Freshness(within=timedelta(hours=6)),
    group_name="retail",
    owners=["team:shop"],
)
def articles(changes: DataFrame) -> DataFrame:
    """One row per article in the ERP's database; what is deleted there is gone."""
    return changes
