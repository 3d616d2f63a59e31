"""The log of a table's changes (``_changes/<table>``): its shape, its control rows, and what they tell.

A window's rows live in one Delta partition ``_window``; ``_kind`` is the second partition column, so that the deletes
of all windows, and the control rows, are found without reading the changes themselves.
"""

from collections.abc import Collection, Iterator, Mapping
from functools import cached_property

import pyspark.sql.types as T
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from incload_assets.change_log.window_records import WINDOW_RECORD_TYPE, WindowRecord, window_records_of
from incload_assets.declaration.source import Position
from incload_assets.declaration.table import Table
from incload_assets.delta.data_files import parquet_files
from incload_assets.delta.sql import quoted
from resources.lake import Lake, data_files, files_in

_SOURCE_TYPE = T.StructType(
    [
        T.StructField("file", T.StringType()),
        T.StructField("block", T.LongType()),
        T.StructField("row", T.LongType()),
    ]
)

_RANGED = (T.NumericType, T.StringType, T.DateType, T.TimestampType, T.TimestampNTZType)
"""Types of which Delta keeps ranges."""

_COMMITS_KEPT = {
    "delta.logRetentionDuration": "interval 2 days",
    "delta.deletedFileRetentionDuration": "interval 2 days",  # Delta allows no longer one
    "delta.checkpointInterval": "10",  # on S3, whoever opens the log asks for each commit since
}
"""Of the log's commits, not of its changes. Whoever reads a version has Delta list all commits that it keeps, some ten
times a load: 5,000 of them, a month of a load every eight minutes, made a small load a quarter longer, on a local disk.
A load reads the version that it began with, none older.
"""


class ChangeLog:
    """The log of one table.

    Args:
        table: The declaration.
        lake: Where tables are.
    """

    def __init__(self, table: Table, lake: Lake) -> None:
        self.table, self.lake = table, lake
        self.uri = lake.log_uri(table.key.path)

    @cached_property
    def schema(self) -> T.StructType:
        """The columns of the log; all are nullable, because rejected rows and control rows live here too."""
        own = [T.StructField(f.name, f.data_type) for f in self.table.contract.fields]
        engine = [
            T.StructField("_window", T.StringType()),
            T.StructField("_kind", T.StringType()),
            T.StructField("_hash", T.LongType()),
            T.StructField("_source", _SOURCE_TYPE),
            T.StructField("_reasons", T.ArrayType(T.StringType())),
            T.StructField("_payload", T.StringType()),
            T.StructField("_rescued", T.StringType()),
            T.StructField("_control", WINDOW_RECORD_TYPE),
        ]
        if self.table.by_column:
            engine.append(T.StructField("_unset", T.ArrayType(T.StringType())))
        if self.table.changes.snapshot_when:
            engine.append(T.StructField("_is_snapshot", T.BooleanType()))
        return T.StructType(own + engine)

    @property
    def validated(self) -> list[str]:
        """The columns of all rows but control rows."""
        return [name for name in self.schema.names if name != "_control"]

    @property
    def ranged(self) -> list[str]:
        """The columns that the log is filtered by, of which Delta keeps ranges."""
        columns = dict.fromkeys([*self.table.identity, *self.table.changes.sequence_by])
        if (place := self.table.write.partition_by) is not None:
            columns[place] = None
        return [name for name in columns if isinstance(self.table.type_of(name), _RANGED)]

    @property
    def properties(self) -> dict[str, str]:
        """Delta keeps the latest commits, and ranges of those columns alone that the log is filtered by.

        Ranges of all, of members of control rows among them, were a quarter of the time that a small ingestion took.
        """
        ranges = {"delta.dataSkippingStatsColumns": ", ".join(map(quoted, self.ranged))}
        return _COMMITS_KEPT | (ranges if self.ranged else {"delta.dataSkippingNumIndexedCols": "0"})

    def version(self) -> int | None:
        """The log's present Delta version, None where there is no log yet."""
        return self.lake.version(self.uri)

    def open(self) -> DeltaTable:
        """The log as it is now; it is there since the load began."""
        delta = self.lake.delta(self.uri)
        assert delta is not None
        return delta

    def read(self, spark: SparkSession, version: int, windows: Collection[str] | None = None) -> DataFrame:
        """The log as of a version; of some windows alone where their partition keys are given."""
        folder = self.lake.spark_uri(self.uri)
        if windows is not None and (delta := self.lake.delta(self.uri, version)) is not None:
            files = parquet_files(delta, folder, files_in(data_files(delta), "_window", [*windows]))
            if files is not None:
                return files.read(spark)
        rows = spark.read.format("delta").option("versionAsOf", version).load(folder)
        return rows if windows is None else rows.filter(F.col("_window").isin(*windows))

    def control(self, window: str, version: int | None = None) -> WindowRecord | None:
        """The control row of a window, read without Spark."""
        return self.controls(version, only=[window]).get(window)

    def controls(self, version: int | None = None, *, only: Collection[str] | None = None) -> dict[str, WindowRecord]:
        """The control rows of all windows, or of some, by partition key."""
        delta = self.lake.delta(self.uri, version)
        return {} if delta is None else window_records_of(delta, only=only)

    @property
    def ingested(self) -> "Landed":
        """The positions of earlier loads, read only when asked for."""
        return Landed(self)


class Landed(Mapping[str, Position]):
    """Positions by partition key: one is read for one question, all are read for a question about all."""

    def __init__(self, log: ChangeLog) -> None:
        self._log = log
        self._one: dict[str, Position | None] = {}

    @cached_property
    def _all(self) -> dict[str, Position]:
        return {key: control.as_position() for key, control in self._log.controls().items()}

    def __getitem__(self, key: str) -> Position:
        if "_all" in self.__dict__:
            return self._all[key]
        if key not in self._one:
            control = self._log.control(key)
            self._one[key] = control.as_position() if control else None
        if (position := self._one[key]) is None:
            raise KeyError(key)
        return position

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)
