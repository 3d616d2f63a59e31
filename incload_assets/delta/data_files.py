"""Reads rows of a Delta table directly from data files whose names are already known, which never change.

After each commit, Delta's reader recomputes the table's state in a Spark job, and to read a version it lists all
commits: a tenth of a small load. The load has the file names from deltalake, so a few files of a table that consists
only of Parquet files are read as such; see Delta's protocol, *Data Files* and *Reader Features*.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from urllib.parse import unquote

import pyarrow as pa
import pyspark.sql.types as T
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from incload_assets.delta.tables import schema_of
from incload_assets.platform.lake import bytes_of
from incload_assets.platform.sql import col, union_of

MAX_FILES = 32
"""Most files that are read directly: for more, Spark starts tasks to check that they exist."""
MAX_PARTITIONS = 8
"""Most partitions that are read directly: each is a branch of the query."""
ONE_TASK_BYTES = 2 * 2**20
"""Up to this size a single task reads all rows, so that no shuffle is needed."""

_PLAIN = {"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"}
"""Reader features that do not affect data files. Other features mark rows as deleted, rename columns, and so on."""
_PATTERN = set("*?[]{}\\")
"""Characters that Spark interprets as a pattern in a file name."""

Value = str | int | date | None
"""The value of a partition column."""


@dataclass(frozen=True)
class ParquetFiles:
    """Some data files of one version of a table, relative to its folder, by the values of the partition columns."""

    folder: str
    schema: T.StructType
    place: tuple[str, ...]
    names: Mapping[tuple[Value, ...], Sequence[str]]
    size: int

    def read(self, spark: SparkSession) -> DataFrame:
        """Reads the rows of the files, with the table's columns."""
        if not self.names:
            return spark.createDataFrame([], self.schema)
        rows = union_of(self._in(spark, values) for values in self.names)
        return rows.coalesce(1) if self.size <= ONE_TASK_BYTES else rows

    def without(self, names: Collection[str]) -> "ParquetFiles":
        """The other files."""
        kept = {values: [name for name in some if name not in names] for values, some in self.names.items()}
        return replace(self, names={values: some for values, some in kept.items() if some})

    def _in(self, spark: SparkSession, values: tuple[Value, ...]) -> DataFrame:
        """Reads the rows of one partition, and adds the partition columns, which the files do not contain."""
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
    """A date as text: a date object is converted on its way to the server, in a calendar and zone that may lack it."""
    return value.isoformat() if isinstance(value, date) else value


def parquet_files(delta: DeltaTable, folder: str, files: pa.Table) -> ParquetFiles | None:
    """Some files of a table; None if there are too many, or the table uses more than plain Parquet files."""
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
    except (ValueError, OverflowError):  # years outside Python's range
        return None
    for file in found:
        values, name = tuple(file[f"partition.{column}"] for column in place), unquote(file["path"])
        if any(type(value) not in (str, int, date, type(None)) for value in values):
            return None  # above all instants, which are written in one time zone and read in another
        if ":/" in name or name.startswith("/") or _PATTERN & set(name):
            return None  # this table is a clone, and the file belongs to the original
        names[values].append(name)
    if len(names) > MAX_PARTITIONS:
        return None
    return ParquetFiles(folder, schema_of(delta), place, names, bytes_of(files))
