"""Customers, from the address book's daily CSV export."""

from datetime import timedelta

import pandera.pyspark as pa
import pyspark.sql.types as T
from pyspark.sql import DataFrame

from incload_assets.assets import Changes, Files, Freshness, Masked, Merge, Quarantine, Subject, incremental_asset
from incload_assets.tables.retail.partitions import daily


class Customer(pa.DataFrameModel):
    """A customer as last known."""

    customer_id: T.LongType = pa.Field(nullable=False, gt=0, description="Number of the customer")
    name: T.StringType = pa.Field(
        nullable=False,
        str_length={"min_value": 1, "max_value": 200},
        metadata={"personal": Masked(keep=1)},
        description="Full name",
    )
    email: T.StringType = pa.Field(
        nullable=True,
        str_matches=r"^[^@\s]+@[^@\s]+$",
        metadata={"personal": Masked(keep=4)},
        description="Address, if given",
    )
    country: T.StringType = pa.Field(nullable=False, str_matches=r"^[A-Z]{2}$", description="ISO 3166 code")
    tier: T.StringType = pa.Field(nullable=False, isin=["bronze", "silver", "gold"], description="Loyalty tier")
    updated_at: T.TimestampType = pa.Field(nullable=False, description="When it was last changed")


@incremental_asset(
    partitions_def=daily,
    source=Files("{landing}/customers/{window:%Y-%m-%d}/*.csv", absent="wait"),
    contract=Customer,
    changes=Changes(keys=["customer_id"], sequence_by=["updated_at"], delete_when="deleted = 'true'"),
    write=Merge(),
    freshness=Freshness(within=timedelta(hours=6)),
    quarantine=Quarantine(max_share=0.2),
    log_retention=timedelta(days=90),
    subject=Subject("customer", by="customer_id"),
    group_name="retail",
    owners=["team:shop"],
)
def customers(changes: DataFrame) -> DataFrame:
    """One row per customer, as last known; those who left are gone."""
    return changes
