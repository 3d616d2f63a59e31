"""Former landings: what windows of the log held before, so that a window can be returned to it.

When an ingestion replaces a window, the files that leave the log are linked or copied by the file system to the folder
``_former/<table>``, with a list of what the window held. The list is written before the commit; written twice it is the
same, and without the commit it does no harm. Files that stay in the log are only listed.
"""

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from urllib.parse import quote, unquote
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pyspark.sql.types as T
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from incload_assets.change_log.change import CONTROL, REPLACED
from incload_assets.change_log.log import ChangeLog
from incload_assets.change_log.window_records import WindowRecord, window_records_of
from incload_assets.contract.wider_types import as_narrow
from incload_assets.declaration import window as windows
from incload_assets.delta.tables import as_wider
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.lake import data_files, files_in
from incload_assets.platform.sql import col, union_of

LISTS_FOLDER = "landings"
ROWS_FOLDER = "rows"
"""Folder with the files, which several lists may name."""
NEWEST = 3
"""The number of newest lists of a window that are kept whatever their age within the retention."""
THINNED = timedelta(hours=1)
"""Of older lists one is kept in each such time."""
_SPARK_TYPES = b"org.apache.spark.sql.parquet.row.metadata"
"""The entry of a Parquet file with its columns in Spark's JSON format; all files of a log are written by Spark."""
ABANDONED = timedelta(days=1)
"""Files that no list names are removed when they are this old; younger ones may belong to a running ingestion."""


@dataclass(frozen=True)
class FormerFile:
    """A data file of a former landing, by its path within the log."""

    path: str
    kind: str

    @property
    def name(self) -> str:
        """Path of its copy within the folder of the table's former landings."""
        return f"{ROWS_FOLDER}/{hashlib.blake2b(self.path.encode(), digest_size=16).hexdigest()}.parquet"


@dataclass(frozen=True)
class FormerLanding:
    """The former content of a window: the files with its rows, without markers."""

    window: str
    record: WindowRecord
    files: tuple[FormerFile, ...]
    replaced_at: datetime

    def as_text(self) -> str:
        """The list as JSON."""
        return json.dumps(asdict(self), default=datetime.isoformat)

    @classmethod
    def of_text(cls, text: str) -> "FormerLanding":
        """The landing of a list."""
        found = json.loads(text)
        record = {name: value for name, value in found["record"].items() if name in WindowRecord.__dataclass_fields__}
        for name in ("landed_at", "compacted_at"):
            record[name] = datetime.fromisoformat(record[name]) if record[name] else None
        files = tuple(FormerFile(**file) for file in found["files"])
        return cls(found["window"], WindowRecord(**record), files, datetime.fromisoformat(found["replaced_at"]))


