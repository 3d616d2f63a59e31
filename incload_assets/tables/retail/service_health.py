"""Health of each service by the hour, from its log lines."""

from datetime import timedelta

import pandera.pyspark as pa
import pyspark.sql.types as T
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incload_assets.assets import Freshness, Overwrite, Upstream, derived_asset
from incload_assets.tables.retail.partitions import hourly_when_over
from incload_assets.tables.retail.service_logs import service_logs as service_logs_table


class ServiceHealth(pa.DataFrameModel):
    """How a service did in an hour."""

    logged_hour: T.TimestampType = pa.Field(nullable=False, description="Start of the hour, UTC; partitions the table")
    service: T.StringType = pa.Field(nullable=False, description="Which one")
    requests: T.LongType = pa.Field(nullable=False, ge=1, description="Requests answered")
    errors: T.LongType = pa.Field(nullable=False, ge=0, description="Those answered with a status of 500 or more")
    latency_p95_ms: T.DoubleType = pa.Field(
        nullable=False, ge=0, description="Time within which 95 % were answered, in milliseconds, interpolated"
    )


@derived_asset(
    partitions_def=hourly_when_over,
    of={"service_logs": Upstream(service_logs_table, partition="logged_hour")},
    contract=ServiceHealth,
    write=Overwrite(partition_by="logged_hour"),
    keys=["logged_hour", "service"],
    freshness=Freshness(within=timedelta(minutes=15)),
    group_name="platform",
    owners=["team:platform"],
)
def service_health(service_logs: DataFrame) -> DataFrame:
    """One row per hour and service, once the hour is over; made again when late lines arrive."""
    # exact: an approximate percentile depends on the order in which rows are read
    return service_logs.groupBy("logged_hour", "service").agg(
        F.count("*").alias("requests"),
        F.count(F.when(F.col("status") >= 500, 1)).alias("errors"),
        F.percentile("latency_ms", 0.95).alias("latency_p95_ms"),
    )
