"""Web events, from the topic of the shop's own Kafka."""

from datetime import UTC, datetime, timedelta

import pandera.pyspark as pa
import pyspark.sql.types as T
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incload_assets.assets import Append, Changes, Freshness, Kafka, Quarantine, Subject, incremental_asset
from incload_assets.shop.stream import CLUSTER, TOPIC
from incload_assets.tables.retail.partitions import real_days


class WebEvent(pa.DataFrameModel):
    """Something that a visitor did in the shop's pages."""

    event_id: T.StringType = pa.Field(
        nullable=False, str_matches=r"^\d{8}T\d{4}-\d{4}$", description="Identifier of the event"
    )
    visitor_id: T.StringType = pa.Field(
        nullable=False, str_matches=r"^v-\d{3,}$", description="Who, by the day's cookie"
    )
    customer_id: T.LongType = pa.Field(nullable=True, gt=0, description="Number of the customer; NULL for a guest")
    kind: T.StringType = pa.Field(nullable=False, isin=["view", "search", "basket"], description="What the visitor did")
    page: T.StringType = pa.Field(nullable=False, str_startswith="/", description="Where in the shop")
    sku: T.StringType = pa.Field(
        nullable=True, str_matches=r"^SKU-\d{3}$", description="The article that went into the basket"
    )
    occurred_at: T.TimestampType = pa.Field(
        nullable=False, ge=datetime(2020, 1, 1, tzinfo=UTC), description="When, by the visitor's own clock"
    )
    occurred_hour: T.TimestampType = pa.Field(nullable=False, description="Its hour, UTC; partitions the table")


@incremental_asset(
    partitions_def=real_days,
    source=Kafka(CLUSTER, TOPIC),
    contract=WebEvent,
    changes=Changes(keys=["event_id"], sequence_by=["occurred_at"]),
    write=Append(partition_by="occurred_hour"),
    freshness=Freshness(within=timedelta(hours=6)),
    quarantine=Quarantine(max_share=0.2),
    subject=Subject("customer", by="customer_id"),
    group_name="platform",
    owners=["team:platform"],
)
def web_events(changes: DataFrame) -> DataFrame:
    """One row per event, however often it is sent; a window is what came into the topic within a day."""
    return changes.withColumn("occurred_hour", F.date_trunc("hour", "occurred_at"))
