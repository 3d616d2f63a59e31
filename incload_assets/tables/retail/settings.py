"""Settings of the services, from complete exports."""

from datetime import timedelta

import pandera.pyspark as pa
import pyspark.sql.types as T
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incload_assets.assets import Changes, Files, Freshness, InClear, Quarantine, Slo, Snapshot, incremental_asset
from incload_assets.tables.retail.partitions import daily_platform


class Setting(pa.DataFrameModel):
    """A setting as the newest export has it; of a secret only a keyed hash."""

    name: T.StringType = pa.Field(nullable=False, str_length={"min_value": 1}, description="Service and setting")
    value: T.StringType = pa.Field(nullable=True, description="Its value; never that of a secret")
    is_secret: T.BooleanType = pa.Field(nullable=False, description="Whether it is a secret")
    secret_hash: T.StringType = pa.Field(
        nullable=True,
        str_matches=r"^hmac-sha256:[0-9a-f]{64}$",
        # what is no hash may be the secret itself: no message shows it
        metadata={"personal": InClear(because="a keyed hash; an export with anything else is not loaded")},
        description="Keyed hash of the secret",
    )
    changed_at: T.TimestampType = pa.Field(nullable=False, description="When it was last changed")


@incremental_asset(
    partitions_def=daily_platform,
    source=Files("{landing}/settings/{window:%Y-%m-%d}.json", absent="wait"),
    contract=Setting,
    changes=Changes(keys=["name"]),
    write=Snapshot(),
    freshness=Freshness(within=timedelta(minutes=2)),
    quarantine=Quarantine(max_rows=0),  # half a configuration is none: a broken export is stopped as a whole
    log_retention=timedelta(days=30),
    group_name="platform",
    owners=["team:platform"],
    criticality="high",
    slo=Slo(freshness=timedelta(minutes=2), success=0.99),
)
def settings(changes: DataFrame) -> DataFrame:
    """One row per setting of the newest export; what it lacks is gone."""
    # whatever is not declared as plain counts as a secret, and a secret without a value as one that breaks the pattern
    is_plain = F.coalesce(~F.col("is_secret"), F.lit(False))
    return changes.withColumn("secret_hash", F.when(~is_plain, F.coalesce("value", F.lit("")))).withColumn(
        "value", F.when(is_plain, F.col("value"))
    )
