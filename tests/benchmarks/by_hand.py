"""What people write who have no loader: read a file of changes, take the newest change of each key, merge."""

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from incload_assets.delta.tuning import SMALL
from tests.benchmarks.items import Batch

Way = Callable[[str, Batch], object]
"""Brings a round's changes into the table at a place."""

SCHEMA = "id string, value string, seq bigint, day date"
NO_COPIES = {
    "spark.databricks.delta.merge.repartitionBeforeWrite.enabled": "false",
    "spark.databricks.delta.merge.materializeSource": "none",
}
"""Settings for a MERGE whose source is a file that stands still and whose target is one partition."""
TUNED = {**SMALL, **NO_COPIES}
"""The same for a small one: hash joins in one partition, interpreted as small loads are (``loading/tuning.py``)."""

NEWEST = (
    "SELECT id, value, seq, day FROM "
    "(SELECT *, row_number() OVER (PARTITION BY id ORDER BY seq DESC) AS place FROM read) WHERE place = 1"
)


def merge_partition(spark: SparkSession) -> Way:
    """With the partition as a literal, so that nothing else is read; the newer sequence wins."""

    def run(uri: str, batch: Batch) -> None:
        _read(spark, batch.file)
        _merge(spark, uri, f"t.id = s.id AND t.day = s.day AND t.day = DATE'{batch.day}'", "AND s.seq > t.seq")

    return run


def merge_carefully(spark: SparkSession) -> Way:
    """As careful teams do it: what was read is kept, merged from there, and counted on both sides."""

    def run(uri: str, batch: Batch) -> None:
        kept, of = f"{uri}_read", f"window = '{batch.window}'"
        spark.sql(f"CREATE TABLE IF NOT EXISTS delta.`{kept}` ({SCHEMA}, window string) USING delta "
                  "PARTITIONED BY (window)")  # fmt: skip
        read = spark.read.schema(SCHEMA).json(f"{batch.file}").selectExpr("*", f"'{batch.window}' AS window")
        read.write.format("delta").mode("overwrite").option("replaceWhere", of).save(kept)
        spark.sql(f"SELECT * FROM delta.`{kept}` WHERE {of}").createOrReplaceTempView("read")
        place = f"t.day = DATE'{batch.day}'"
        _merge(spark, uri, f"t.id = s.id AND t.day = s.day AND {place}", "AND s.seq > t.seq")
        counted = spark.sql(
            f"SELECT (SELECT count(*) FROM read) AS kept, (SELECT count(DISTINCT id) FROM read) AS keys, "
            f"(SELECT count(*) FROM delta.`{uri}` t WHERE {place} AND t.id IN (SELECT id FROM read)) AS merged"
        ).first()
        assert counted is not None and counted["kept"] == read.count() and counted["keys"] == counted["merged"]

    return run


def merge_key(spark: SparkSession, newer: str = "AND s.seq > t.seq") -> Way:
    """By key alone.

    Args:
        spark: The session.
        newer: Which rows are updated; nothing: all of them.
    """

    def run(uri: str, batch: Batch) -> None:
        _read(spark, batch.file)
        _merge(spark, uri, "t.id = s.id", newer)

    return run


def merge_refresh(spark: SparkSession) -> Way:
    """By key alone, of rows that are new, and deletes."""
    newest = NEWEST.replace("seq, day FROM", "seq, day, op FROM", 1)

    def run(uri: str, batch: Batch) -> None:
        spark.read.schema(f"{SCHEMA}, op string").json(f"{batch.file}").createOrReplaceTempView("read")
        spark.sql(
            f"MERGE INTO delta.`{uri}` t USING ({newest}) s ON t.id = s.id "
            "WHEN MATCHED AND s.op = 'd' AND s.seq >= t.seq THEN DELETE WHEN NOT MATCHED AND s.op <> 'd' THEN "
            "INSERT (id, value, seq, day) VALUES (s.id, s.value, s.seq, s.day)"
        ).first()

    return run


