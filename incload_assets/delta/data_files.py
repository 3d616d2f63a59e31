"""Rows of a Delta table, read from data files whose names are known already.

After each commit to a table Delta's reader works out its state anew, a Spark job of its own, and to read a version it
lists all commits: a tenth of a small load. Which files make a version deltalake has told the load before, and a data
file never changes. So a few files of a table that is nothing but Parquet files are read as such; see Delta's protocol,
*Data Files* and *Reader Features*.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from urllib.parse import unquote

import pyarrow as pa
import pyspark.sql.types as T
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from incload_assets.delta.sql import col, union_of
from incload_assets.delta.tables import schema_of
from resources.lake import bytes_of

MAX_FILES = 32
"""Of more Spark has its tasks look whether they are there."""
MAX_PARTITIONS = 8
"""Each is a branch of the query."""
ONE_TASK_BYTES = 2 * 2**20
"""What one task reads, so that nothing needs to be shuffled."""

_PLAIN = {"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"}
"""Reader features that do not concern data files; others mark rows as deleted, name columns otherwise, and so on."""
_PATTERN = set("*?[]{}\\")
"""What Spark takes for a pattern in a file's name."""

Value = str | int | date | None
"""Of a partition column."""


@dataclass(frozen=True)
class ParquetFiles:
    """Some data files of one version of a table.

    Args:
        folder: Of the table, as Spark names it.
        schema: Of the table.
        place: Its partition columns.
        names: Of the files, relative to the folder, by the values of these columns.
        size: In bytes.
    """

    folder: str
    schema: T.StructType
    place: tuple[str, ...]
    names: Mapping[tuple[Value, ...], Sequence[str]]
    size: int

    def read(self, spark: SparkSession) -> DataFrame:
        """Their rows, with the columns of the table."""
        if not self.names:
            return spark.createDataFrame([], self.schema)
        rows = union_of(self._in(spark, values) for values in self.names)
        return rows.coalesce(1) if self.size <= ONE_TASK_BYTES else rows

    def _in(self, spark: SparkSession, values: tuple[Value, ...]) -> DataFrame:
        """The rows of one partition, whose values its files do not hold."""
        stored = T.StructType([field for field in self.schema.fields if field.name not in self.place])
        reader = spark.read.schema(stored).option("ignoreMissingFiles", False).option("ignoreCorruptFiles", False)
        rows = reader.parquet(*(f"{self.folder}/{name}" for name in self.names[values]))
        known = dict(zip(self.place, values, strict=True))
        return rows.select(
            *(
                F.lit(_spelled(known[f.name])).cast(f.dataType).alias(f.name) if f.name in known else col(f.name)
                for f in self.schema.fields
            )
        )


def _spelled(value: Value) -> str | int | None:
    """A date as text: on its way to the server it would go through a calendar and a zone that may not have it."""
    return value.isoformat() if isinstance(value, date) else value


def parquet_files(delta: DeltaTable, folder: str, files: pa.Table) -> ParquetFiles | None:
    """Some data files of a table.

    Args:
        delta: The table.
        folder: It, as Spark names it.
        files: Of :func:`resources.lake.data_files`.

    Returns:
        None where Delta has to read them: they are many, or more than Parquet files.
    """
    protocol = delta.protocol()
    plain = protocol.min_reader_version == 1 or (
        protocol.min_reader_version == 3 and _PLAIN.issuperset(protocol.reader_features or ())
    )
    if not plain or files.num_rows > MAX_FILES or _PATTERN & set(folder):
        return None
    place = tuple(delta.metadata().partition_columns)
    names: dict[tuple[Value, ...], list[str]] = defaultdict(list)
    try:
        found = files.select(["path", *(f"partition.{column}" for column in place)]).to_pylist()
    except (ValueError, OverflowError):  # years that Python does not know
        return None
    for file in found:
        values, name = tuple(file[f"partition.{column}"] for column in place), unquote(file["path"])
        if any(type(value) not in (str, int, date, type(None)) for value in values):
            return None  # instants, above all: written down in one zone, read in another
        if ":/" in name or name.startswith("/") or _PATTERN & set(name):
            return None  # a file of another table, of which this one is a clone
        names[values].append(name)
    if len(names) > MAX_PARTITIONS:
        return None
    return ParquetFiles(folder, schema_of(delta), place, names, bytes_of(files))
