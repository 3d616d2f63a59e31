"""Staged rows: rows of the change log that are written but not committed until the ingestion is known to be correct.

Spark writes the rows of some windows as Parquet files into a folder within the log, ``landed/<id>``. No version of the
log contains them until a commit without Spark adds them. So the source is read once, and the facts of the rows are
observed while they are written. A failed ingestion removes its files; a vacuum removes the files of a killed one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import quote
from uuid import uuid4

import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pyspark.sql.types as T
from deltalake import DeltaTable
from deltalake.transaction import AddAction
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from incload_assets.change_log.change import NOT_KEPT, UPSERTS
from incload_assets.change_log.file_statistics import statistics_of
from incload_assets.change_log.log import ChangeLog
from incload_assets.contract.adaptation import Adaptation, widened_columns
from incload_assets.delta.tables import schema_of
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.lake import Lake
from incload_assets.platform.object_stores import in_object_store
from incload_assets.platform.sql import col, union_of
from incload_assets.protection.erasures import barrier_of

FOLDER = "landed"
"""Folder within the log. A vacuum only lists folders of partitions, and those whose names begin with no underscore."""
UNSET = "_unset"
"""The log's column with the names of the columns that a change leaves as they are."""
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
    """A data file within the log that is written but not committed; its statistics are Delta's JSON."""

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
    """The rows of some windows, written but not committed; as a context manager it discards them at the block's end.

    Args:
        place: The folder within the log that gets a folder for each write.
        given: Windows whose files were passed to a commit; they stay, as its answer may be lost although it succeeded.
        barrier: The log's barrier at the beginning, see :mod:`incload_assets.protection.erasures`.
        foreign: Columns of the log at the beginning that other code has added; no change sets them.
    """

    log: ChangeLog
    spark: SparkSession
    windows: Sequence[str]
    place: str = FOLDER
    files: list[StagedFile] = field(default_factory=list)
    given: set[str] = field(default_factory=set)
    barrier: int = field(init=False, default=0)
    foreign: Sequence[str] = field(init=False, default=())
    _folders: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        table = self.log.table
        if table.subject is None and not table.by_column:
            return
        if (delta := self.log.lake.delta(self.log.uri)) is not None:
            object.__setattr__(self, "barrier", barrier_of(delta))
            object.__setattr__(self, "foreign", foreign_columns(self.log, delta) if table.by_column else ())

    def __enter__(self) -> Staged:
        return self

    def __exit__(self, *_: object) -> None:
        self.discard()

    def write(self, rows: DataFrame, columns: Collection[str] | None = None) -> bool:
        """Writes rows with ``_window``, ``_kind`` and other columns of the log; returns whether there were any."""
        folder = f"{self.place}/{uuid4().hex}"
        self._folders.append(folder)
        known = rows.columns if columns is None else columns
        here = [name for name in self._columns if name in known]
        # folders have the window's number in their names, because Hadoop would escape characters of a partition key
        number = F.array_position(F.array(*map(F.lit, self.windows)), F.col("_window")).alias("_window")
        values = [self._unset if name == "_unset" else col(name) for name in here]
        write_parquet(self.log, rows.select(*values, number, "_kind"), folder)
        written = [*written_files(self.log, folder, lambda number: self.windows[int(number) - 1])]
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

    def keep(self) -> list[str]:
        """Leaves the files where they are when the block ends, for another process; returns their folders."""
        folders = [*self._folders]
        self._folders.clear()
        return folders

    def discard(self) -> None:
        """Removes files that were not passed to a commit; files that cannot be removed are left to a vacuum."""
        kept = {file.path for file in self.committing()}
        if not (self.given and len(kept) == len(self.files)):
            remove_files(self.log, self._folders, kept)

    def committing(self) -> list[StagedFile]:
        """The files that a commit adds; rows that are no changes are never added."""
        return [file for file in self.files if file.window in self.given and file.kind not in NOT_KEPT]

    @property
    def _unset(self) -> Column:
        return leaving_unset(self.foreign).alias(UNSET) if self.foreign else F.col(UNSET)

    @property
    def _columns(self) -> list[str]:
        return [name for name in self.log.schema.names if name not in ("_window", "_kind")]


def leaving_unset(columns: Collection[str]) -> Column:
    """The log's column :data:`UNSET`, with further columns that the changes leave as they are."""
    before = F.coalesce(UNSET, F.array().cast("array<string>"))
    unset = F.array_union(before, F.array(*map(F.lit, columns)))
    return F.when(F.col("_kind").isin(*UPSERTS), unset).otherwise(F.col(UNSET))


def foreign_columns(log: ChangeLog, at: DeltaTable) -> list[str]:
    """The columns of a version of the log that the declaration lacks, without the loader's own."""
    declared = set(log.schema.names)
    return [name for name in schema_of(at).names if name not in declared and not name.startswith("_")]


def wider_columns(log: ChangeLog, at: DeltaTable) -> list[str]:
    """The columns that have wider types in a version of the log than the declaration has."""
    return [*widened_columns(log.schema, schema_of(at), Adaptation(widen=True))]


def write_parquet(log: ChangeLog, rows: DataFrame, folder: str) -> None:
    """Writes rows into a folder within the log, with a folder for each value of their ``_window`` and ``_kind``."""
    options = _WITHOUT_MARK if in_object_store(log.uri) else _WITHOUT_MARK | _WITHOUT_CHECKSUMS
    writer = rows.write.mode("append").options(**options).partitionBy("_window", "_kind")
    writer.parquet(log.lake.spark_uri(f"{log.uri}/{folder}"))


def written_files(log: ChangeLog, folder: str, window_of: Callable[[str], str]) -> Iterator[StagedFile]:
    """The files of a folder that :func:`write_parquet` wrote; names of folders show partition keys as other text."""
    with log.lake.files(log.uri) as files:
        for found in files.get_file_info(pafs.FileSelector(folder, recursive=True, allow_not_found=True)):
            if not _is_of_data(found):
                continue
            place = dict(part.split("=", 1) for part in found.path.split("/") if "=" in part)
            with files.open_input_file(found.path) as source:
                footer = pq.read_metadata(source)
            statistics, window = statistics_of(footer, log.ranged), window_of(place["_window"])
            yield StagedFile(found.path, found.size, window, place["_kind"], footer.num_rows, statistics)


def remove_files(log: ChangeLog, folders: Collection[str], kept: Collection[str] = ()) -> None:
    """Removes files of folders within the log; files that cannot be removed are left to a vacuum."""
    with suppress(OSError, IncrementalLoadError), log.lake.files(log.uri) as files:
        for folder in folders:
            for found in files.get_file_info(pafs.FileSelector(folder, recursive=True, allow_not_found=True)):
                if _is_of_data(found) and found.path not in kept:
                    files.delete_file(found.path)


def _is_of_data(found: pafs.FileInfo) -> bool:
    """True if it is a data file and not a folder, which S3 may list as a file."""
    return bool(found.type == pafs.FileType.File and found.base_name.endswith(".parquet"))


def remove_unfinished(lake: Lake, uri: str, before: datetime) -> int:
    """Removes unfinished files of killed servers, older than an aware time, in folders that a vacuum does not list."""
    count = 0
    with lake.files(uri) as files:
        for found in files.get_file_info(pafs.FileSelector(FOLDER, recursive=True, allow_not_found=True)):
            if _is_of_data(found) and f"/{UNFINISHED}/" in found.path and found.mtime < before:
                files.delete_file(found.path)
                count += 1
    return count
