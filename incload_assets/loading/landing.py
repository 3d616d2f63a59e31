"""Landing: a window's changes are read once, judged, and put into the log in one commit."""

import json
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from incload_assets.loading import window as windows
from incload_assets.loading.change_log import ChangeLog, Control
from incload_assets.loading.columns import CONTROL, DELETE, REJECTED, REPLACED, UPSERT, col, literal
from incload_assets.loading.contract_threshold import check_threshold
from incload_assets.loading.declaration import Table
from incload_assets.loading.delta_tables import lost_the_race
from incload_assets.loading.errors import DeclarationError
from incload_assets.loading.judging import judge
from incload_assets.loading.sources.base import Position
from incload_assets.loading.sources.read_errors import read_error
from incload_assets.loading.window import Window

MAX_PARTITIONS = 200
"""Longest list of partition values that Delta prunes exactly; a load that touches more reads without pruning."""


@dataclass(frozen=True)
class Landing:
    """One landing about to happen.

    Args:
        window: Which.
        position: What the source holds for it.
        before: The control row of the landing it replaces, None for the first.
        log_version: The log's version in which ``before`` was read.
        settled: Whether ``before`` is known to be reconciled and checkpointed, so that the keys it took away are done.
        run_id: The Dagster run.
    """

    window: Window
    position: Position
    before: Control | None
    log_version: int
    settled: bool
    run_id: str


def land(
    spark: SparkSession, table: Table, log: ChangeLog, landing: Landing, say: Callable[[str], None] = lambda _: None
) -> bool:
    """Replace a window of the log by what the source holds now, control row included, in one fenced commit.

    Returns:
        Whether this landing was committed; False if another one of the same window came first.

    Raises:
        ContractViolation: Too many rows were rejected; the log keeps its old rows.
        SourceUnreadable, SourceChanged: From the source.
        DeclarationError: The table's function does not fit its contract, or does not keep one row per row.
    """
    read = Observation()
    extracted = table.source.extract(
        spark, table.name, landing.position, (*table.columns, *table.control_fields)
    ).observe(read, F.count(F.lit(1)).alias("rows"))
    judged = judge(extracted, table).persist()
    try:
        facts = _facts(judged, table)
        if read.get.get("rows") != facts.rows:  # nothing is observed of an empty frame, and too much of a repeated task
            _check_row_wise(table, landing.window, extracted.count(), facts.rows)
        check_threshold(judged, table, landing.window, facts.rows, facts.rejected)
        say(f"{table.name} {landing.window.key}: read {facts.rows} rows, {facts.rejected} to quarantine")
        return _commit(spark, table, log, landing, judged, facts)
    except PySparkException as error:
        if meaning := read_error(table.name, error):
            raise meaning from error
        raise
    finally:
        judged.unpersist()


@dataclass(frozen=True)
class _Facts:
    rows: int
    rejected: int
    replaced: int
    partitions: list[str] | None
    first_sequence: str | None


def _facts(frame: DataFrame, table: Table) -> _Facts:
    """Everything a landing has to know of its rows, in one aggregate."""
    kept = F.col("_kind").isin(UPSERT, DELETE)
    first = col(table.changes.sequence_by[0])
    partition = table.write.partition_by
    values = (
        F.collect_set(F.when(F.col("_kind") != REJECTED, col(partition).cast("string"))) if partition else F.array()
    )
    row = frame.agg(
        F.count(F.when(F.col("_kind") != REPLACED, 1)).alias("rows"),
        F.count(F.when(F.col("_kind") == REJECTED, 1)).alias("rejected"),
        F.count(F.when(F.col("_kind") == REPLACED, 1)).alias("replaced"),
        F.min(F.when(kept, first)).cast("string").alias("first"),
        F.count(F.when(kept & first.isNull(), 1)).alias("unordered"),
        F.size(values).alias("n_partitions"),
        F.slice(values, 1, MAX_PARTITIONS).alias("partitions"),
    ).first()
    assert row is not None
    known = partition is not None and row.n_partitions <= MAX_PARTITIONS
    return _Facts(
        rows=row.rows,
        rejected=row.rejected,
        replaced=row.replaced,
        partitions=sorted(row.partitions) if known else None,
        first_sequence=None if row.unordered else row["first"],
    )


