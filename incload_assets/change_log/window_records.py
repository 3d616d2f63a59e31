"""Window records: one row per ingested window in the change log, of kind ``control``, read without Spark."""

import json
import os
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from threading import Lock
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.types as T
from deltalake import DeltaTable

from incload_assets.change_log.change import CONTROL
from incload_assets.declaration.source import Position
from incload_assets.platform.lake import data_files
from incload_assets.platform.lake_rows import dataset_of
from incload_assets.platform.object_stores import in_object_store
from incload_assets.platform.remembered import Remembered
from incload_assets.platform.settings import current_settings

WITHDRAWN = "withdrawn"
"""The fingerprint of a window whose first load was undone."""
BASE = "base "
"""Beginning of the keys of base rows, which an adopted table had before; they are no windows of the calendar."""
REMEMBERED = 50_000
"""Maximum number of window records that a process caches; they take about a kilobyte each."""

AT_ONCE = 500
"""Number of window records that are opened together; each takes a hundred kilobytes meanwhile."""
MANY = 32
"""Number of window records from which a process shares what it has read; fewer are opened as quickly."""

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
        T.StructField("held", T.StringType()),
        T.StructField("former", T.LongType()),
        T.StructField("erased", T.LongType()),
        T.StructField("erasing", T.BooleanType()),
        T.StructField("content", T.LongType()),
        T.StructField("buckets", T.LongType()),
        T.StructField("largest_key", T.LongType()),
        T.StructField("largest_place", T.LongType()),
    ]
)
"""Fields that older code does not know are ignored by it."""
_FIELDS = frozenset(WINDOW_RECORD_TYPE.names)
_INSTANTS = tuple(field.name for field in WINDOW_RECORD_TYPE.fields if isinstance(field.dataType, T.TimestampType))


@dataclass(frozen=True, kw_only=True)
class Hold:
    """A window that is not to be loaded until its source has other content than at the fingerprint.

    ``undone`` and ``returned_to`` are numbers of landings, 0 if nothing was undone, or the window had no earlier one.
    """

    fingerprint: str
    actor: str
    because: str
    at: datetime
    undone: int
    returned_to: int

    def as_text(self) -> str:
        """The hold as a window record stores it."""
        return json.dumps(asdict(self), default=datetime.isoformat)

    def __str__(self) -> str:
        return f"held by {self.actor} since {self.at:%Y-%m-%d %H:%M} UTC: {self.because or 'no reason given'}"


