"""Orders, from the till's JSON lines."""

from datetime import date, timedelta

import pandera.pyspark as pa
import pyspark.sql.types as T
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incload_assets.assets import Changes, Files, Freshness, Merge, Quarantine, Slo, Subject, incremental_asset
from incload_assets.tables.retail.partitions import daily


class Order(pa.DataFrameModel):
    """An order as last changed."""

    order_id: T.LongType = pa.Field(nullable=False, gt=0, description="Number of the order")
    customer_id: T.LongType = pa.Field(nullable=False, gt=0, description="Number of the customer who placed it")
    status: T.StringType = pa.Field(
        nullable=False, isin=["new", "paid", "sent", "cancelled"], description="How far it has come"
    )
    amount: T.DecimalType = pa.Field(
        nullable=False, ge=0, dtype_kwargs={"precision": 12, "scale": 2}, description="Sum, in the order's currency"
    )
    currency: T.StringType = pa.Field(nullable=False, str_matches=r"^[A-Z]{3}$", description="ISO 4217 code")
    ordered_at: T.TimestampType = pa.Field(nullable=False, description="When it was placed; never changes")
    updated_at: T.TimestampType = pa.Field(nullable=False, description="When it was last changed")
    order_date: T.DateType = pa.Field(
        nullable=False, ge=date(2020, 1, 1), description="Day it was placed, UTC; partitions the table"
    )


@incremental_asset(
    partitions_def=daily,
    source=Files("{landing}/orders/{window:%Y-%m-%d}/*.json", absent="wait"),
    contract=Order,
    changes=Changes(keys=["order_id"], sequence_by=["updated_at"], delete_when="op = 'd'"),
    write=Merge(partition_by="order_date"),
    freshness=Freshness(within=timedelta(hours=6)),
    quarantine=Quarantine(max_share=0.2),
    subject=Subject("customer", by="customer_id"),
    group_name="retail",
    owners=["team:shop"],
    criticality="high",
    slo=Slo(freshness=timedelta(hours=6), success=0.99),
)
def orders(changes: DataFrame) -> DataFrame:
    """One row per order, as last changed."""
    return changes.withColumn("order_date", F.to_date("ordered_at"))
