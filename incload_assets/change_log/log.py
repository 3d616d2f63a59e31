"""The change log of a table (``_changes/<table>``): its columns, properties and window records.

A window's rows are in one Delta partition ``_window``; ``_kind`` is the second partition column, so that the deletes of
all windows, and the window records, are found without reading the changes.
"""

from collections.abc import Collection, Iterator, Mapping
from functools import cached_property

import pyarrow as pa
import pyspark.sql.types as T
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from incload_assets.change_log.window_records import (
    BASE,
    WINDOW_RECORD_TYPE,
    WindowRecord,
    ingested_windows,
    window_records_of,
)
from incload_assets.contract.adaptation import BUCKETS_PROPERTY, NO_BUCKETS, THEN
from incload_assets.declaration.source import Position
from incload_assets.declaration.table import Table
from incload_assets.declaration.write import AUTO
from incload_assets.delta.data_files import parquet_files
from incload_assets.platform.lake import Lake, data_files, files_in
from incload_assets.platform.sql import quoted

_SOURCE_TYPE = T.StructType(
    [
        T.StructField("file", T.StringType()),
        T.StructField("block", T.LongType()),
        T.StructField("row", T.LongType()),
    ]
)

_RANGED = (T.NumericType, T.StringType, T.DateType, T.TimestampType, T.TimestampNTZType)
"""Types of columns that get ranges in Delta's statistics."""

_COMMITS_KEPT = {
    "delta.logRetentionDuration": "interval 2 days",
    "delta.deletedFileRetentionDuration": "interval 2 days",  # Delta requires at most the log's retention
    "delta.checkpointInterval": "10",  # on S3, opening the log requests each commit since the checkpoint
}
"""Retention of the log's commits, not of its changes; a load reads no version older than the one that it began with.

To read a version Delta lists all commits that it keeps, some ten times per load: 5,000 of them, from a month with a
load every eight minutes, made a small load a quarter longer, on a local disk.
"""


def numbers_of_buckets(log: DeltaTable) -> list[int | None]:
    """The numbers of buckets that the table of a log, or a table, has had, oldest first; None: not divided then."""
    known = log.metadata().configuration.get(BUCKETS_PROPERTY, NO_BUCKETS)
    return [None if number == NO_BUCKETS else int(number) for number in known.split(THEN)]


def as_decided(table: Table, lake: Lake) -> Table:
    """The table with the number of buckets that its first load has chosen, if its declaration leaves that open.

    As long as no load has created it, it stays open.
    """
    if table.write.buckets != AUTO:
        return table
    made, log = lake.delta(lake.table_uri(table.key.path)), lake.delta(lake.log_uri(table.key.path))
    if made is not None:
        return table.divided_into(numbers_of_buckets(made)[-1])
    if log is not None and BUCKETS_PROPERTY in log.metadata().configuration:  # the table was lost
        return table.divided_into(numbers_of_buckets(log)[-1])
    return table


class ChangeLog:
    """The change log of one table."""

    def __init__(self, table: Table, lake: Lake) -> None:
        self.table, self.lake = table, lake
        self.uri = lake.log_uri(table.key.path)

    @cached_property
    def schema(self) -> T.StructType:
        """The columns of the log. All are nullable, because the log also has rejected rows and window records."""
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
        """The columns of all rows except window records."""
        return [name for name in self.schema.names if name != "_control"]

    @property
    def ranged(self) -> list[str]:
        """The columns that the log is filtered by, and that get ranges in Delta's statistics."""
        columns = dict.fromkeys([*self.table.identity, *self.table.changes.sequence_by])
        if (place := self.table.write.partition_by) is not None:
            columns[place] = None
        return [name for name in columns if isinstance(self.table.type_of(name), _RANGED)]

    @property
    def properties(self) -> dict[str, str]:
        """Table properties of the log: a short retention of commits, and ranges only of columns that it is filtered by.

        Ranges of all columns, including members of window records, took a quarter of the time of a small ingestion.
        """
        ranges = {"delta.dataSkippingStatsColumns": ", ".join(map(quoted, self.ranged))}
        return _COMMITS_KEPT | (ranges if self.ranged else {"delta.dataSkippingNumIndexedCols": "0"})

    def buckets_of(self, log: DeltaTable, recorded: int | None) -> int | None:
        """The number of buckets that a window record is of; None: the table was not divided then."""
        return numbers_of_buckets(log)[0] if recorded is None else recorded or None

    def version(self) -> int | None:
        """The log's present Delta version; None if there is no log yet."""
        return self.lake.version(self.uri)

    def open(self) -> DeltaTable:
        """The log's newest version; the log exists since the load began."""
        delta = self.lake.delta(self.uri)
        assert delta is not None
        return delta

    def read(self, spark: SparkSession, version: int, windows: Collection[str] | None = None) -> DataFrame:
        """The log's rows as of a version, of all windows or of those with the given partition keys."""
        folder = self.lake.spark_uri(self.uri)
        if windows is not None and (delta := self.lake.delta(self.uri, version)) is not None:
            files = parquet_files(delta, folder, files_in(data_files(delta), "_window", [*windows]))
            if files is not None:
                return files.read(spark)
        rows = spark.read.format("delta").option("versionAsOf", version).load(folder)
        return rows if windows is None else rows.filter(F.col("_window").isin(*windows))

    def record(self, window: str, version: int | None = None) -> WindowRecord | None:
        """The window record of a window, read without Spark."""
        return self.records(version, only=[window]).get(window)

    def records(self, version: int | None = None, *, only: Collection[str] | None = None) -> dict[str, WindowRecord]:
        """The window records of all windows, or of some keys, by partition key; of base rows only by their keys."""
        delta = self.lake.delta(self.uri, version)
        found = {} if delta is None else self.records_in(delta, only=only)
        return {key: record for key, record in found.items() if only is not None or not key.startswith(BASE)}

    def files(self, at: DeltaTable) -> pa.Table:
        """The data files of a version of the log, as :func:`incload_assets.platform.lake.data_files` returns them."""
        return data_files(at)

    def records_in(self, at: DeltaTable, *, only: Collection[str] | None = None) -> dict[str, WindowRecord]:
        """The window records in a version of the log, of all windows or of some, by partition key."""
        return window_records_of(at, only=only)

    def ingested_keys(self, at: DeltaTable) -> list[str]:
        """The partition keys of all windows in a version of the log, in any order."""
        return ingested_windows(at)

    @property
    def ingested(self) -> "IngestedPositions":
        """The positions of earlier loads, read on first use."""
        return IngestedPositions(self)


class IngestedPositions(Mapping[str, Position]):
    """Positions by partition key: a lookup reads one of them, an iteration all of them."""

    def __init__(self, log: ChangeLog) -> None:
        self._log = log
        self._one: dict[str, Position | None] = {}

    @cached_property
    def _all(self) -> dict[str, Position]:
        return {key: record.as_position() for key, record in self._log.records().items()}

    def __getitem__(self, key: str) -> Position:
        if "_all" in self.__dict__:
            return self._all[key]
        if key not in self._one:
            record = self._log.record(key)
            self._one[key] = record.as_position() if record else None
        if (position := self._one[key]) is None:
            raise KeyError(key)
        return position

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)
