"""Logs of the services, from the shippers' gzipped JSON lines."""

from datetime import UTC, datetime, timedelta

import pandera.pyspark as pa
import pyspark.sql.types as T
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incload_assets.assets import Append, Changes, Files, Freshness, Quarantine, Slo, incremental_asset
from incload_assets.tables.retail.partitions import hourly


class LogLine(pa.DataFrameModel):
    """A request that a service has answered."""

    log_id: T.StringType = pa.Field(
        nullable=False, str_matches=r"^\d{8}T\d{4}-\d{4}$", description="Identifier of the line"
    )
    service: T.StringType = pa.Field(nullable=False, description="Who answered")
    level: T.StringType = pa.Field(nullable=False, isin=["INFO", "WARN", "ERROR"], description="How grave it is")
    status: T.IntegerType = pa.Field(nullable=False, ge=100, le=599, description="HTTP status")
    latency_ms: T.LongType = pa.Field(nullable=False, ge=0, description="Time it took, in milliseconds")
    logged_at: T.TimestampType = pa.Field(
        nullable=False, ge=datetime(2020, 1, 1, tzinfo=UTC), description="When, by the service's clock"
    )
    logged_hour: T.TimestampType = pa.Field(nullable=False, description="Its hour, UTC; partitions the table")


@incremental_asset(
    partitions_def=hourly,
    source=Files("{landing}/service_logs/{window:%Y-%m-%dT%H}/*.json.gz", absent="wait"),
    contract=LogLine,
    changes=Changes(keys=["log_id"], sequence_by=["logged_at"]),
    write=Append(partition_by="logged_hour"),
    freshness=Freshness(within=timedelta(minutes=5)),
    quarantine=Quarantine(max_share=0.2),
    group_name="platform",
    owners=["team:platform"],
    slo=Slo(freshness=timedelta(minutes=5), success=0.99),
)
def service_logs(changes: DataFrame) -> DataFrame:
    """One row per log line, however often its shipper sends it; the open hour grows by the minute."""
    return changes.withColumn("logged_hour", F.date_trunc("hour", "logged_at"))
