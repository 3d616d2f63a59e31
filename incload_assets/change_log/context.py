"""The context of a load: the table, and the means to read it."""

from collections.abc import Callable, Collection, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from time import monotonic, time

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from incload_assets.change_log.change import CONTROL, DELETE, EMPTIES, MOVED, REJECTED
from incload_assets.change_log.known_at import known_at
from incload_assets.change_log.log import ChangeLog, as_decided
from incload_assets.change_log.read_view import ReadView, first_sequences
from incload_assets.change_log.scratch import ScratchLake
from incload_assets.change_log.scratch_log import ScratchLog
from incload_assets.change_log.window_records import WindowRecord
from incload_assets.contract.adaptation import BUCKETS, BUCKETS_PROPERTY, NO_BUCKETS, THEN, agrees
from incload_assets.declaration.layout import laid_out_by, touched_sql, values_of
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import Window
from incload_assets.declaration.write import AUTO
from incload_assets.delta.data_files import parquet_files
from incload_assets.delta.session import CachedFrame
from incload_assets.delta.statistics import is_newer, without_older
from incload_assets.delta.tables import has_change_feed
from incload_assets.platform.errors import SchemaMismatch
from incload_assets.platform.lake import Lake, bytes_in, bytes_of, data_files, files_in, rows_of
from incload_assets.platform.lake_rows import files_with
from incload_assets.platform.sql import col
from incload_assets.platform.wording import length, several


