"""What every step of a load works with, and what it saw."""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from time import monotonic

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from incload_assets.change_log.change import CONTROL, DELETE, EMPTIES, MOVED, REJECTED
from incload_assets.change_log.log import ChangeLog
from incload_assets.change_log.read_view import ReadView, first_sequences
from incload_assets.change_log.window_records import WindowRecord, window_records_of
from incload_assets.declaration.layout import laid_out_by, touched_sql
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import Window
from incload_assets.delta.data_files import parquet_files
from incload_assets.delta.session import CachedFrame
from incload_assets.delta.statistics import is_newer, without_older
from resources.lake import Lake, bytes_in, bytes_of, data_files, files_in, rows_of


@dataclass
class Phases:
    """Time spent per phase, in seconds."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Count the time inside as part of a phase."""
        start = monotonic()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + monotonic() - start


def _nobody(_: str) -> None:
    pass


@dataclass(frozen=True)
class LoadContext:
    """A table and the means to work on it.

    Args:
        spark: A session of this load's own: the fence is a setting of the session.
        table: The declaration.
        lake: Where tables are.
        run_id: The Dagster run, for window records and commits.
        info: Takes one line for each step, for people.
        phases: Takes the times.
    """

    spark: SparkSession
    table: Table
    lake: Lake
    run_id: str = ""
    info: Callable[[str], None] = _nobody
    phases: Phases = field(default_factory=Phases)

    @cached_property
    def log(self) -> ChangeLog:
        """The log of the table's changes."""
        return ChangeLog(self.table, self.lake)

    @cached_property
    def kept(self) -> CachedFrame:
        """What its plans share."""
        return CachedFrame()

    @cached_property
    def uri(self) -> str:
        """Where the table is."""
        return self.lake.table_uri(self.table.key.path)

    def rows(self, at: "ReadView", *, near: bool = False) -> DataFrame:
        """The table as of a snapshot; where it has no files, Spark is spared the look.

        Args:
            at: The version to read, and the windows.
            near: Whether only rows of the part that the windows touch are asked for.
        """
        if not (at.near_bytes if near else at.table_bytes):
            return self.spark.createDataFrame([], self.table.schema)
        if near and at.near_files is not None:
            rows = at.near_files.read(self.spark)
        else:
            path = self.lake.spark_uri(self.uri)
            rows = self.spark.read.format("delta").option("versionAsOf", at.table_version).load(path)
        touched = touched_sql(self.table, at.partitions) if near else None
        return rows.filter(touched) if touched else rows

    def changes(self, at: "ReadView") -> DataFrame:
        """The log as of a snapshot."""
        return self.log.read(self.spark, at.log_version)

    def window_changes(self, at: "ReadView") -> DataFrame:
        """Of the log as of a snapshot: the changes of its windows, and of the others those deletes that may be newer.

        Of a log of many files there may be more.
        """
        return self.changes(at) if at.window_files is None else at.window_files.read(self.spark)

    def read_view(self, windows: tuple[Window, ...], app_id: str, *, of_range: bool = False) -> "ReadView":
        """Look at the table before the log, so that nothing merged can be missing from the log that is read.

        Args:
            windows: Landed windows.
            app_id: Identifier of the fence, unless the table has only one.
            of_range: Whether it is the fence of a range.
        """
        table = self.lake.delta(self.uri)
        log = self.log.open()
        assert table is not None
        if self.table.write.whole:
            app_id = f"{self.table.name}/*"
        keys = [window.key for window in windows]
        controls = window_records_of(log, only=keys)
        rows, changes = data_files(table), data_files(log)
        table_bytes = bytes_of(rows)
        is_here, kind = pc.field("partition._window").isin(keys), pc.field("partition._kind")
        empties = changes.filter(kind.isin([*EMPTIES]))
        here = changes.filter(is_here & ~kind.isin([CONTROL, REJECTED]))
        deletes = self._not_older(changes.filter(~is_here & (kind == DELETE)), controls.values())
        others = pa.concat_tables([deletes, changes.filter(~is_here & kind.isin([*EMPTIES]))])
        moves = bytes_of(changes.filter(kind == MOVED)) > 0
        at = ReadView(
            table.version(),
            log.version(),
            app_id,
            table.transaction_version(app_id) or 0,
            {key: controls[key] for key in keys},
            self.table.write.whole,
            of_range,
            # a row that got a new key may be in another place than what it inherits
            by_place=not moves and (self.table.write.buckets is not None or not self.table.write.whole),
            table_bytes=table_bytes,
            near_bytes=table_bytes,
            log_bytes=bytes_of(changes),
            windows_bytes=bytes_in(changes, "_window", keys) + bytes_of(others),
            others_delete=others.num_rows > 0,
            empties=bytes_in(empties, "_window", keys) > 0,
            moves=moves,
            newer=False,
            near_rows=0,
            feeds=table.metadata().configuration.get("delta.enableChangeDataFeed", "").lower() == "true",
            near_files=None,
            window_files=parquet_files(log, self.lake.spark_uri(self.log.uri), pa.concat_tables([here, others])),
        )
        values = at.partitions
        if values and (column := laid_out_by(self.table)):
            rows = files_in(rows, column, values)
        return replace(
            at,
            near_bytes=bytes_of(rows),
            near_rows=rows_of(rows),
            newer=self._is_newer(at, rows),
            near_files=parquet_files(table, self.lake.spark_uri(self.uri), rows),
        )

    def _not_older(self, deletes: pa.Table, controls: Collection[WindowRecord]) -> pa.Table:
        """Files of the log without those whose deletes are older than all changes of some windows."""
        firsts = first_sequences(controls)
        if not firsts:
            return deletes
        column = self.table.changes.sequence_by[0]
        return without_older(firsts, column, self.table.type_of(column), deletes)

    def _is_newer(self, at: "ReadView", files: pa.Table) -> bool:
        firsts = at.first_sequences
        if not firsts:
            return False
        column = self.table.changes.sequence_by[0]
        return all(is_newer(first, column, self.table.type_of(column), files) for first in firsts)
