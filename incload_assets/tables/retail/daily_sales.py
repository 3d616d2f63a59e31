"""Sales per day, from the orders."""

from datetime import date, timedelta

import pandera.pyspark as pa
import pyspark.sql.types as T
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incload_assets.assets import Freshness, Overwrite, Upstream, derived_asset
from incload_assets.tables.retail.orders import orders as orders_table
from incload_assets.tables.retail.partitions import daily


class DailySales(pa.DataFrameModel):
    """The sales of a day in a currency."""

    order_date: T.DateType = pa.Field(
        nullable=False, ge=date(2020, 1, 1), description="Day the orders were placed, UTC; partitions the table"
    )
    currency: T.StringType = pa.Field(nullable=False, description="ISO 4217 code")
    orders: T.LongType = pa.Field(nullable=False, ge=0, description="Orders that stand")
    cancelled: T.LongType = pa.Field(nullable=False, ge=0, description="Orders that were cancelled")
    amount: T.DecimalType = pa.Field(
        nullable=False,
        ge=0,
        dtype_kwargs={"precision": 22, "scale": 2},
        description="Sum of the orders that stand, in the currency",
    )


@derived_asset(
    partitions_def=daily,
    of={"orders": Upstream(orders_table, partition="order_date")},
    contract=DailySales,
    write=Overwrite(partition_by="order_date"),
    keys=["order_date", "currency"],
    freshness=Freshness(within=timedelta(hours=6)),
    group_name="retail",
    owners=["team:shop"],
    criticality="high",
)
def daily_sales(orders: DataFrame) -> DataFrame:
    """One row per day and currency: what stands of the day's orders, as they are known now."""
    stands = F.col("status") != "cancelled"
    return orders.groupBy("order_date", "currency").agg(
        F.count(F.when(stands, 1)).alias("orders"),
        F.count(F.when(~stands, 1)).alias("cancelled"),
        F.coalesce(F.sum(F.when(stands, F.col("amount"))), F.lit(0).cast("decimal(22,2)")).alias("amount"),
    )
