"""Validation of rows beside each other: colliding ones, and groups that are never split."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as Over
from pyspark.sql import functions as F

from incload_assets.change_log.change import DELETE, NOT_KEPT, REJECTED, UPSERTS, order_sql, sets
from incload_assets.contract.contract import not_null
from incload_assets.declaration.layout import ingested
from incload_assets.declaration.table import Table
from incload_assets.ingest.accepted import ACCEPTED
from incload_assets.platform.sql import all_of, col, content_hash_sql
from incload_assets.sources.files.records import payload_of


def compared(
    validated: DataFrame, table: Table, *, places: bool = True, may_be_accepted: bool = False, in_fields: bool = False
) -> DataFrame:
    """Rows of :func:`.with_reasons`, with the reasons that other rows of their window give, and their final kind.

    All colliding rows are rejected, because the loader cannot know which one is correct. A unique value belongs to the
    key whose newest change in the window has it: older changes and deletes have given it up. Without ``places`` the
    caller has excluded keys in two partitions; with ``may_be_accepted`` people may have accepted some of the rows. With
    ``in_fields`` the payloads are structs, and the kept ones become text.
    """
    accepted = F.size("_reasons") == 0
    collisions = []
    unique = table.contract.unique
    keys = table.changes.keys
    if unique and keys and not set(keys) <= set(unique):
        validated = validated.withColumn("_owner", _owner(accepted, table))
        same_value = Over.partitionBy("_window", *map(col, unique))
        taken = F.min("_owner").over(same_value) != F.max("_owner").over(same_value)
        collisions.append(
            F.when(
                F.col("_owner").isNotNull() & taken,
                F.lit(f"{', '.join(unique)}: the same value under two keys, but it is unique"),
            )
        )
    if places and (partition := tearing_column(table)) is not None:
        place = F.when(accepted, col(partition))
        same_key = Over.partitionBy("_window", *map(col, keys))
        collisions.append(
            F.when(
                accepted & (F.min(place).over(same_key) != F.max(place).over(same_key)),
                F.lit(f"{partition}: two values for one key, but a row never changes its partition"),
            )
        )
    if collisions:
        validated = validated.withColumn("_reasons", F.concat("_reasons", not_null(*collisions)))
    rejected = (F.size("_reasons") > 0) & ~F.col("_kind").isin(*NOT_KEPT)
    if together := table.write.together():
        torn = F.max(rejected).over(Over.partitionBy("_window", *map(col, together)))
        reason = F.lit(f"{', '.join(together)}: another row of the group is quarantined, and a group is never split")
        validated = validated.withColumn(
            "_reasons", F.when(torn & ~rejected, F.array(reason)).otherwise(F.col("_reasons"))
        )
    partition, payload = table.write.partition_by, F.col("_payload")
    return validated.select(
        *(ingested(field) if field.name == partition else col(field.name) for field in table.contract.fields),
        F.when(rejected, REJECTED).otherwise(F.col("_kind")).alias("_kind"),
        "_window",
        "_hash",
        "_source",
        "_reasons",
        F.when(
            rejected | F.col(ACCEPTED) if may_be_accepted else rejected, payload_of(payload) if in_fields else payload
        ).alias("_payload"),
        "_rescued",
        *(["_unset"] if table.by_column else []),
        # an unreadable record may be part of a full extract, unless its source excludes that
        *([F.coalesce("_is_snapshot", rejected).alias("_is_snapshot")] if table.changes.snapshot_when else []),
    )


def _owner(accepted: Column, table: Table) -> Column:
    """A hash of the key if the row is the key's newest change in the window and has a unique value, otherwise NULL."""
    sets_all = map(sets, table.contract.unique) if table.by_column else ()
    holds = all_of([F.col("_kind").isin(*UPSERTS), *sets_all])
    order = F.lit(0)
    if table.write.ordered:
        order = F.expr(order_sql(table, is_delete=f"_kind = '{DELETE}'", content_hash="_hash"))
    decides = accepted & (holds | (F.col("_kind") == DELETE))
    newest = F.max(F.when(decides, order)).over(Over.partitionBy("_window", *map(col, table.changes.keys)))
    key = F.expr(content_hash_sql(table.changes.keys))
    return F.when(accepted & holds & (order == newest), key)


def tearing_column(table: Table) -> str | None:
    """The partition column if one key could be in two partitions; None if the column is part of the key."""
    keys, partition = table.changes.keys, table.write.partition_by
    return partition if keys and partition not in keys else None
