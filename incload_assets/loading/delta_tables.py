"""Creating a Delta table and bringing it up to its declaration."""

import json

import pyspark.sql.types as T
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from incload_assets.loading.columns import quoted
from incload_assets.loading.errors import SchemaMismatch
from resources.lake import Lake


def lost_the_race(error: PySparkException) -> bool:
    """Whether a statement failed only because another writer committed first."""
    text = str(error)
    return "DELTA_CONCURRENT" in text or "DELTA_METADATA_CHANGED" in text or "DELTA_PROTOCOL_CHANGED" in text


def ensure_table(
    spark: SparkSession, lake: Lake, uri: str, schema: T.StructType, partition_by: tuple[str, ...], table: str
) -> None:
    """Create the table, or add the columns it lacks.

    A schema change aborts every concurrent writer, so it is a commit of its own, before any load.

    Raises:
        SchemaMismatch: A column exists with another type, or the table is partitioned differently.
    """
    if lake.version(uri) is None:
        try:
            empty = spark.createDataFrame([], schema)
            empty.write.format("delta").mode("ignore").partitionBy(*partition_by).save(lake.spark_uri(uri))
        except PySparkException as error:
            if not lost_the_race(error):
                raise
    delta = lake.delta(uri)
    assert delta is not None
    if (actual := tuple(delta.metadata().partition_columns)) != partition_by:
        raise SchemaMismatch(
            f"{table}: {uri} is partitioned by {list(actual)}, declared is {list(partition_by)}",
            rule="the partitioning of an existing table cannot be changed in place",
            remedy="restore the declaration, or give the table another name and load it anew",
        )
    _add_columns(spark, lake, uri, schema, table)


def _add_columns(spark: SparkSession, lake: Lake, uri: str, schema: T.StructType, table: str) -> None:
    present = _types(lake, uri)
    for field in schema.fields:
        if field.name in present and present[field.name].simpleString() != field.dataType.simpleString():
            raise SchemaMismatch(
                f"{table}: column {field.name!r} of {uri} is {present[field.name].simpleString()}, "
                f"declared is {field.dataType.simpleString()}",
                rule="the type of an existing column is not changed by a load",
                remedy="restore the type in the contract, or add the new type under another column name",
            )
    missing = [f for f in schema.fields if f.name not in present]
    if not missing:
        return
    columns = ", ".join(f"{quoted(f.name)} {f.dataType.simpleString()}" for f in missing)
    try:
        spark.sql(f"ALTER TABLE {lake.sql_name(uri)} ADD COLUMNS ({columns})")
    except PySparkException as error:
        # Another load of the same code added them at the same moment: then they are there now.
        if not lost_the_race(error) or not {f.name for f in missing} <= set(_types(lake, uri)):
            raise


def _types(lake: Lake, uri: str) -> dict[str, T.DataType]:
    """The columns of a table as Spark types, read without Spark: Delta keeps its schema in Spark's own JSON."""
    delta = lake.delta(uri)
    assert delta is not None
    return {f.name: f.dataType for f in T.StructType.fromJson(json.loads(delta.schema().to_json())).fields}
