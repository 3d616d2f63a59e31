"""Parquet, with the files' own types.

Spark takes the schema of many files from one of them, so files are grouped by the schema in their footers.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import cast

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import AnalysisException
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from incload_assets.loading.errors import SourceUnreadable
from incload_assets.loading.sources.read_errors import read_error
from incload_assets.loading.sources.records import TIMES_AS_JSON, Records, key_column, source_column, spark_path
from incload_assets.loading.sources.storage import store_errors, store_of
from incload_assets.loading.sources.template import Template

Schema = tuple[tuple[str, pa.DataType], ...]


def read_parquet(
    spark: SparkSession, table: str, template: Template, paths: Sequence[str], fields: Sequence[str]
) -> list[Records]:
    """The rows of the files, one group per schema; ``_source.block`` is 0 and ``row`` counts through the file.

    Args:
        spark: The session.
        table: For messages.
        template: Which turns paths into keys.
        paths: Full paths.
        fields: Names of the members of ``_raw``.

    Raises:
        SourceUnreadable: A footer cannot be read, or two columns differ in case only.
    """
    groups: dict[Schema, list[str]] = {}
    with ThreadPoolExecutor(16) as readers:
        schemas = list(readers.map(lambda path: schema_of(table, template, path), paths))
    for path, schema in zip(paths, schemas, strict=True):
        groups.setdefault(schema, []).append(path)
    records = []
    for schema, found in groups.items():
        try:
            records.append(_read_group(spark, template, schema, found, fields))
        except AnalysisException as error:
            raise read_error(table, error) or SourceUnreadable(
                f"{table}: Spark does not know a type in the schema of {template.name_of(found[0])}"
                f" ({error.getCondition()})",
                remedy="write the file with types that Spark reads, for example no time of day",
            ) from error
    return records


def schema_of(table: str, template: Template, path: str) -> Schema:
    """The columns of a file by name, read from its footer.

    Raises:
        SourceUnreadable: The footer cannot be read, or two columns differ in case only.
        SourceChanged: The file has vanished.
    """
    key = template.name_of(path)
    with store_errors(table, path, key), store_of(path).open(path, "rb", cache_type="none") as file:
        try:
            schema = pq.read_schema(file)
        except pa.ArrowInvalid:
            raise SourceUnreadable(
                f"{table}: the file {key} is not a whole Parquet file",
                rule="a Parquet file ends with a footer",
                remedy="write the file again; it may have been cut off",
            ) from None
    names = [name.casefold() for name in schema.names]
    for name in schema.names:
        if names.count(name.casefold()) > 1:
            raise SourceUnreadable(
                f"{table}: the file {key} has several columns {name!r}, upper and lower case aside",
                rule="Spark does not tell such Parquet columns apart",
                remedy="write the file with different names",
            )
    return tuple(sorted((field.name, field.type) for field in schema))


def _read_group(
    spark: SparkSession, template: Template, schema: Schema, paths: Sequence[str], fields: Sequence[str]
) -> Records:
    nanoseconds = {name for name, kind in schema if pa.types.is_timestamp(kind) and kind.unit == "ns"}
    if nanoseconds:
        # pandas writes these; Spark reads them only as the number they are stored as
        spark.conf.set("spark.sql.legacy.parquet.nanosAsLong", "true")
    frame = spark.read.option("mergeSchema", "false").parquet(*map(spark_path, paths))
    metadata = frame.metadataColumn("_metadata")
    zones = {name: kind.tz for name, kind in schema if name in nanoseconds}
    values = {name: _column(name, zones) for name, _ in schema}
    rescued = [values[name].alias(name) for name in values if name not in fields]
    records = frame.select(
        F.struct(*(values.get(field, F.lit(None)).alias(field) for field in fields)).alias("_raw"),
        F.to_json(F.struct(*(value.alias(name) for name, value in values.items())), TIMES_AS_JSON).alias("_payload"),
        (F.to_json(F.struct(*rescued), TIMES_AS_JSON) if rescued else F.lit(None).cast("string")).alias("_rescued"),
        F.lit(None).cast("string").alias("_malformed"),
        key_column(template, metadata["file_path"]).alias("__file"),
        F.lit(0).alias("__block"),
        (metadata["row_index"] + 1).alias("__row"),
    )
    raw = cast(StructType, records.schema["_raw"].dataType)
    return Records(
        records.select("_raw", "_payload", "_rescued", "_malformed", source_column()),
        [raw[field].dataType if field in values else None for field in fields],
    )


def _column(name: str, zones: dict[str, str | None]) -> Column:
    column = F.col(f"`{name.replace('`', '``')}`")
    if name not in zones:
        return column
    instant = F.timestamp_micros(F.floor(column / 1000))
    return instant if zones[name] else instant.cast("timestamp_ntz")
