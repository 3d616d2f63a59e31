"""Staged rows: rows of the change log that are written but not committed until the ingestion is known to be correct.

Spark writes the rows of some windows as Parquet files into a folder of their own within the log, ``landed/<id>``, with
separate files for each kind of row. No version of the log contains these files, so no query reads them. The commit that
adds them is made without Spark (:mod:`incload_assets.change_log.commit`). So the source is read once, and the facts of
the rows are observed while they are written. An ingestion that fails removes its files. The files of a killed ingestion
are removed by a vacuum, like all files that are in no version.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import quote
from uuid import uuid4

import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pyspark.sql.types as T
from deltalake.transaction import AddAction
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from incload_assets.change_log.change import NOT_KEPT
from incload_assets.change_log.erasures import barrier_of
from incload_assets.change_log.file_statistics import statistics_of
from incload_assets.change_log.log import ChangeLog
from incload_assets.delta.sql import col, union_of
from resources.errors import IncrementalLoadError
from resources.lake import Lake
from resources.object_store import is_s3

FOLDER = "landed"
"""Folder within the log. A vacuum only lists folders of partitions, and those whose names begin with no underscore."""
UNFINISHED = "_temporary"
"""Folder in which Hadoop keeps the output of tasks that are not finished."""

_WITHOUT_MARK = {"mapreduce.fileoutputcommitter.marksuccessfuljobs": "false"}
"""Avoids the success mark, a file that is never read."""
_WITHOUT_CHECKSUMS = {
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}
"""Avoids a checksum file beside each local file. Not for S3, whose writer needs the usual local file system."""


@dataclass(frozen=True)
class StagedFile:
    """A data file that is written but not committed.

    Args:
        path: Path within the log.
        size: Size in bytes.
        window: Partition key of its rows.
        kind: Kind of its rows.
        rows: Number of rows.
        statistics: Statistics for Delta, as JSON.
    """

    path: str
    size: int
    window: str
    kind: str
    rows: int
    statistics: str

    def as_added(self, at: datetime) -> AddAction:
        """The action of a commit that adds the file to the log."""
        place = {"_window": self.window, "_kind": self.kind}
        return AddAction(
            quote(self.path, safe="/="), self.size, place, round(at.timestamp() * 1000), True, self.statistics
        )


@dataclass(frozen=True)
class Staged:
    """The rows of some windows, written but not committed.

    Args:
        log: The log that the rows will be added to.
        spark: The session.
        windows: Partition keys of all windows.
        files: The files written so far.
        given: Windows whose files were passed to a commit. These files stay, because the commit may have succeeded even
            if its answer was lost.
        barrier: The log's barrier at the beginning, see :mod:`incload_assets.change_log.erasures`.
    """

    log: ChangeLog
    spark: SparkSession
    windows: Sequence[str]
    files: list[StagedFile] = field(default_factory=list)
    given: set[str] = field(default_factory=set)
    barrier: int = field(init=False, default=0)
    _folders: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.log.table.subject is not None and (delta := self.log.lake.delta(self.log.uri)) is not None:
            object.__setattr__(self, "barrier", barrier_of(delta))

    def write(self, rows: DataFrame, columns: Collection[str] | None = None) -> bool:
        """Writes rows.

        Args:
            rows: Rows with ``_window``, ``_kind``, and other columns of the log.
            columns: Names of these columns; None: they are requested from Spark.

        Returns:
            Whether there were any rows.
        """
        folder = f"{FOLDER}/{uuid4().hex}"
        self._folders.append(folder)
        known = rows.columns if columns is None else columns
        here = [name for name in self._columns if name in known]
        # folders have the window's number in their names, because Hadoop would escape characters of a partition key
        number = F.array_position(F.array(*map(F.lit, self.windows)), F.col("_window")).alias("_window")
        place = self.log.lake.spark_uri(f"{self.log.uri}/{folder}")
        options = _WITHOUT_MARK if is_s3(self.log.uri) else _WITHOUT_MARK | _WITHOUT_CHECKSUMS
        writer = rows.select(*map(col, here), number, "_kind").write.mode("append").options(**options)
        writer.partitionBy("_window", "_kind").parquet(place)
        written = self._written(folder)
        self.files.extend(written)
        return bool(written)

    def read(self) -> DataFrame:
        """Reads all staged rows, with the columns of the log."""
        folders = sorted({file.path.partition("/_window=")[0] for file in self.files})
        if not folders:
            return self.spark.createDataFrame([], self.log.schema)
        stored = T.StructType([self.log.schema[name] for name in self._columns])
        whole = stored.add("_window", T.IntegerType()).add("_kind", T.StringType())
        places = (self.log.lake.spark_uri(f"{self.log.uri}/{folder}") for folder in folders)
        rows = union_of(self.spark.read.schema(whole).parquet(place) for place in places)
        window = F.element_at(F.array(*map(F.lit, self.windows)), F.col("_window"))
        return rows.withColumn("_window", window).select(*map(col, self.log.schema.names))

    def rows(self, window: str) -> int:
        """The number of staged rows of a window."""
        return sum(file.rows for file in self.files if file.window == window)

    def discard(self) -> None:
        """Removes files that were not passed to a commit; files that cannot be removed are left to a vacuum."""
        kept = {file.path for file in self.committing()}
        if self.given and len(kept) == len(self.files):
            return
        with suppress(OSError, IncrementalLoadError), self.log.lake.files(self.log.uri) as files:
            for folder in self._folders:
                for found in files.get_file_info(pafs.FileSelector(folder, recursive=True, allow_not_found=True)):
                    if _is_of_data(found) and found.path not in kept:
                        files.delete_file(found.path)

    def committing(self) -> list[StagedFile]:
        """The files that a commit adds; rows that are no changes are never added."""
        return [file for file in self.files if file.window in self.given and file.kind not in NOT_KEPT]

    @property
    def _columns(self) -> list[str]:
        return [name for name in self.log.schema.names if name not in ("_window", "_kind")]

    def _written(self, folder: str) -> list[StagedFile]:
        written = []
        with self.log.lake.files(self.log.uri) as files:
            for found in files.get_file_info(pafs.FileSelector(folder, recursive=True, allow_not_found=True)):
                if not _is_of_data(found):
                    continue
                place = dict(part.split("=", 1) for part in found.path.split("/") if "=" in part)
                with files.open_input_file(found.path) as source:
                    footer = pq.read_metadata(source)
                window = self.windows[int(place["_window"]) - 1]
                statistics = statistics_of(footer, self.log.ranged)
                written.append(StagedFile(found.path, found.size, window, place["_kind"], footer.num_rows, statistics))
        return written


def _is_of_data(found: pafs.FileInfo) -> bool:
    """Whether it is a data file and not a folder, which S3 may list as a file."""
    return bool(found.type == pafs.FileType.File and found.base_name.endswith(".parquet"))


def remove_unfinished(lake: Lake, uri: str, before: datetime) -> int:
    """Removes unfinished files of killed servers from the log, in folders that Delta's vacuum does not list.

    Args:
        lake: The lake with the log.
        uri: URI of the log.
        before: Aware time; only files last written before it are removed.

    Returns:
        The number of files removed.
    """
    count = 0
    with lake.files(uri) as files:
        for found in files.get_file_info(pafs.FileSelector(FOLDER, recursive=True, allow_not_found=True)):
            if _is_of_data(found) and f"/{UNFINISHED}/" in found.path and found.mtime < before:
                files.delete_file(found.path)
                count += 1
    return count