class FormerLandings:
    """The former landings of one table."""

    def __init__(self, log: ChangeLog) -> None:
        self.log, self.lake = log, log.lake
        self.uri = self.lake.former_uri(log.table.key.path)
        self.folder = self.uri[len(self.lake.root) + 1 :]

    def keep(self, log_now: DeltaTable, keys: Collection[str], *, leaving: Collection[str] | None = None) -> None:
        """Keeps what windows hold (not compacted ones) before files of the ``leaving`` kinds, or all, leave the log."""
        if not self.log.table.undo_retention:
            return
        records = {key: r for key, r in window_records_of(log_now, only=keys).items() if r.compacted_at is None}
        if not records:
            return
        found = files_in(data_files(log_now), "_window", [*records])
        content = found.filter(~pc.field("partition._kind").isin(pa.array([CONTROL, REPLACED], pa.string())))
        held: dict[str, list[FormerFile]] = {key: [] for key in records}
        for row in content.select(["path", "partition._window", "partition._kind"]).to_pylist():
            held[row["partition._window"]].append(FormerFile(unquote(row["path"]), row["partition._kind"]))
        for key, record in records.items():  # the lists first: files that no list names may be removed
            self._write(FormerLanding(key, record, tuple(held[key]), windows.now()))
        gone = [file for several in held.values() for file in several if leaving is None or file.kind in leaving]
        if gone:
            self._copy(gone)

    def keep_named(self, keys: Collection[str] | None, paths: Collection[str]) -> None:
        """Copies files of the log, of any window or of some, that former landings name, before they leave it."""
        leaving = set(paths)
        landings = self.all() if keys is None else [landing for key in keys for landing in self.of(key)]
        named = {file for landing in landings for file in landing.files if file.path in leaving}
        if named:
            self._copy(named)

    def of(self, window: str) -> list[FormerLanding]:
        """The former landings of a window, oldest first."""
        return list(self._in(_folder_of(window)))

    def all(self) -> list[FormerLanding]:
        """The former landings of all windows."""
        return list(self._in(LISTS_FOLDER))

    def read(self, spark: SparkSession, landing: FormerLanding) -> DataFrame:
        """The rows of a former landing, with the columns of the log; fails if a file is gone."""
        schema = self.log.schema
        stored = T.StructType([f for f in schema.fields if f.name not in ("_window", "_kind", "_control")])
        places: dict[tuple[str, str], list[str]] = {}
        for file, path in zip(landing.files, self._places(landing), strict=True):
            places.setdefault((file.kind, self._as_written(path, stored).json()), []).append(path)
        if not places:
            return spark.createDataFrame([], schema)
        rows = union_of(
            as_wider(
                spark.read.schema(written := T.StructType.fromJson(json.loads(types))).parquet(
                    *(self.lake.spark_uri(f"{self.lake.root}/{path}") for path in paths)
                ),
                written,
                stored,
            ).withColumn("_kind", F.lit(kind))
            for (kind, types), paths in places.items()
        )
        record = F.lit(None).cast(schema["_control"].dataType)
        return rows.withColumn("_window", F.lit(landing.window)).withColumn("_control", record).select(
            *map(col, schema.names)
        )  # fmt: skip

    def rewrite(self, landing: FormerLanding, rows: DataFrame, record: WindowRecord) -> None:
        """Replaces the rows of a former landing. Its files stay until a pruning."""
        folder = f"{self.folder}/{uuid4().hex}"
        stored = rows.drop("_window", "_control")
        stored.write.partitionBy("_kind").parquet(self.lake.spark_uri(f"{self.lake.root}/{folder}"))
        kept = []
        with self.lake.files(self.lake.root) as files:
            for found in files.get_file_info(pafs.FileSelector(folder, recursive=True)):
                if found.base_name.endswith(".parquet"):
                    kind = found.path.rpartition("/_kind=")[2].partition("/")[0]
                    kept.append((found.path, FormerFile(f"{uuid4().hex}.parquet", kind)))
            self.lake.copy({path: f"{self.folder}/{file.name}" for path, file in kept})
            files.delete_dir(folder)
            self._write(replace(landing, record=record, files=tuple(file for _, file in kept)))

    def forget(self, landing: FormerLanding) -> None:
        """Removes the list of a former landing, so that no window can be returned to it."""
        with self.lake.files(self.lake.root) as files:
            files.delete_file(f"{self.folder}/{_path_of(*_key(landing))}")

    def paths(self, landing: FormerLanding) -> dict[FormerFile, str | None]:
        """The path of each file of a former landing below the lake's root (log or copy); None if it is gone."""
        log = self.log.open()
        in_log = {unquote(path) for path in files_in(data_files(log), "_window", [landing.window])["path"].to_pylist()}
        here = self.log.uri[len(self.lake.root) + 1 :]
        places = {f: f"{here}/{f.path}" if f.path in in_log else f"{self.folder}/{f.name}" for f in landing.files}
        with self.lake.files(self.lake.root) as files:
            there = {i.path for i in files.get_file_info([*places.values()]) if i.type == pafs.FileType.File}
        return {file: place if place in there else None for file, place in places.items()}

    def prune(self, now: datetime, *, abandoned: timedelta = ABANDONED) -> int:
        """Removes lists by ``undo_retention``, and old files that no list names; returns their number."""
        landings = self.all()
        kept = set(map(_key, _kept(landings, now - self.log.table.undo_retention)))
        named = {file.name for landing in landings if _key(landing) in kept for file in landing.files}
        removed = 0
        with self.lake.files(self.lake.root) as files:
            for landing in landings:
                if _key(landing) not in kept:
                    files.delete_file(f"{self.folder}/{_path_of(*_key(landing))}")
                    removed += 1
            place = f"{self.folder}/{ROWS_FOLDER}"
            for found in files.get_file_info(pafs.FileSelector(place, allow_not_found=True)):
                if found.type != pafs.FileType.File or f"{ROWS_FOLDER}/{found.base_name}" in named:
                    continue
                if found.mtime <= now - abandoned:
                    files.delete_file(found.path)
                    removed += 1
        return removed

    def _write(self, landing: FormerLanding) -> None:
        path = f"{self.folder}/{_path_of(*_key(landing))}"
        with self.lake.files(self.lake.root) as files:
            files.create_dir(path.rpartition("/")[0], recursive=True)
            with files.open_output_stream(path) as out:  # as Parquet, as this kind of stream takes no text
                pq.write_table(pa.table({"landing": [landing.as_text()]}), out)

    def _copy(self, files: Collection[FormerFile]) -> None:
        here = self.log.uri[len(self.lake.root) + 1 :]
        self.lake.copy({f"{here}/{file.path}": f"{self.folder}/{file.name}" for file in files})

    def _in(self, under: str) -> Iterator[FormerLanding]:
        if self.log.version() is None:
            return
        with self.lake.files(self.lake.root) as files:
            place = pafs.FileSelector(f"{self.folder}/{under}", recursive=True, allow_not_found=True)
            for name in sorted(info.path for info in files.get_file_info(place)):
                if name.endswith(".parquet"):
                    with files.open_input_file(name) as source:
                        yield FormerLanding.of_text(pq.read_table(source)["landing"][0].as_py())

    def _places(self, landing: FormerLanding) -> list[str]:
        paths = self.paths(landing)
        if lost := sum(path is None for path in paths.values()):
            raise IncrementalLoadError(
                f"{self.log.table.name} {landing.window}: {lost} of {len(landing.files)} files of its landing "
                f"{landing.record.landing} are gone from {self.uri}",
                rule="a window can be returned to a landing whose files are all kept",
                remedy="name another landing, see incload history",
            )
        return [path for file in landing.files if (path := paths[file]) is not None]

    def _as_written(self, path: str, stored: T.StructType) -> T.StructType:
        """The columns with the types that a file has of them, where the log's are wider by now.

        Spark reads an integer neither as a decimal of too few digits for its physical type, nor as one within an array.
        """
        with self.lake.files(self.lake.root) as files, files.open_input_file(path) as source:
            described = (pq.read_schema(source).metadata or {}).get(_SPARK_TYPES)
        return stored if described is None else as_narrow(stored, T.StructType.fromJson(json.loads(described)))


def _key(landing: FormerLanding) -> tuple[str, int]:
    return landing.window, landing.record.landing


def _folder_of(window: str) -> str:
    return f"{LISTS_FOLDER}/{quote(window, safe='')}"


def _path_of(window: str, landing: int) -> str:
    return f"{_folder_of(window)}/{landing:010d}.parquet"


def _kept(landings: Iterable[FormerLanding], since: datetime) -> Iterator[FormerLanding]:
    """The landings to keep: not replaced before an instant, and of many of one window a few."""
    by_window: dict[str, list[FormerLanding]] = {}
    for landing in landings:
        by_window.setdefault(landing.window, []).append(landing)
    for several in by_window.values():
        several.sort(key=lambda landing: landing.record.landing, reverse=True)
        hours: set[int] = set()
        for number, landing in enumerate(several):
            hour = int(landing.replaced_at.timestamp() // THINNED.total_seconds())
            if landing.replaced_at >= since and (number < NEWEST or hour not in hours):
                hours.add(hour)
                yield landing
