"""Repeated ingestions of a window: which of its old rows stay, and which keys lost a row."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incload_assets.change_log.change import (
    CHANGES,
    DELETE,
    REJECTED,
    REPLACED,
    TRUNCATE,
    UPSERT,
    UPSERTS,
    order_sql,
    sets,
)
from incload_assets.change_log.context import LoadContext
from incload_assets.ingest.ingestion import Ingestion
from incload_assets.platform.sql import col, row_id_sql, union_of

STAYING = (*UPSERTS, DELETE, TRUNCATE)
"""Kinds of old rows that may stay; the marks of full extracts are made again."""


def staying_rows(load: LoadContext, ingestion: Ingestion, former: DataFrame, fresh: DataFrame) -> DataFrame | None:
    """The old rows that stay, validated by the present contract (rejected ones stay so); None if all are replaced."""
    table = load.table
    if (staying := _staying(load, ingestion, former, fresh)) is None:
        return None
    reasons = table.contract.reasons(given=sets if table.by_column else None)
    is_upsert = F.col("_kind").isin(*UPSERTS)
    broken = F.when(is_upsert, reasons).otherwise(F.col("_reasons"))
    kept = staying.withColumn("_reasons", broken).withColumn(
        "_kind", F.when(is_upsert & (F.size("_reasons") > 0), REJECTED).otherwise(F.col("_kind"))
    )
    return kept.select(*map(col, load.log.schema.names))


def replaced_rows(load: LoadContext, ingestion: Ingestion, former: DataFrame, fresh: DataFrame) -> DataFrame | None:
    """A marker for each key that had a row removed; None if the table is not written by key.

    A marked key has to be folded in full, because the table may have the removed row. If other code validated the old
    rows, all their keys are marked, because for example their versions may have been made by another sequence. Markers
    of an ingestion that is not settled are kept, because their keys may not have been folded yet. A change superseded
    by a newer one of the same window gets no marker if the newest change of its key is the whole row, because it does
    not affect the fold.
    """
    table = load.table
    names = table.write.marked(table.contract, table.changes)
    if not names:  # written by scope, without markers for single rows
        return None
    marked, row_id = list(map(col, names)), F.expr(row_id_sql(names)).alias("_id")
    order = F.expr(order_sql(table, is_delete=f"_kind = '{DELETE}'", content_hash="_hash")).alias("_order")
    new = fresh.filter(F.col("_kind").isin(*CHANGES)).select("_kind", "_hash", order, row_id).alias("new")
    old = former.filter(F.col("_kind").isin(*CHANGES)).select("_kind", "_hash", order, row_id, *marked).alias("old")
    if ingestion.before and ingestion.before.code_version == table.code_version:
        gone = (F.col("old._kind") == F.col("new._kind")) & (F.col("old._hash") == F.col("new._hash"))
        if table.write.reads_windows(table.changes):
            gone |= F.col("old._kind").isin(UPSERT, DELETE) & (F.col("old._order") < F.col("new._order"))
        old = old.join(new, (F.col("old._id") == F.col("new._id")) & gone, "left_anti")
    taken = old.select("_id", *marked)
    if not ingestion.settled:
        taken = taken.unionByName(former.filter(F.col("_kind") == REPLACED).select(row_id, *marked))
    markers = taken.dropDuplicates(["_id"]).drop("_id").withColumn("_kind", F.lit(REPLACED))
    return markers.withColumn("_window", F.lit(ingestion.window.key))


def _staying(load: LoadContext, ingestion: Ingestion, former: DataFrame, fresh: DataFrame) -> DataFrame | None:
    """The old rows that stay: of deleted files, of absent keys, and of parts that were not read again."""
    source, changes = load.table.source, load.table.changes
    stay = []
    if source.retains_absent_keys:
        row_id = F.expr(row_id_sql(changes.keys or load.table.columns))
        place = {"_id": row_id, "_keeper": source.keeper(F.col("_source.file"))}
        shown, rows = (frame.filter(F.col("_kind").isin(*STAYING)).withColumns(place) for frame in (fresh, former))
        kept = rows.filter(F.col("_keeper").isNotNull())
        stay.append(kept.join(shown.select(*place), list(place), "left_anti").select(*former.columns))
    ingested = former.filter(F.col("_kind").isin(*STAYING, REJECTED))
    if (unread := source.staying(load.spark, ingested, ingestion.read)) is not None:
        stay.append(unread)
    return union_of(stay) if stay else None
