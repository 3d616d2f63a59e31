"""The change log as a load that only shows its effect would leave it, without the commit.

The rows of the window are staged as any load stages them: in files within the log's folder that are in no version of
it. A read of this log has these rows in the place of the window's, and every other window as committed. If the process
is killed, a vacuum removes the files, as it removes the files of a killed load.
"""

import shutil
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from incload_assets.change_log.change import CONTROL, NOT_KEPT
from incload_assets.change_log.log import ChangeLog
from incload_assets.change_log.scratch import ScratchLake
from incload_assets.change_log.staged import FOLDER, UNSET, Staged, leaving_unset
from incload_assets.change_log.window_records import WindowRecord
from incload_assets.declaration import window as windows
from incload_assets.declaration.table import Table
from incload_assets.platform.lake import Lake, data_files
from incload_assets.platform.object_stores import in_object_store
from incload_assets.platform.sql import union_of


class ScratchLog(ChangeLog):
    """The change log of one table, with the rows that a load has landed in its scratch."""

    def __init__(self, table: Table, lake: ScratchLake) -> None:
        super().__init__(table, lake)
        self._scratch, self._landed = lake, lake.landed

    def take(self, staged: Staged, records: Mapping[str, WindowRecord], *, adds: bool) -> None:
        """Takes staged rows, with their records, into the scratch, which keeps their files until :meth:`discard`."""
        staged.given.update(records)
        landed = self._landed
        landed.staged.append(staged)
        landed.present = [*landed.present, staged] if adds else [staged]
        landed.records.update(records)
        landed.replaces = landed.replaces or not adds

    def discard(self) -> None:
        """Removes the staged files, and on this machine their folders."""
        for staged in self._landed.staged:
            staged.given.clear()
            staged.discard()
        # a log that does not exist leaves no folder
        if not in_object_store(self.uri) and not self._scratch.exists(self.uri):
            with suppress(OSError):
                shutil.rmtree(Path(self.uri) / FOLDER)
                for folder in (Path(self.uri), *Path(self.uri).parents):
                    folder.rmdir()  # fails at the first one with anything in it
                    if folder == Path(self.lake.root):
                        break

    def files(self, at: DeltaTable) -> pa.Table:
        """The data files of a version of the log, with those that are staged in the place of the window's."""
        found, landed = super().files(at), self._landed
        if not landed.present:
            return found
        gone = pc.field("partition._window").isin([*landed.records])
        if not landed.replaces:
            gone &= pc.field("partition._kind") == CONTROL
        new = [self._staged_files(staged, at) for staged in landed.present]
        return pa.concat_tables([found.filter(~gone), *new], promote_options="default")

    def records_in(self, at: DeltaTable, *, only: Collection[str] | None = None) -> dict[str, WindowRecord]:
        """The window records, with those that the load would write."""
        new = {key: record for key, record in self._landed.records.items() if only is None or key in only}
        return super().records_in(at, only=only) | new

    def ingested_keys(self, at: DeltaTable) -> list[str]:
        """The partition keys of all windows, and of those that the load would bring."""
        return [*{*super().ingested_keys(at), *self._landed.records}]

    def read(self, spark: SparkSession, version: int, windows: Collection[str] | None = None) -> DataFrame:
        """The log's rows, as :meth:`ChangeLog.read` returns the rows of a version."""
        landed = self._landed
        if not landed.present:
            return self._committed(spark, version, windows)
        new = union_of(staged.read() for staged in landed.present).filter(~F.col("_kind").isin(*NOT_KEPT))
        if windows is not None:
            new = new.filter(F.col("_window").isin(*windows))
        if not landed.replaces:
            return self._committed(spark, version, windows).unionByName(new)
        if windows is not None:
            left = [window for window in windows if window not in landed.records]
            return self._committed(spark, version, left).unionByName(new) if left else new
        others = self._committed(spark, version, None).filter(~F.col("_window").isin(*landed.records))
        return others.unionByName(new)

    def _committed(self, spark: SparkSession, version: int, windows: Collection[str] | None) -> DataFrame:
        """Rows of a version, with the columns that a load would add."""
        nothing = spark.createDataFrame([], self.schema)
        if not self._scratch.exists(self.uri):
            return nothing
        rows = super().read(spark, version, windows)
        if not (missing := self._scratch.lacking(self.uri, self.schema)):
            return rows
        if self.table.by_column and (added := [name for name in missing if name in self.table.columns]):
            rows = rows.withColumn(UNSET, leaving_unset(added))
        return nothing.unionByName(rows, allowMissingColumns=True)

    def _staged_files(self, staged: Staged, at: DeltaTable) -> pa.Table:
        """The staged files as ``lake.data_files`` returns committed ones: by a table of its own."""
        place = str(self._scratch.aside / f"staged{id(staged)}")
        lake, now = Lake(str(self._scratch.aside)), windows.now()
        if (files := lake.delta(place)) is None:
            files = DeltaTable.create(place, at.schema(), partition_by=at.metadata().partition_columns)
            lake.commit(files, [file.as_added(now) for file in staged.committing()], "scratch", 1)
            files.update_incremental()
        return data_files(files)