def merge_versions(spark: SparkSession) -> Way:
    """A history: changed keys come twice, to close the current version, and without a key to match, to insert one."""

    def run(uri: str, batch: Batch) -> None:
        _read(spark, batch.file)
        source = (
            f"WITH s AS ({NEWEST}) SELECT s.id AS found, s.* FROM s UNION ALL SELECT NULL AS found, s.* FROM s "
            f"JOIN delta.`{uri}` t ON s.id = t.id AND t.is_current AND s.value <> t.value"
        )
        spark.sql(
            f"MERGE INTO delta.`{uri}` t USING ({source}) s ON t.id = s.found AND t.is_current "
            "WHEN MATCHED AND s.value <> t.value THEN UPDATE SET valid_to = s.seq, is_current = false "
            "WHEN NOT MATCHED THEN INSERT (id, value, seq, day, valid_from, valid_to, is_current) "
            "VALUES (s.id, s.value, s.seq, s.day, s.seq, NULL, true)"
        ).first()

    return run


def rewrite_partition(spark: SparkSession) -> Way:
    """Nothing but reading the partition and writing it, once."""

    def run(uri: str, batch: Batch) -> None:
        place = f"day = DATE'{batch.day}'"
        rows = spark.read.format("delta").load(uri).filter(place)
        rows.write.format("delta").mode("overwrite").option("replaceWhere", place).save(uri)

    return run


def reload_from(spark: SparkSession, source: str | None = None) -> Way:
    """The table written again.

    Args:
        spark: The session.
        source: Uri of a Delta table that holds what the table should; None: what it does hold.
    """

    def run(uri: str, _: Batch) -> None:
        spark.read.format("delta").load(source or uri).write.format("delta").mode("overwrite").save(uri)

    return run


def delta_rs(uri: str, batch: Batch) -> None:
    """Without Spark: pyarrow reads, delta-rs merges into the partition."""
    merger = DeltaTable(uri).merge(
        _newest(batch),
        f"t.id = s.id AND t.day = s.day AND t.day = '{batch.day}'",
        source_alias="s",
        target_alias="t",
    )
    merger.when_matched_update_all("s.seq > t.seq").when_not_matched_insert_all().execute()


def with_dlt(folder: Path) -> Way:
    """As the documentation of dlt has it: Arrow tables upserted into a Delta table of a file system.

    It is spared what it does not do: the newest change of each key is taken before, by pyarrow. And it is told that the
    partition belongs to the key, without which it reads the whole table.

    Args:
        folder: Where it keeps its state.
    """
    # it would tell its makers of each run, and us that our date is a date
    os.environ |= {"RUNTIME__DLTHUB_TELEMETRY": "false", "RUNTIME__LOG_LEVEL": "ERROR"}
    import dlt  # needs the extra "benchmarks"

    def run(uri: str, batch: Batch) -> None:
        lake, name = Path(uri).parent, Path(uri).name
        (lake / "init").write_text('{"initial_version": 2, "current_version": 2}')  # dlt takes the folder for its own
        # names of datasets lose their signs otherwise
        place = dlt.destinations.filesystem(f"file://{lake.parent}", enable_dataset_name_normalization=False)
        pipeline = dlt.pipeline(name, pipelines_dir=f"{folder}", destination=place, dataset_name=lake.name)
        pipeline.run(
            _newest(batch),
            table_name=name,
            table_format="delta",
            write_disposition={"disposition": "merge", "strategy": "upsert"},
            primary_key=("id", "day"),
            columns={"day": {"partition": True}},
        ).raise_on_failed_jobs()

    return run


def _newest(batch: Batch) -> pa.Table:
    """The newest change of each key, read by pyarrow."""
    kept = pa.schema([("id", pa.string()), ("value", pa.string()), ("seq", pa.int64()), ("day", pa.string())])
    options = pyarrow.json.ParseOptions(explicit_schema=kept, unexpected_field_behavior="ignore")
    read = pyarrow.json.read_json(batch.file, parse_options=options)
    newest = read.group_by("id").aggregate([("seq", "max")]).rename_columns(["id", "seq"])
    changes = newest.join(read, ["id", "seq"], join_type="inner").select(kept.names)
    return changes.set_column(3, "day", pc.cast(changes["day"], pa.date32()))


def _read(spark: SparkSession, file: Path) -> None:
    spark.read.schema(SCHEMA).json(f"{file}").createOrReplaceTempView("read")


def _merge(spark: SparkSession, uri: str, matched: str, newer: str) -> None:
    spark.sql(
        f"MERGE INTO delta.`{uri}` t USING ({NEWEST}) s ON {matched} "
        f"WHEN MATCHED {newer} THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    ).first()
