"""The change log as the load of a window would leave it, without the commit.

The rows of the window are staged as a load stages them: in files within the log's folder that are in no version of it.
A read of this log has these rows in the place of the window's, and every other window as committed. If the preview is
killed, a vacuum removes the files, as it does those of a killed load.
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

from incload_assets.change_log.change import CONTROL, NOT_KEPT, UPSERTS
from incload_assets.change_log.log import ChangeLog
from incload_assets.change_log.staged import FOLDER, Staged
from incload_assets.change_log.window_records import WindowRecord
from incload_assets.declaration import window as windows
from incload_assets.declaration.table import Table
from incload_assets.delta.tables import schema_of
from incload_assets.platform.lake import Lake, data_files
from incload_assets.platform.object_store import is_s3
from incload_assets.what_if.preview_lake import PreviewLake


class PreviewLog(ChangeLog):
    """The change log of one table, with the rows that a load of a window would bring.

    Args:
        table: The declaration.
        lake: The preview's lake.
    """

    def __init__(self, table: Table, lake: PreviewLake) -> None:
        super().__init__(table, lake)
        self._lake = lake
        self._staged: Staged | None = None
        self._records: dict[str, WindowRecord] = {}
        self._adds = False

    def land(
        self,
        load: object,
        staged: Staged,
        controls: Mapping[str, WindowRecord],
        app_id: str,
        number: int,
        *,
        note: str,
        base: WindowRecord | None = None,
    ) -> bool:
        """Takes staged rows into this log; stands in for :func:`incload_assets.change_log.commit.commit`."""
        staged.given.update(controls)  # its files stay until the preview ends
        self._staged, self._records, self._adds = staged, dict(controls), base is not None
        return True

    def discard(self) -> None:
        """Removes the staged files, and on this machine their folders."""
        if self._staged is not None:
            self._staged.given.clear()
            self._staged.discard()
        if not is_s3(self.uri) and not self._lake.exists(self.uri):  # a log that does not exist leaves no folder, too
            with suppress(OSError):
                shutil.rmtree(Path(self.uri) / FOLDER)
                for folder in (Path(self.uri), *Path(self.uri).parents):
                    folder.rmdir()  # fails at the first one with anything in it
                    if folder == Path(self.lake.root):
                        break

    def files(self, at: DeltaTable) -> pa.Table:
        """The data files of a version of the log, with those that are staged in the place of the window's."""
        found = super().files(at)
        if self._staged is None:
            return found
        gone = pc.field("partition._window").isin([*self._records])
        if self._adds:
            gone &= pc.field("partition._kind") == CONTROL
        return pa.concat_tables([found.filter(~gone), self._staged_files(at)], promote_options="default")

    def records(self, at: DeltaTable, *, only: Collection[str] | None = None) -> dict[str, WindowRecord]:
        """The window records, with those that the load would write."""
        new = {key: record for key, record in self._records.items() if only is None or key in only}
        return super().records(at, only=only) | new

    def ingested_keys(self, at: DeltaTable) -> list[str]:
        """The partition keys of all windows, and of those that the load would bring."""
        return [*{*super().ingested_keys(at), *self._records}]

    def lacks(self, at: DeltaTable) -> list[str]:
        """The columns that a load would add to the log."""
        known = schema_of(at).names
        return [name for name in self.schema.names if name not in known]

    def read(self, spark: SparkSession, version: int, windows: Collection[str] | None = None) -> DataFrame:
        """The log's rows, as :meth:`ChangeLog.read` returns those of a version."""
        if self._staged is None:
            return self._committed(spark, version, windows)
        new = self._staged.read().filter(~F.col("_kind").isin(*NOT_KEPT))
        if windows is not None:
            new = new.filter(F.col("_window").isin(*windows))
        if self._adds:
            return self._committed(spark, version, windows).unionByName(new)
        if windows is not None:
            left = [window for window in windows if window not in self._records]
            return self._committed(spark, version, left).unionByName(new) if left else new
        others = self._committed(spark, version, None).filter(~F.col("_window").isin(*self._records))
        return others.unionByName(new)

    def _committed(self, spark: SparkSession, version: int, windows: Collection[str] | None) -> DataFrame:
        """Rows of a version, with the columns that a load would add."""
        nothing = spark.createDataFrame([], self.schema)
        if not self._lake.exists(self.uri):
            return nothing
        rows = super().read(spark, version, windows)
        if not (missing := self.lacks(self.open())):
            return rows
        if self.table.by_column and (added := [name for name in missing if name in self.table.columns]):
            unset = F.array_union(F.coalesce("_unset", F.array().cast("array<string>")), F.array(*map(F.lit, added)))
            rows = rows.withColumn("_unset", F.when(F.col("_kind").isin(*UPSERTS), unset).otherwise(F.col("_unset")))
        return nothing.unionByName(rows, allowMissingColumns=True)

    def _staged_files(self, at: DeltaTable) -> pa.Table:
        """The staged files as ``lake.data_files`` returns committed ones: by a table of its own."""
        assert self._staged is not None
        place = str(self._lake.aside / "staged")
        staged, now = Lake(str(self._lake.aside)), windows.now()
        if (files := staged.delta(place)) is None:
            files = DeltaTable.create(place, at.schema(), partition_by=at.metadata().partition_columns)
            staged.commit(files, [file.as_added(now) for file in self._staged.committing()], "preview", 1)
            files.update_incremental()
        return data_files(files)
