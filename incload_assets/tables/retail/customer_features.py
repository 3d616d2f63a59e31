"""Features of each customer by the day, from orders and events, and training sets of what was served."""

from datetime import date, timedelta

import pandera.pyspark as pa
import pyspark.sql.types as T
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incload_assets.assets import Freshness, History, Slo, Subject, Upstream, derived_asset
from incload_assets.tables.retail.events import events as events_table
from incload_assets.tables.retail.orders import orders as orders_table
from incload_assets.tables.retail.partitions import daily


class CustomerFeatures(pa.DataFrameModel):
    """The features of a customer on a day, without anything of later days."""

    feature_date: T.DateType = pa.Field(
        nullable=False, ge=date(2020, 1, 1), description="The day, UTC; the features are in effect from then on"
    )
    customer_id: T.LongType = pa.Field(nullable=False, gt=0, description="Number of the customer")
    orders: T.LongType = pa.Field(nullable=False, ge=0, description="Orders placed")
    currencies: T.LongType = pa.Field(nullable=False, ge=0, description="Currencies they were placed in")
    largest_order: T.DecimalType = pa.Field(
        nullable=True,
        ge=0,
        dtype_kwargs={"precision": 12, "scale": 2},
        description="Greatest amount of an order, in its currency",
    )
    last_event: T.StringType = pa.Field(nullable=True, description="What the customer did last in shop or app")
    last_event_at: T.TimestampType = pa.Field(nullable=True, description="When")


@derived_asset(
    partitions_def=daily,
    of={
        "orders": Upstream(orders_table, partition="order_date"),
        "events": Upstream(events_table, partition="event_date"),
    },
    contract=CustomerFeatures,
    write=History(known=True, track="feature_date"),
    keys=["customer_id"],
    sequence_by=["feature_date"],
    freshness=Freshness(within=timedelta(hours=6)),
    slo=Slo(freshness=timedelta(minutes=5)),
    subject=Subject("customer", by="customer_id"),
    group_name="features",
    owners=["team:data"],
)
def customer_features(orders: DataFrame, events: DataFrame) -> DataFrame:
    """One version per customer and day, of what is fixed on it: a later status of an order tells of later days."""
    day = ["customer_id", "feature_date"]
    placed = (
        orders.withColumnRenamed("order_date", "feature_date")
        .groupBy(*day)
        .agg(
            F.count("*").alias("orders"),
            F.count_distinct("currency").alias("currencies"),
            F.max("amount").alias("largest_order"),
        )
    )
    seen = events.select(
        F.col("user_id").alias("customer_id"),
        F.col("event_date").alias("feature_date"),
        F.col("event_type").alias("last_event"),
        F.col("occurred_at").alias("last_event_at"),
    )
    return placed.join(seen, day, "full").na.fill(0, ["orders", "currencies"])


def training_set(labels: DataFrame, features: DataFrame) -> DataFrame:
    """Labels with the features that were served at their time: what was in effect then, as it was known then.

    Features that arrived, or were corrected, after the time of a label do not reach it, so that a model learns from
    nothing that it will not have.

    Args:
        labels: ``customer_id``, ``labelled_at`` (timestamp), and whatever else.
        features: All rows of the table, with those that were believed earlier.

    Returns:
        Each label once, with the columns of the features; NULL if none were known of the customer.
    """
    at = labels["labelled_at"]
    then = (
        (features["customer_id"] == labels["customer_id"])
        & _within(at, features["known_from"], features["known_to"])
        & _within(F.to_date(at), features["valid_from"], features["valid_to"])
    )
    values = [features[name] for name in CustomerFeatures.to_schema().columns if name != "customer_id"]
    return labels.join(features, then, "left").select(*(labels[name] for name in labels.columns), *values)


def _within(at: Column, start: Column, end: Column) -> Column:
    return (start.isNull() | (start <= at)) & (end.isNull() | (at < end))