def _check_row_wise(table: Table, window: Window, read: int, judged: int) -> None:
    if read != judged:
        raise DeclarationError(
            f"{table.name} {window.key}: its function made {judged} rows of {read}",
            rule="the function is row-wise: one row out for each row in, so that no row vanishes uncounted",
            remedy="do not filter, explode, join or aggregate in it; rows that must not load fail the contract",
        )


def _commit(
    spark: SparkSession, table: Table, log: ChangeLog, landing: Landing, judged: DataFrame, facts: _Facts
) -> bool:
    number = (landing.before.landing if landing.before else 0) + 1
    content = judged
    if landing.before is not None:
        content = _with_former(spark, table, log, landing, judged).persist()
        facts = _facts(content, table)
    control = Control(
        landing=number,
        fingerprint=landing.position.fingerprint,
        position=json.dumps(landing.position.detail, sort_keys=True, separators=(",", ":")),
        summary=landing.position.summary,
        code_version=table.code_version,
        run_id=landing.run_id,
        landed_at=windows.now(),
        rows_read=facts.rows,
        rejected=facts.rejected,
        replaced=facts.replaced,
        partitions=facts.partitions,
        first_sequence=facts.first_sequence,
    )
    control_row = log.control_frame(spark, control).withColumn("_kind", F.lit(CONTROL))
    everything = content.unionByName(control_row, allowMissingColumns=True)
    everything = everything.withColumn("_window", F.lit(landing.window.key))
    writer = (
        everything.select(*(col(name) for name in log.schema.names))
        .write.format("delta")
        .mode("overwrite")
        .option("replaceWhere", f"_window = {literal(landing.window.key)}")
        .option("txnAppId", f"{table.name}/{landing.window.key}/landing")
        .option("txnVersion", number)
        .option("userMetadata", f"landed {landing.window.key}, run {landing.run_id}")
    )
    try:
        writer.save(log.lake.spark_uri(log.uri))
    except PySparkException as error:
        if lost_the_race(error):
            return False
        raise
    finally:
        if content is not judged:
            content.unpersist()
    after = log.control(landing.window.key)
    return after is not None and after.landing == number and after.landed_at == control.landed_at


def _with_former(spark: SparkSession, table: Table, log: ChangeLog, landing: Landing, judged: DataFrame) -> DataFrame:
    """The new rows, the old rows of files that are gone, and a marker for each key that had a row taken away.

    A marked key has to be folded in full: the table may hold what was taken away. Markers of a landing that is not
    settled are kept, because nobody is known to have folded their keys. The old rows are judged by the contract as it
    is now; of those that were rejected only the payload is left, so they stay rejected.
    """
    former = log.read(spark, landing.log_version).filter(F.col("_window") == landing.window.key)
    fresh = judged
    if carried := table.source.carried(landing.position):
        gone = spark.createDataFrame([(name,) for name in carried], "file string")
        kept = former.filter(F.col("_kind").isin(UPSERT, DELETE, REJECTED)).select(*judged.columns)
        broken = F.when(F.col("_kind") == UPSERT, table.contract.reasons()).otherwise(F.col("_reasons"))
        kept = kept.withColumn("_reasons", broken).withColumn(
            "_kind", F.when((F.col("_kind") == UPSERT) & (F.size("_reasons") > 0), REJECTED).otherwise(F.col("_kind"))
        )
        fresh = judged.unionByName(kept.join(gone, kept["_source.file"] == gone["file"], "left_semi"))
    new = fresh.filter(F.col("_kind").isin(UPSERT, DELETE)).select("_kind", "_hash", *map(col, table.identity))
    old = former.filter(F.col("_kind").isin(UPSERT, DELETE)).select("_kind", "_hash", *map(col, table.identity))
    taken = old.join(new, ["_kind", "_hash", *table.identity], "left_anti").select(*map(col, table.identity))
    if not landing.settled:
        marked = former.filter(F.col("_kind") == REPLACED).select(*map(col, table.identity))
        taken = taken.unionByName(marked)
    markers = taken.distinct().withColumn("_kind", F.lit(REPLACED))
    return fresh.unionByName(markers, allowMissingColumns=True)
