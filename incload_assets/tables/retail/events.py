"""User events, from the shop's and the app's gzipped JSON lines."""

from datetime import date, timedelta

import pandera.pyspark as pa
import pyspark.sql.types as T
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incload_assets.assets import Changes, Files, Freshness, Merge, Quarantine, Subject, incremental_asset
from incload_assets.tables.retail.partitions import daily


class UserEvent(pa.DataFrameModel):
    """The last thing a user did on a day."""

    event_id: T.StringType = pa.Field(nullable=False, str_matches=r"^e-\d+$", description="Identifier of the event")
    user_id: T.LongType = pa.Field(nullable=False, gt=0, description="Number of the customer")
    event_type: T.StringType = pa.Field(
        nullable=False, isin=["view", "search", "cart", "checkout", "login"], description="What the user did"
    )
    page: T.StringType = pa.Field(nullable=False, str_startswith="/", description="Where in the shop")
    occurred_at: T.TimestampType = pa.Field(nullable=False, description="When, by the user's own clock")
    event_date: T.DateType = pa.Field(
        nullable=False, ge=date(2020, 1, 1), description="Day it happened, UTC; partitions the table"
    )


@incremental_asset(
    partitions_def=daily,
    source=Files("{landing}/events/{window:%Y-%m-%d}/*.json.gz", absent="wait"),
    contract=UserEvent,
    changes=Changes(keys=["user_id", "event_date"], sequence_by=["occurred_at", "event_id"]),
    write=Merge(partition_by="event_date"),
    freshness=Freshness(within=timedelta(hours=6)),
    quarantine=Quarantine(max_share=0.2),
    subject=Subject("customer", by="user_id"),
    group_name="retail",
    owners=["team:shop"],
)
def events(changes: DataFrame) -> DataFrame:
    """One row per user and day: the latest event."""
    return changes.withColumn("event_date", F.to_date("occurred_at"))
