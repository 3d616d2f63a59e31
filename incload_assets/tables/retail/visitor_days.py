"""Each visitor's activity by day, folded from hourly web events."""

from datetime import timedelta

import pandera.pyspark as pa
import pyspark.sql.types as T
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incload_assets.assets import Fold, Freshness, Upstream, derived_asset
from incload_assets.tables.retail.partitions import hourly_when_over
from incload_assets.tables.retail.web_events import web_events as web_events_table


class VisitorDay(pa.DataFrameModel):
    """A visitor's day; for one hour, the contribution of that hour's events."""

    visitor_id: T.StringType = pa.Field(nullable=False, description="The visitor, by the day's cookie")
    visit_date: T.DateType = pa.Field(nullable=False, description="Day of the events, UTC")
    views: T.LongType = pa.Field(nullable=False, ge=0, description="Pages viewed")
    searches: T.LongType = pa.Field(nullable=False, ge=0, description="Searches")
    baskets: T.LongType = pa.Field(nullable=False, ge=0, description="Articles put into the basket")
    first_seen_at: T.TimestampType = pa.Field(nullable=False, description="Time of the first event")
    last_seen_at: T.TimestampType = pa.Field(nullable=False, description="Time of the latest event")
    last_event_id: T.StringType = pa.Field(nullable=False, description="Identifier of the latest event")
    last_kind: T.StringType = pa.Field(nullable=False, description="Kind of the latest event")
    last_page: T.StringType = pa.Field(nullable=False, description="Page of the latest event")


@derived_asset(
    partitions_def=hourly_when_over,
    of={"web_events": Upstream(web_events_table, partition="occurred_hour")},
    contract=VisitorDay,
    write=Fold(sums=["views", "searches", "baskets"], mins=["first_seen_at"]),
    keys=["visitor_id", "visit_date"],
    sequence_by=["last_seen_at", "last_event_id"],
    freshness=Freshness(within=timedelta(minutes=15)),
    group_name="platform",
)
def visitor_days(web_events: DataFrame) -> DataFrame:
    """One row per visitor and day, with counts and the latest event; late events are added when they arrive."""

    def count(kind: str) -> Column:
        return F.count(F.when(F.col("kind") == kind, 1))

    def latest(column: str) -> Column:
        # of two events at the same instant, always the same one, regardless of the order in which they are read
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
