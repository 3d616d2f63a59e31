"""Comparison of an ingested window with the table (is the fold in it?) and with the source (are its rows the same?)."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from incload_assets.change_log.change import DELETE, MOVED, REJECTED, TRUNCATE, UPSERT, UPSERTS
from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.decisions import accepted_rows
from incload_assets.change_log.log import ChangeLog
from incload_assets.declaration.source import Position
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import Window
from incload_assets.ingest.validate import validate
from incload_assets.load.reconcile import Evidence, examine
from incload_assets.platform.lake import Lake
from incload_assets.protection.erasures import deny_list_of
from incload_assets.protection.person import person_keys_of
from incload_assets.protection.protect import protected
from incload_assets.writes.merge_into import app_id
from incload_assets.writes.strategy import strategy_of

KINDS = (*UPSERTS, DELETE, TRUNCATE, REJECTED)


@dataclass(frozen=True)
class Content:
    """Numbers of rows by kind (truncates count as deletes), and a hash of all rows that does not depend on their order.

    The hash is a sum: unlike an exclusive or, it detects repeated rows.
    """

    upserts: int
    deletes: int
    rejected: int
    hash: int

    @property
    def rows(self) -> int:
        """The number of rows of all kinds."""
        return self.upserts + self.deletes + self.rejected


def content_of(validated: DataFrame) -> Content:
    """The content of validated rows (columns ``_kind`` and ``_hash``), in one aggregate."""
    row = validated.agg(
        *(F.count(F.when(F.col("_kind") == kind, 1)).alias(kind) for kind in KINDS),
        F.coalesce(F.sum(F.col("_hash").cast("decimal(28,0)")), F.lit(0)).alias("hash"),
    ).first()
    assert row is not None
    return Content(row[UPSERT] + row[MOVED], row[DELETE] + row[TRUNCATE], row[REJECTED], int(row["hash"]))


@contextmanager
def source_rows(
    spark: SparkSession, table: Table, lake: Lake, window: Window, position: Position
) -> Iterator[DataFrame]:
    """The source's rows, extracted and validated again; persisted if :func:`log_content` reads them a second time.

    Errors of the source are also raised when the rows are first used.
    """
    fields = (*table.columns, *table.control_fields)
    extracted = table.source.extract_windows(spark, table.name, {window.key: position}, fields)
    accepted = accepted_rows(lake, table, [window.key])
    deny = deny_list_of(lake, table)
    with person_keys_of(extracted, table, lake, deny, create=False) as keys:
        records = protected(extracted, table, keys, deny)
        validated = validate(records, table, [window], accepted=accepted, deny=deny).filter(F.col("_kind").isin(*KINDS))
        if table.source.retains_absent_keys:
            validated = validated.persist()
        try:
            yield validated
        finally:
            validated.unpersist()


def log_content(
    spark: SparkSession,
    table: Table,
    log: ChangeLog,
    version: int,
    window: Window,
    position: Position,
    at_source: DataFrame,
) -> Content:
    """The content of a window in the log, without the rows that are kept although the source no longer shows them."""
    rows = log.read(spark, version, [window.key]).filter(F.col("_kind").isin(*KINDS))
    if table.source.retains_absent_keys:
        what, keeper = ["_kind", "_hash", "_keeper"], table.source.keeper(F.col("_source.file"))
        shown = at_source.withColumn("_keeper", keeper).select(*what)
        still_shown = rows.withColumn("_keeper", keeper).join(shown, what, "left_semi")
        rows = still_shown.select(*rows.columns).unionByName(rows.filter(keeper.isNull()))
    if carried := table.source.carried(position):
        gone = spark.createDataFrame([(name,) for name in carried], "file string")
        rows = rows.join(gone, rows["_source.file"] == gone["file"], "left_anti")
    return content_of(rows)


def table_evidence(spark: SparkSession, table: Table, lake: Lake, log: ChangeLog, window: Window) -> Evidence | None:
    """The window's keys in the table compared with the full fold of the log; None if table or log lacks the window."""
    context = LoadContext(spark, table, lake)
    if lake.version(context.uri) is None or log.record(window.key) is None:
        return None
    at = context.read_view((window,), app_id(table, window))
    plan = strategy_of(table).plan(context, at, full=True)
    try:
        return examine(plan, at)[window.key]
    finally:
        plan.release()
