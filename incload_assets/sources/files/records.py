"""Shared parts of the readers of all file formats: paths for Spark, file keys and record numbers."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession, Window, WindowSpec
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from incload_assets.declaration.source import WHOLE
from incload_assets.platform.object_stores import in_object_store, object_store
from incload_assets.platform.sql import TIMES_IN_JSON
from incload_assets.sources.files.template import Template

TIMES_AS_JSON = {**TIMES_IN_JSON, "ignoreNullFields": "false"}
"""Options of ``to_json`` that preserve microseconds and the difference between NULL and absent."""

_WHOLE = {
    # overrides the session's settings, so that unreadable files are errors
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
}
"""Options of Spark's readers that read a file as a whole, or not at all."""
_AS_IT_LIES = {
    # otherwise Hadoop compares a local file with the checksum in ".<name>.crc", which may be of a former content, and
    # cannot read names with a colon
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    # otherwise the session uses whichever file system it opened first
    "fs.file.impl.disable.cache": "true",
}
"""Options for local files, which are then read independently of other files beside them.

Not for object stores: the first reader of a bucket fixes its file system's options as long as the server runs, and data
written to S3 passes through local files of the usual file system.
"""

WORTH_READING_TWICE_BYTES = 8 * 2**20
_NUMBER_IN_TASK = 2**33 - 1
"""Mask of the bits of ``monotonically_increasing_id`` that hold the record's number in its task."""


@dataclass(frozen=True)
class Records:
    """The records of files with the same shape, with the columns of :meth:`Source.extract`.

    ``types`` has the type of each member of ``_raw``; None if the files do not have it. If ``varied``, records have
    different fields, and the frame has a column ``_present``.
    """

    frame: DataFrame
    types: Sequence[DataType | None]
    varied: bool = False


def in_json(shown: Mapping[str, Column], fields: Sequence[str]) -> list[Column]:
    """``_payload``, ``_rescued`` and ``_whole`` of typed records: all their fields, and those that nobody asked for.

    Args:
        shown: The fields by name, in the form in which JSON shows them.
        fields: Names of the fields that are asked for.
    """
    whole = [value.alias(name) for name, value in shown.items()]
    others = [value.alias(name) for name, value in shown.items() if name not in fields]
    payload = payload_of(F.struct(*whole)) if whole else F.lit("{}")
    rescued = F.to_json(F.struct(*others), TIMES_AS_JSON) if others else F.lit(None).cast("string")
    return [
        payload.alias("_payload"),
        rescued.alias("_rescued"),
        *([F.struct(*whole).alias(WHOLE)] if whole else []),
    ]


def payload_of(whole: Column) -> Column:
    """``_payload`` of ``_whole``."""
    return F.to_json(whole, TIMES_AS_JSON)


def reader_of(spark: SparkSession, paths: Sequence[str], **options: str) -> DataFrameReader:
    """Spark's reader for files that are all in object stores or all local, with options."""
    return spark.read.options(**_WHOLE, **({} if all(map(in_object_store, paths)) else _AS_IT_LIES), **options)


def spark_path(path: str) -> str:
    """A full path in the form that Spark's readers take: globs are escaped, and the scheme is Hadoop's."""
    escaped = re.sub(r"([\\*?\[\]{}])", r"\\\1", path)
    return object_store(path).spark_path(escaped) if in_object_store(path) else escaped


def key_column(template: Template, file_path: Column) -> Column:
    """The key of a file, from ``_metadata.file_path``, which is percent-encoded and has Spark's scheme."""
    # url_decode decodes a plus sign to a space, as in web forms
    decoded = F.coalesce(F.try_url_decode(F.replace(file_path, F.lit("+"), F.lit("%2B"))), file_path)
    path = F.regexp_replace(F.regexp_replace(decoded, "^file:/+", "/"), "^s3[an]://", "s3://")
    return F.substr(path, F.lit(len(template.root) + 2)) if template.root else path


def numbered(lines: DataFrame, template: Template, paths: Sequence[str] = (), size: int = 0) -> DataFrame:
    """Adds ``__row``, the number of a record in its block, and ``__file``, the key of its file.

    Spark reads a block in one task from its beginning, so ``monotonically_increasing_id`` grows by one from record to
    record. For a single file it contains the number of the record in its task, which reads one block unless the number
    of tasks is limited. In several files with many records, a record's number is its distance from the first record of
    its block: that reads the files once more, but sorting takes longer, 400,000 records as long as parsing them.

    ``lines`` have ``__path``, ``__block`` and ``__order``, their order of reading; they must not be filtered after it
    was computed. ``paths`` are given if no record was filtered out; ``size`` is the total in bytes.
    """
    if len(paths) == 1 and lines.sparkSession.conf.get("spark.sql.files.maxPartitionNum", None) is None:
        row = F.col("__order").bitwiseAND(_NUMBER_IN_TASK) + 1
        return lines.select("*", F.lit(template.name_of(paths[0])).alias("__file"), row.alias("__row"))
    file = key_column(template, F.col("__path")).alias("__file")
    if size < WORTH_READING_TWICE_BYTES:
        return lines.select("*", file, F.row_number().over(block_order()).alias("__row"))
    block = ["__path", "__block"]
    firsts = lines.groupBy(*block).agg(F.min("__order").alias("__first")).select("*", file)
    return lines.join(F.broadcast(firsts), block, "left").withColumn("__row", F.expr("__order - __first + 1"))


def block_order() -> WindowSpec:
    """Window over the records of one block of one file, in their order there."""
    return Window.partitionBy("__path", "__block").orderBy("__order")


def source_column() -> Column:
    """``_source``, from ``__file``, ``__block`` and ``__row``."""
    return F.struct(
        F.col("__file").alias("file"),
        F.col("__block").cast("bigint").alias("block"),
        F.col("__row").cast("bigint").alias("row"),
    ).alias("_source")
