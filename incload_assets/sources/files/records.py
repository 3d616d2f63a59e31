"""What the readers of the single formats share: paths for Spark, keys and record numbers from Spark."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession, Window, WindowSpec
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from incload_assets.delta.sql import TIMES_IN_JSON
from incload_assets.sources.files.template import Template
from resources.object_store import is_s3

TIMES_AS_JSON = {**TIMES_IN_JSON, "ignoreNullFields": "false"}
"""Options of ``to_json`` that lose neither microseconds nor the difference between NULL and absent."""

_WHOLE = {
    # whatever the session says: what cannot be read is an error
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
}
"""Options of Spark's readers, by which a file is read whole, or not at all."""
_AS_IT_LIES = {
    # else Hadoop would compare a local file with a checksum beside it, ".<name>.crc", which may be of a former content,
    # and could not read names with a colon
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    # else the session would get whichever file system it used first
    "fs.file.impl.disable.cache": "true",
}
"""And of those of local files, by which these are read whatever lies beside them.

Not of S3: who first opens a bucket gives its file system these options for as long as the server runs, and what is
written to S3 goes through local files of the usual file system.
"""

WORTH_READING_TWICE_BYTES = 8 * 2**20
_NUMBER_IN_TASK = 2**33 - 1
"""The bits of ``monotonically_increasing_id`` that hold it."""


@dataclass(frozen=True)
class Records:
    """The records of files that look alike.

    Args:
        frame: With the columns of :class:`Source`.
        types: The type of each member of ``_raw``; None where these files do not have the field.
        varied: Whether records differ in the fields they have; the frame then has a column ``_present``.
    """

    frame: DataFrame
    types: Sequence[DataType | None]
    varied: bool = False


def reader_of(spark: SparkSession, paths: Sequence[str], **options: str) -> DataFrameReader:
    """Spark's reader of files, all on S3 or none, with options."""
    return spark.read.options(**_WHOLE, **({} if all(map(is_s3, paths)) else _AS_IT_LIES), **options)


def spark_path(path: str) -> str:
    """A full path as Spark's readers take it: they expand globs, and know S3 as ``s3a``."""
    escaped = re.sub(r"([\\*?\[\]{}])", r"\\\1", path)
    return "s3a://" + escaped.removeprefix("s3://") if is_s3(path) else escaped


def key_column(template: Template, file_path: Column) -> Column:
    """The key of a file, from ``_metadata.file_path``, which is percent-encoded and has a scheme of Spark's."""
    # url_decode is made for forms, where a plus sign is a space
    decoded = F.coalesce(F.try_url_decode(F.replace(file_path, F.lit("+"), F.lit("%2B"))), file_path)
    path = F.regexp_replace(F.regexp_replace(decoded, "^file:/+", "/"), "^s3[an]://", "s3://")
    return F.substr(path, F.lit(len(template.root) + 2)) if template.root else path


def numbered(lines: DataFrame, template: Template, paths: Sequence[str] = (), size: int = 0) -> DataFrame:
    """Adds ``__row``, the number of a record in its block, and ``__file``, the key of its file.

    Spark reads a block in one task, from its beginning on, so ``monotonically_increasing_id`` grows with the position,
    by one from record to record; where there is one file only, that is its number in the task, each of which has one
    block unless Spark was told how many tasks there may be. Many records of several files are better counted from the
    first of their block on, for which the files are read once more, than sorted: to sort 400,000 takes as long as to
    parse them.

    Args:
        lines: The records, by ``__path``, ``__block`` and ``__order``, how they were read; not to be filtered after
            ``__order`` was made.
        template: Which turns paths into keys.
        paths: Of their files, if none of them was filtered since.
        size: Of these together, in bytes.
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
    """The records of one block of one file as they lie there."""
    return Window.partitionBy("__path", "__block").orderBy("__order")


def source_column() -> Column:
    """``_source``, from ``__file``, ``__block`` and ``__row``."""
    return F.struct(
        F.col("__file").alias("file"),
        F.col("__block").cast("bigint").alias("block"),
        F.col("__row").cast("bigint").alias("row"),
    ).alias("_source")
