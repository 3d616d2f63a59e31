"""A row of the lake's table ``_loads``: one attempt to load one window, successful or not."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, get_type_hints

import pyarrow as pa

Outcome = Literal["loaded", "failed", "cancelled"]
Trigger = Literal["sensor", "backfill", "schedule", "terminal", "person", "unknown"]

PHASES = ("prepare", "detect", "ingest", "merge", "reconcile")
"""The phases of a load, in order."""
COUNTS = ("rows_read", "inserted", "updated", "deleted", "applied", "stale", "duplicate", "quarantined")
"""The counts of a load that are always known."""


@dataclass(frozen=True, kw_only=True)
class LoadRow:
    """One attempt to load one window. Instants are aware, UTC.

    Args:
        due_at: When the window had to be loaded, by the declaration at the time of the load.
        outcome: ``loaded``: it was reconciled and checkpointed.
        asked_at: When the run was requested; None if the run is unknown (its record was deleted).
        ended_at: When the window was checkpointed, or its run failed.
        instance: Identity of the Dagster instance that recorded the load.
        event: Storage id of the materialization's event there; 0 for a failed attempt.
        run_id: The Dagster run. Without hyphens it is also the identifier of the run's trace.
        asked_by: The person or the sensor, schedule or backfill that requested it, as far as Dagster knows.
        why: ``new``, ``changed``, ``retry``, ``repair``, ``undo``, ``release``, ``replay``, ``fill`` or ``asked``.
        attempt: The number of the attempt at the same position, from 1; 0 for a run that no sensor requested.
        error_class: The kind of error, for example ``ContractViolation``; ``Killed`` if the process left no reason.
        timeline: Name, start in seconds since 1970 and duration in seconds of each part of a phase, as JSON.
        prepare, detect, ingest, merge, reconcile: Seconds per phase. Counts of rows are as in the evidence.
        bytes: Size of the window's changes in the log.
        table_version, log_version: The Delta versions that were reconciled.
        commit: The kind of commit that changed the table.
        proof: Numbers of keys and content hashes of log and table, as JSON.
    """

    table: str
    window: str
    window_start: datetime
    window_end: datetime
    due_at: datetime
    outcome: Outcome
    asked_at: datetime | None = None
    ended_at: datetime
    instance: str
    event: int = 0
    run_id: str
    trigger: Trigger = "unknown"
    asked_by: str = ""
    why: str = ""
    attempt: int = 0
    error_class: str = ""
    error: str = ""
    seconds: float = 0.0
    timeline: str = "[]"
    prepare: float = 0.0
    detect: float = 0.0
    ingest: float = 0.0
    merge: float = 0.0
    reconcile: float = 0.0
    rows_read: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    applied: int = 0
    stale: int = 0
    duplicate: int = 0
    quarantined: int = 0
    bytes: int = 0
    position: str = ""
    fingerprint: str = ""
    code_version: str = ""
    table_version: int | None = None
    log_version: int | None = None
    commit: str = ""
    proof: str = "{}"

    @property
    def trace_id(self) -> str:
        """The identifier of the run's trace: 32 hexadecimal digits."""
        return self.run_id.replace("-", "")

    @property
    def on_time(self) -> bool:
        """True if the window was loaded when it was due."""
        return self.outcome == "loaded" and self.ended_at <= self.due_at

    @property
    def lateness(self) -> timedelta:
        """The time from the window's end to the end of the load; negative while the window is open."""
        return self.ended_at - self.window_end

    @property
    def waited(self) -> timedelta | None:
        """The time from the request of the run to the end of the load; None if unknown."""
        return None if self.asked_at is None else self.ended_at - self.asked_at

    @property
    def began(self) -> datetime:
        """When the load began. For a failed attempt that is not recorded: when its run was requested."""
        if self.outcome != "loaded":
            return min(self.asked_at or self.ended_at, self.ended_at)
        return min((start for _, start, _ in self.spans), default=self.ended_at - timedelta(seconds=self.seconds))

    @property
    def spans(self) -> list[tuple[str, datetime, timedelta]]:
        """The parts of the load's phases: name, start and duration, in order."""
        return [
            (
                part["phase"],
                datetime.fromtimestamp(part["start"], self.ended_at.tzinfo),
                timedelta(seconds=part["seconds"]),
            )
            for part in json.loads(self.timeline)
        ]


_ARROW = {
    str: pa.string(), int: pa.int64(), float: pa.float64(), int | None: pa.int64(),
    datetime: pa.timestamp("us", "UTC"), datetime | None: pa.timestamp("us", "UTC"), Outcome: pa.string(),
    Trigger: pa.string(),
}  # fmt: skip
SCHEMA = pa.schema([(field.name, _ARROW[get_type_hints(LoadRow)[field.name]]) for field in fields(LoadRow)])
"""The columns of the table ``_loads``."""


def as_arrow(rows: Iterable[LoadRow]) -> pa.Table:
    """Rows as an Arrow table with the columns of :data:`SCHEMA`."""
    return pa.Table.from_pylist([vars(row) for row in rows], SCHEMA)


def as_rows(found: pa.Table) -> list[LoadRow]:
    """The rows of an Arrow table, without columns of newer versions; columns with a default may be missing."""
    defaults = {field.name: None if field.default is MISSING else field.default for field in fields(LoadRow)}
    names = [name for name in found.schema.names if name in defaults]
    unknown = {field.name: None for field in fields(LoadRow) if field.default is MISSING}
    values = [_values(found[name], defaults[name]) for name in names]
    rows = []
    for of_one in zip(*values, strict=True):
        row = object.__new__(LoadRow)  # its own constructor takes five times as long, which a year of loads feels
        vars(row).update(unknown)  # what else is missing has the default, which the class has
        vars(row).update(zip(names, of_one, strict=True))
        rows.append(row)
    return rows


def _values(column: pa.ChunkedArray, default: Any) -> list[Any]:
    """The values of a column, with the default for NULL; by column is several times as fast as by row."""
    if pa.types.is_timestamp(column.type):
        naive = column.cast(pa.timestamp("us")).to_numpy().astype(object)
        return [default if value is None else value.replace(tzinfo=UTC) for value in naive]
    values = column.to_pylist()
    return values if not column.null_count else [default if value is None else value for value in values]


def landings_of(rows: Sequence[LoadRow]) -> Mapping[str, list[LoadRow]]:
    """The successful loads of each window, in the order of the rows."""
    found: dict[str, list[LoadRow]] = defaultdict(list)
    for row in rows:
        if row.outcome == "loaded":
            found[row.window].append(row)
    return found