@dataclass(frozen=True, kw_only=True)
class WindowRecord:
    """The record of a window's ingestion: what was ingested, and what its merge depends on.

    Args:
        landing: Number of the ingestion, and of its fence; it counts also ingestions that a restored log has lost.
        position, held: The position's detail and the hold (None: not held) as JSON.
        rows_read: Records read from the source (or carried over from a deleted file).
        rejected, skipped, erased: How many of these are in quarantine, are no changes, or had an erased subject.
        replaced: Number of keys that had a row which this ingestion removed.
        partitions: The table's partition values or hash buckets that the window touches, as strings; None for all of
            them (the table has neither, or there is a truncate, or there are too many).
        first_sequence: Smallest value of the first sequence column as a string; None if a change has no value.
        compacted_at: When the window was first chosen for compaction; None: never.
        removed: Number of changes of this ingestion that compactions have removed since.
        former: Number of the landing that this one replaced, 0 if it was the first; None if that is unknown.
        erasing: Whether an erasure has landed the window and not merged it yet.
        content: Hash of its changes and rejected records, whatever their order, code or position; None if unknown:
            older code has landed the window, or rows of it were erased since.
        buckets: Number of buckets of the table whose numbers ``partitions`` has, 0 if it is not divided; None: landed
            by older code, and so as the table was made.
        largest_key, largest_place: Number of changes of the key, and of the partition or bucket, that has most of them;
            of a window that was landed in parts, in one part at least. None: unknown, or it has neither. The key itself
            is not recorded, as an erasure could not remove it.
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
    held: str | None = None
    former: int | None = None
    erased: int = 0
    erasing: bool = False
    content: int | None = None
    buckets: int | None = None
    largest_key: int | None = None
    largest_place: int | None = None

    def differs_from(self, other: "WindowRecord") -> bool:
        """True if two landings of a window may hold other changes or other rejected records."""
        return self.content is None or self.content != other.content

    @property
    def is_withdrawn(self) -> bool:
        """True if the first load of the window was undone, so that it holds nothing."""
        return self.fingerprint == WITHDRAWN

    def rests_at(self, position: Position | None, checkpoint: str | None) -> bool:
        """True if the window is held at a position (None: the source holds nothing), and each undo is checkpointed."""
        hold = self.hold
        return hold is not None and self.is_held_at(position) and (not hold.undone or self.fingerprint == checkpoint)

    def is_held_at(self, position: Position | None) -> bool:
        """True if the window is held while the source is at a position; None: the source holds nothing."""
        return self.hold is not None and position is not None and position.fingerprint == self.hold.fingerprint

    @property
    def hold(self) -> Hold | None:
        """The hold on the window; None if it is not held."""
        if self.held is None:
            return None
        fields = json.loads(self.held)
        return Hold(**fields | {"at": datetime.fromisoformat(fields["at"])})

    def as_position(self) -> Position:
        """The position that was ingested."""
        return Position(self.fingerprint, json.loads(self.position), self.summary)


def window_records_of(log: DeltaTable, *, only: Collection[str] | None = None) -> dict[str, WindowRecord]:
    """The window records in a version of a log, of all windows or of some, by partition key.

    They are cached, as Delta's files never change: opening a thousand takes seconds, and sensors do every half minute.
    Many are also remembered for other processes, or a command would open hundreds of thousands for a thousand tables.
    """
    files = data_files(log)
    wanted = pc.field("partition._kind") == CONTROL
    if only is not None:
        wanted &= pc.field("partition._window").isin(pa.array(list(only), pa.string()))
    found = files.filter(wanted)
    keys = found["partition._window"].to_pylist()
    uri = log.table_uri
    places = {key: (uri, path) for key, path in zip(keys, found["path"].to_pylist(), strict=True)}
    known = {key: record for key, place in places.items() if (record := _remembered.get(place))}
    if unknown := sorted(places.keys() - known.keys()):
        read = _recalled(log, {key: places[key][1] for key in unknown}) if len(unknown) >= MANY else {}
        if left := [key for key in unknown if key not in read]:
            is_left = pc.field("partition._window").isin(pa.array(left, pa.string()))
            read |= (opened := _read(log, found.filter(is_left)))
            if len(left) >= MANY:
                kept = ((_name(log, key), places[key][1], _as_text(record)) for key, record in opened.items())
                _shared().keep(kept)
        known |= read
        _remember({places[key]: record for key, record in read.items()})
    return known


def ingested_windows(log: DeltaTable) -> list[str]:
    """The partition keys of all windows in a version of a log, in any order, without keys of base rows."""
    return [key for key in _keys(log) if not key.startswith(BASE)]


def base_keys(log: DeltaTable) -> list[str]:
    """The keys of the base rows in a version of a log, in order."""
    return sorted(key for key in _keys(log) if key.startswith(BASE))


def _keys(log: DeltaTable) -> list[str]:
    records = data_files(log).filter(pc.field("partition._kind") == CONTROL)
    return [str(key) for key in records["partition._window"].to_pylist()]


def _read(log: DeltaTable, files: pa.Table) -> dict[str, WindowRecord]:
    found: dict[str, WindowRecord] = {}
    for first in range(0, files.num_rows, AT_ONCE):  # pyarrow opens all files of a dataset together
        some = dataset_of(log, files.slice(first, AT_ONCE)).to_table(columns=["_window", "_control"])
        found |= {row["_window"]: _record_of(row["_control"]) for row in some.to_pylist()}
    return found


def _record_of(stored: Mapping[str, Any]) -> WindowRecord:
    return WindowRecord(**{name: value for name, value in stored.items() if name in _FIELDS and value is not None})


def _recalled(log: DeltaTable, paths: Mapping[str, str]) -> dict[str, WindowRecord]:
    """The window records that a process on this machine has read from these files, by partition key.

    Those whose file is gone from a local folder are left out, so that the loss is noticed.
    """
    local = None if in_object_store(log.table_uri) else log.table_uri.removeprefix("file://")
    there = [key for key, path in paths.items() if local is None or os.path.exists(os.path.join(local, unquote(path)))]
    names = {_name(log, key): key for key in there}
    known = _shared().recall({name: paths[key] for name, key in names.items()})
    return {names[name]: _record_of(_stored_in(text)) for name, text in known.items()}


def forget_shared_records() -> None:
    """Removes the window records that processes on this machine share: they have partitions and sequences of rows."""
    _shared().forget()


def _shared() -> Remembered:
    return Remembered(current_settings().home_root / "window_records.sqlite")


def _name(log: DeltaTable, key: str) -> str:
    return f"{log.table_uri} {key}"


def _as_text(record: WindowRecord) -> str:
    values = {name: value for name, value in vars(record).items() if value is not None}
    return json.dumps(values, default=datetime.isoformat)


def _stored_in(text: str) -> dict[str, Any]:
    stored: dict[str, Any] = json.loads(text)
    return stored | {name: datetime.fromisoformat(stored[name]) for name in _INSTANTS if name in stored}


_remembered: dict[tuple[str, str], WindowRecord] = {}
_remembering = Lock()


def _remember(read: Mapping[tuple[str, str], WindowRecord]) -> None:
    with _remembering:
        _remembered.update(read)
        for place in list(_remembered)[: max(0, len(_remembered) - REMEMBERED)]:  # the oldest
            del _remembered[place]
