"""WindowRecord rows: what an ingestion leaves in the log beside the rows of its window, read without Spark."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from threading import Lock

import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.types as T
from deltalake import DeltaTable
from pyarrow.parquet import filters_to_expression

from incload_assets.change_log.change import CONTROL
from incload_assets.declaration.source import Position
from resources.lake import data_files

REMEMBERED = 100_000
"""Most control rows that a process remembers; they take about a kilobyte each."""

WINDOW_RECORD_TYPE = T.StructType(
    [
        T.StructField("landing", T.LongType()),
        T.StructField("fingerprint", T.StringType()),
        T.StructField("position", T.StringType()),
        T.StructField("summary", T.StringType()),
        T.StructField("code_version", T.StringType()),
        T.StructField("run_id", T.StringType()),
        T.StructField("landed_at", T.TimestampType()),
        T.StructField("rows_read", T.LongType()),
        T.StructField("rejected", T.LongType()),
        T.StructField("replaced", T.LongType()),
        T.StructField("partitions", T.ArrayType(T.StringType())),
        T.StructField("first_sequence", T.StringType()),
        T.StructField("compacted_at", T.TimestampType()),
        T.StructField("removed", T.LongType()),
        T.StructField("skipped", T.LongType()),
    ]
)


@dataclass(frozen=True, kw_only=True)
class WindowRecord:
    """The control row of a window: what was ingested, and what the merge of it needs to know.

    Args:
        landing: How often the window has been ingested, also in versions that a restored log has no more; the fence of
            its ingestions.
        fingerprint: Of the position.
        position: The position's detail as JSON.
        summary: The position for people.
        code_version: Of the declaration that validated the rows.
        run_id: The Dagster run that ingested it.
        landed_at: When, aware.
        rows_read: Records read from the source (or carried over from a file that is gone).
        rejected: How many of them are in quarantine.
        replaced: Keys that had a row which this ingestion took away.
        partitions: The table's partition values, or hash buckets, touched, as strings; None for all of them (a table
            that has neither, a truncate, or too many).
        first_sequence: Smallest value of the first sequence column as a string; None where a change has none.
        compacted_at: When the window was first chosen for compaction, None: never. See
            :mod:`incload_assets.maintenance.compact_logs`.
        removed: Changes of this ingestion that compactions have removed since.
        skipped: How many of the records read are no changes of this table.
    """

    landing: int
    fingerprint: str
    position: str
    summary: str
    code_version: str
    run_id: str
    landed_at: datetime
    rows_read: int
    rejected: int
    replaced: int
    partitions: list[str] | None = None
    first_sequence: str | None = None
    compacted_at: datetime | None = None
    removed: int = 0
    skipped: int = 0

    def as_position(self) -> Position:
        """The position that was ingested."""
        return Position(self.fingerprint, json.loads(self.position), self.summary)


def window_records_of(log: DeltaTable, *, only: Collection[str] | None = None) -> dict[str, WindowRecord]:
    """The control rows that a version of a log holds of all windows, or of some, by partition key.

    Each window has one, in a file of its own; Delta's files never change, so what was read of one is remembered: to
    open a thousand small files takes a second, and sensors look every half minute.
    """
    files = data_files(log)
    wanted = pc.field("partition._kind") == CONTROL
    if only is not None:
        wanted &= pc.field("partition._window").isin(pa.array(list(only), pa.string()))
    found = files.filter(wanted)
    keys = found["partition._window"].to_pylist()
    places = {key: (log.table_uri, path) for key, path in zip(keys, found["path"].to_pylist(), strict=True)}
    known = {key: control for key, place in places.items() if (control := _remembered.get(place))}
    if unknown := sorted(places.keys() - known.keys()):
        known |= (read := _read(log, unknown))
        _remember({places[key]: control for key, control in read.items()})
    return known


def ingested_windows(log: DeltaTable) -> list[str]:
    """The partition keys of the windows that a version of a log has control rows of, in any order."""
    controls = data_files(log).filter(pc.field("partition._kind") == CONTROL)
    return [str(key) for key in controls["partition._window"].to_pylist()]


def _read(log: DeltaTable, keys: list[str]) -> dict[str, WindowRecord]:
    wanted = [("_kind", "=", CONTROL), ("_window", "in", keys)]
    # without it each file of the log becomes an object first, which takes ten times as long for a thousand windows
    files = log.to_pyarrow_dataset(file_pruning_predicate=wanted)
    rows = files.to_table(columns=["_window", "_control"], filter=filters_to_expression(wanted)).to_pylist()
    return {row["_window"]: WindowRecord(**{k: v for k, v in row["_control"].items() if v is not None}) for row in rows}


_remembered: dict[tuple[str, str], WindowRecord] = {}
_remembering = Lock()


def _remember(read: Mapping[tuple[str, str], WindowRecord]) -> None:
    with _remembering:
        _remembered.update(read)
        for place in list(_remembered)[: max(0, len(_remembered) - REMEMBERED)]:  # the oldest
            del _remembered[place]
