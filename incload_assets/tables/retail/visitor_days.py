"""The days of each visitor, folded from the web events of their hours."""

from datetime import timedelta

import pandera.pyspark as pa
import pyspark.sql.types as T
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incload_assets.assets import Fold, Freshness, Upstream, derived_asset
from incload_assets.tables.retail.partitions import hourly_when_over
from incload_assets.tables.retail.web_events import web_events as web_events_table


class VisitorDay(pa.DataFrameModel):
    """A visitor's day; of one hour: what the events of that hour add to it."""

    visitor_id: T.StringType = pa.Field(nullable=False, description="Who, by the day's cookie")
    visit_date: T.DateType = pa.Field(nullable=False, description="Day of the events, UTC")
    views: T.LongType = pa.Field(nullable=False, ge=0, description="Pages looked at")
    searches: T.LongType = pa.Field(nullable=False, ge=0, description="Searches")
    baskets: T.LongType = pa.Field(nullable=False, ge=0, description="Articles put into the basket")
    first_seen_at: T.TimestampType = pa.Field(nullable=False, description="When the first event was")
    last_seen_at: T.TimestampType = pa.Field(nullable=False, description="When the latest event was")
    last_event_id: T.StringType = pa.Field(nullable=False, description="The latest event")
    last_kind: T.StringType = pa.Field(nullable=False, description="What it was")
    last_page: T.StringType = pa.Field(nullable=False, description="Where in the shop it was")


@derived_asset(
    partitions_def=hourly_when_over,
    of={"web_events": Upstream(web_events_table, partition="occurred_hour")},
    contract=VisitorDay,
    write=Fold(sums=["views", "searches", "baskets"], mins=["first_seen_at"]),
    keys=["visitor_id", "visit_date"],
    sequence_by=["last_seen_at", "last_event_id"],
    freshness=Freshness(within=timedelta(minutes=15)),
    group_name="platform",
    owners=["team:platform"],
    criticality="low",
)
def visitor_days(web_events: DataFrame) -> DataFrame:
    """One row per visitor and day: the latest event, and how many there were; late ones are added when they come."""

    def count(kind: str) -> Column:
        return F.count(F.when(F.col("kind") == kind, 1))

    def latest(column: str) -> Column:
        # of two events at one instant, the same one whatever the order in which they are read
        return F.max_by(column, F.struct("occurred_at", "event_id"))

    return web_events.groupBy("visitor_id", F.to_date("occurred_at").alias("visit_date")).agg(
        count("view").alias("views"),
        count("search").alias("searches"),
        count("basket").alias("baskets"),
        F.min("occurred_at").alias("first_seen_at"),
        F.max("occurred_at").alias("last_seen_at"),
        latest("event_id").alias("last_event_id"),
        latest("kind").alias("last_kind"),
        latest("page").alias("last_page"),
    )
