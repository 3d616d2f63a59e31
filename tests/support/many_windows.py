"""A table of many small windows that log and table hold without a load, for what looks at all of them at once."""

from datetime import datetime, timedelta
from pathlib import Path
from uuid import uuid4

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from incload_assets.change_log.commit import commit
from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.file_statistics import statistics_of
from incload_assets.change_log.staged import FOLDER, Staged, StagedFile
from incload_assets.declaration.source import Position
from incload_assets.declaration.window import Window, known_windows
from incload_assets.ingest.facts import Facts
from incload_assets.ingest.ingest import window_record_of
from incload_assets.ingest.ingestion import Ingestion
from incload_assets.load.tables import ensure_tables
from incload_assets.platform.sql import content_hash_sql
from incload_assets.trial.literal_source import LiteralSource
from incload_assets.writes.merge import Merge
from tests.support.tables import DatedItem, Loaded, make

HOURS = dg.HourlyPartitionsDefinition("2024-01-01-00:00")
FIRST = datetime(2024, 1, 1)
SHARED_BY = 12
"""Windows that change the same key, one after the other; all are of one day."""


class UntouchableSource(LiteralSource):
    """A source that must not be asked for anything."""

    def detect(self, request: object) -> dict[str, Position]:
        """Raises."""
        raise AssertionError("the source was asked for its positions")

    def extract(self, *arguments: object) -> DataFrame:
        """Raises."""
        raise AssertionError("the source was read")


def many_windows(spark: SparkSession, folder: Path, count: int) -> Loaded:
    """A table of hourly windows of two changes each: one of a key of its own, one of a key of several windows.

    Args:
        spark: A session.
        folder: Of the lake.
        count: How many windows.
    """
    loaded = make(
        spark,
        folder,
        source=UntouchableSource({}),
        contract=DatedItem,
        write=Merge(partition_by="day"),
        partitions_def=HOURS,
    )
    load = LoadContext(spark, loaded.table, loaded.lake)
    ensure_tables(load)
    keys = [f"{FIRST + timedelta(hours=n):%Y-%m-%d-%H:%M}" for n in range(count)]
    changes = _changes(spark, loaded, count)
    with_windows = changes.withColumn("_nth", F.col("seq") - 1)
    rows: pa.Table = with_windows.orderBy("_nth", "id").toArrow()
    newest = with_windows.groupBy("id").agg(F.max("seq").alias("seq"))
    changes.join(newest, ["id", "seq"]).select(*loaded.table.schema.names).repartition(1).write.format("delta").mode(
        "append"
    ).save(loaded.uri)
    staged = Staged(load.log, spark, keys)
    stored = rows.drop_columns(["_nth"])
    folder_of_all = f"{FOLDER}/{uuid4().hex}"
    Path(load.log.uri, folder_of_all).mkdir(parents=True)
    for n, key in enumerate(keys):
        path = f"{folder_of_all}/{n}.parquet"
        file = Path(load.log.uri, path)
        pq.write_table(stored.slice(2 * n, 2), file, compression="NONE")
        statistics = statistics_of(pq.read_metadata(file), load.log.ranged)
        staged.files.append(StagedFile(path, file.stat().st_size, key, "upsert", 2, statistics))
    windows = {window.key: window for window in known_windows(HOURS, keys)}
    records = {key: window_record_of(load, _ingestion(windows[key]), _facts(n), 1) for n, key in enumerate(keys)}
    assert commit(load, staged, records, "made up", 1, note="made up")
    return loaded


def _changes(spark: SparkSession, loaded: Loaded, count: int) -> DataFrame:
    nth = spark.range(0, count, 1, 2)
    own = nth.selectExpr("concat('own ', id) AS id", "id AS n")
    shared = nth.selectExpr(f"concat('shared ', id DIV {SHARED_BY}) AS id", "id AS n")
    days = f"date_add(DATE'{FIRST:%Y-%m-%d}', CAST(n DIV 24 AS int)) AS day"
    rows = own.unionByName(shared).selectExpr("id", "concat('value ', n) AS value", "n + 1 AS seq", days)
    return rows.withColumn("_hash", F.expr(content_hash_sql(loaded.table.columns)))


def _ingestion(window: Window) -> Ingestion:
    return Ingestion(window, Position(f"content of {window.key}"), None, 0, False)


def _facts(nth: int) -> Facts:
    return Facts(rows=2, partitions=[f"{FIRST + timedelta(days=nth // 24):%Y-%m-%d}"], first_sequence=str(nth + 1))