@dataclass
class Phases:
    """The times of a load's phases: name, start (seconds since 1970) and duration (seconds) of each part, in order."""

    timeline: list[tuple[str, float, float]] = field(default_factory=list)

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Adds a block to a phase."""
        began, start = time(), monotonic()
        try:
            yield
        finally:
            self.timeline.append((name, began, monotonic() - start))

    @property
    def seconds(self) -> dict[str, float]:
        """Time spent per phase, in seconds."""
        total: dict[str, float] = {}
        for name, _, seconds in self.timeline:
            total[name] = total.get(name, 0.0) + seconds
        return total


def _no_log(_: str) -> None:
    pass


@dataclass(frozen=True)
class ReadSoFar:
    """The progress of a window that is read in chunks.

    Args:
        chunks, of: Number of chunks that are read, by earlier processes, too, and of all chunks.
        rows: Rows of the chunks that are read.
        share: The part of the window that is read, from 0 to 1, by its size at the source.
        seconds_left: By the pace of this process.
    """

    window: str
    chunks: int
    of: int
    rows: int
    share: float
    seconds_left: float

    def __str__(self) -> str:
        left = f", about {length(self.seconds_left)} left" if self.chunks < self.of else ""
        return f"{self.chunks} of {several(self.of, 'chunk')}, {several(self.rows, 'row')}, {self.share:.0%}{left}"


def _unseen(_: ReadSoFar) -> None:
    pass


@dataclass(frozen=True)
class LoadContext:
    """A table, and all that a load needs to work on it; the session is its own, as the fence is a session setting.

    ``advanced`` is called as a window is read in chunks. ``beside_others`` makes a context in which other loads of the
    table may run, as for its block this one changes neither table nor log. ``proven`` has what the load's plans have
    found out about versions of the log, which never change.
    """

    spark: SparkSession
    table: Table
    lake: Lake
    run_id: str = ""
    info: Callable[[str], None] = _no_log
    advanced: Callable[[ReadSoFar], None] = _unseen
    beside_others: Callable[[], AbstractContextManager[None]] = nullcontext
    phases: Phases = field(default_factory=Phases)
    proven: dict[Hashable, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuses a lake of another environment; a table whose first load has chosen its buckets has this number."""
        self.lake.expect_own(self.table.name)
        self.decide()

    def decide(self, number: int | None = None, *, new: bool = False) -> None:
        """Takes the number of buckets of the table as it is, or if it is ``new`` the given one."""
        table = self.table.divided_into(number) if new else as_decided(self.table, self.lake)
        object.__setattr__(self, "table", table)
        vars(self).pop("log", None)

    @cached_property
    def scratch(self) -> ScratchLake | None:
        """The scratch that takes everything which the load would write; None if it writes to the lake."""
        return self.lake if isinstance(self.lake, ScratchLake) else None

    @cached_property
    def log(self) -> ChangeLog:
        """The log of the table's changes."""
        return ChangeLog(self.table, self.lake) if self.scratch is None else ScratchLog(self.table, self.scratch)

    @cached_property
    def kept(self) -> CachedFrame:
        """The frame that the load's plans share."""
        return CachedFrame()

    @cached_property
    def uri(self) -> str:
        """The URI of the table."""
        return self.lake.table_uri(self.table.key.path)

    def renewed(self) -> "LoadContext":
        """The context of the next load of a run: it reads the lake from the start again, and has its own times."""
        return replace(self, lake=self.lake.followed(), phases=Phases())

    def rows(self, at: "ReadView", *, near: bool = False) -> DataFrame:
        """The table's rows in a read view, or only the near ones. An empty table is answered without a Spark query."""
        if self.scratch is not None and (merged := self.scratch.merged.rows(near=near)) is not None:
            return merged
        if not (at.near_bytes if near else at.table_bytes):
            return self.spark.createDataFrame([], self.table.schema)
        if near and at.near_files is not None:
            rows = at.near_files.read(self.spark)
        else:
            path = self.lake.spark_uri(self.uri)
            rows = self.spark.read.format("delta").option("versionAsOf", at.table_version).load(path)
        touched = touched_sql(self.table, at.partitions) if near else None
        return self._as_declared(rows.filter(touched) if touched else rows)

    def newest_rows(self) -> DataFrame:
        """The table's rows at its newest version."""
        is_new = self.scratch is not None and not self.scratch.exists(self.uri)
        if is_new or self.table.write.buckets == AUTO:
            return self.spark.createDataFrame([], self.table.schema)
        return self._as_declared(self.spark.read.format("delta").load(self.lake.spark_uri(self.uri)))

    def _as_declared(self, rows: DataFrame) -> DataFrame:
        """Rows with the columns that a load which changes nothing would add to the table."""
        if self.scratch is None or not self.scratch.lacking(self.uri, self.table.schema):
            return rows
        return self.spark.createDataFrame([], self.table.schema).unionByName(rows, allowMissingColumns=True)

    def changes(self, at: "ReadView") -> DataFrame:
        """The log's rows in a read view."""
        return self._of_gained(self.log.read(self.spark, at.log_version), at)

    def near_changes(self, at: "ReadView") -> DataFrame:
        """The log's changes of the partitions that the windows touch; or the whole log if these are in many files."""
        return self.changes(at) if at.log_files is None else self._of_gained(at.log_files.read(self.spark), at)

    def window_changes(self, at: "ReadView") -> DataFrame:
        """The windows' changes, and deletes that may be newer; or the whole log if these are in too many files."""
        return self.changes(at) if at.window_files is None else self._of_gained(at.window_files.read(self.spark), at)

    def _of_gained(self, changes: DataFrame, at: "ReadView") -> DataFrame:
        """The changes of keys that gained rows have, where only these are read."""
        if at.gained is None:
            return changes
        identity = list(self.table.identity)
        keys = at.gained.read(self.spark).select(*map(col, identity)).distinct()
        return changes.join(F.broadcast(keys), identity, "left_semi").select(*map(col, changes.columns))

    def read_view(self, windows: tuple[Window, ...], app_id: str, *, of_range: bool = False) -> "ReadView":
        """Opens a read view: first the table, then the log, so that the log has everything that was merged."""
        table = self.lake.delta(self.uri)
        log = self.log.open()
        assert table is not None
        self._expect_buckets(log)
        if self.table.write.whole:
            app_id = f"{self.table.name}/*"
        keys = [window.key for window in windows]
        records = self.log.records_in(log, only=keys)
        rows, changes = data_files(table), self.log.files(log)
        table_bytes = bytes_of(rows)
        if (column := self.table.write.open_rows) is not None:
            rows = files_in(rows, column, ["true"])
        is_here, kind = pc.field("partition._window").isin(keys), pc.field("partition._kind")
        empties = changes.filter(kind.isin([*EMPTIES]))
        here = changes.filter(is_here & ~kind.isin([CONTROL, REJECTED]))
        deletes = self._not_older(changes.filter(~is_here & (kind == DELETE)), records.values())
        grouped = changes.filter(is_here).group_by("partition._window").aggregate([("size_bytes", "sum")])
        sizes = {row["partition._window"]: row["size_bytes_sum"] for row in grouped.to_pylist()}
        others = pa.concat_tables([deletes, changes.filter(~is_here & kind.isin([*EMPTIES]))])
        moves = bytes_of(changes.filter(kind == MOVED)) > 0
        at = ReadView(
            table.version(),
            log.version(),
            app_id,
            table.transaction_version(app_id) or 0,
            {key: records[key] for key in keys},
            self.table.write.whole,
            of_range,
            # a row that got a new key may be in another place than the changes it inherits
            by_place=not moves and (self.table.write.divided_into is not None or not self.table.write.whole),
            table_bytes=table_bytes,
            near_bytes=table_bytes,
            log_bytes=0,
            windows_bytes=sum(sizes.values()) + bytes_of(others),
            others_delete=others.num_rows > 0,
            empties=bytes_in(empties, "_window", keys) > 0,
            moves=moves,
            newer=False,
            near_rows=0,
            feeds=has_change_feed(table),
            buckets=self.table.write.divided_into,
            buckets_of={key: self.log.buckets_of(log, records[key].buckets) for key in keys},
            near_files=None,
            log_files=None,
            window_files=parquet_files(log, self.lake.spark_uri(self.log.uri), pa.concat_tables([here, others])),
            sizes=sizes,
            near=rows,
            of_windows=changes.filter(is_here),
            known_at=known_at(self.table, log, preview=self.scratch is not None),
        )
        values, folded = at.partitions, changes.filter(~kind.isin([CONTROL, REJECTED]))
        if values and (column := laid_out_by(self.table)):
            rows = files_in(rows, column, values)
            if column in self.table.columns:  # the log has no buckets
                kept = is_here | kind.isin([*EMPTIES])
                elsewhere = files_with(folded.filter(~kept), {column: values_of(self.table, column, values)})
                folded = pa.concat_tables([folded.filter(kept), elsewhere])
        at = replace(
            at,
            near_bytes=bytes_of(rows),
            near=rows,
            near_rows=rows_of(rows),
            newer=self._is_newer(at, rows),
            near_files=parquet_files(table, self.lake.spark_uri(self.uri), rows),
            log_bytes=bytes_of(folded),
            log_files=parquet_files(log, self.lake.spark_uri(self.log.uri), folded),
        )
        if self.scratch is None:
            return at
        return self.scratch.seen(at, self.scratch.lacking(self.log.uri, self.log.schema))

    def _expect_buckets(self, log: DeltaTable) -> None:
        """Refuses to plan by another number of buckets than a rebucketing that has begun gives the table."""
        stored, declared = log.metadata().configuration.get(BUCKETS_PROPERTY), self.table.write.divided_into
        if stored is not None and not agrees(BUCKETS_PROPERTY, stored, str(declared or NO_BUCKETS)):
            raise SchemaMismatch(
                f"{self.table.name}: {self.uri} has {stored.rpartition(THEN)[2]} buckets, or is about to get them; "
                f"declared is {declared}",
                rule=BUCKETS.rule,
                remedy=BUCKETS.remedy.format(table=self.table.name),
            )

    def _not_older(self, deletes: pa.Table, records: Collection[WindowRecord]) -> pa.Table:
        """Files of deletes, without those whose deletes are all older than the changes of some windows."""
        firsts = first_sequences(records)
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
