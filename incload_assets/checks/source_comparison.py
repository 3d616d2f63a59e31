"""Comparing a landed window with the table (does it hold the fold?) and the source (does it still say the same?)."""

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from incload_assets.loading.change_log import ChangeLog
from incload_assets.loading.columns import DELETE, REJECTED, UPSERT
from incload_assets.loading.declaration import Table
from incload_assets.loading.folding import Snapshot, fold_plan
from incload_assets.loading.judging import judge
from incload_assets.loading.reconciliation import Evidence, examine
from incload_assets.loading.sources.base import Position
from incload_assets.loading.window import Window
from incload_assets.loading.writes.merge import app_id
from resources.lake import Lake

KINDS = (UPSERT, DELETE, REJECTED)


@dataclass(frozen=True)
class Content:
    """Rows of one kind each, and a hash of them all that does not depend on their order.

    Args:
        upserts, deletes, rejected: Rows.
        hash: Sum of the rows' content hashes; unlike an exclusive or, a sum sees repetitions.
    """

    upserts: int
    deletes: int
    rejected: int
    hash: int

    @property
    def rows(self) -> int:
        """All of them."""
        return self.upserts + self.deletes + self.rejected


def content_of(judged: DataFrame) -> Content:
    """The content of judged rows (columns ``_kind`` and ``_hash``), in one aggregate."""
    row = judged.agg(
        *(F.count(F.when(F.col("_kind") == kind, 1)).alias(kind) for kind in KINDS),
        F.coalesce(F.sum(F.col("_hash").cast("decimal(28,0)")), F.lit(0)).alias("hash"),
    ).first()
    assert row is not None
    return Content(row[UPSERT], row[DELETE], row[REJECTED], int(row["hash"]))


def source_content(spark: SparkSession, table: Table, position: Position) -> Content:
    """What the source holds, extracted and judged anew.

    Raises:
        SourceUnreadable, SourceUnavailable, SourceChanged: From the source.
    """
    extracted = table.source.extract(spark, table.name, position, (*table.columns, *table.control_fields))
    return content_of(judge(extracted, table))


def log_content(
    spark: SparkSession, table: Table, log: ChangeLog, version: int, window: Window, position: Position
) -> Content:
    """What the log holds of a window, without the rows of files that the source no longer has."""
    rows = log.read(spark, version).filter((F.col("_window") == window.key) & F.col("_kind").isin(*KINDS))
    if carried := table.source.carried(position):
        gone = spark.createDataFrame([(name,) for name in carried], "file string")
        rows = rows.join(gone, rows["_source.file"] == gone["file"], "left_anti")
    return content_of(rows)


def table_evidence(spark: SparkSession, table: Table, lake: Lake, log: ChangeLog, window: Window) -> Evidence | None:
    """The window's keys in the table against the full fold of the log; None if there is nothing to compare."""
    uri = lake.table_uri(table.key.path)
    table_version = lake.version(uri)  # the table before the log, as a load does
    log_version = log.version()
    control = log.control(window.key, log_version) if log_version is not None else None
    if table_version is None or log_version is None or control is None:
        return None
    fence = lake.transaction_version(uri, app_id(table, window), table_version) or 0
    at = Snapshot(table_version, log_version, fence, control)
    return examine(fold_plan(spark, table, log, uri, window, at, full=True), control)
