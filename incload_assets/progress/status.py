"""The status of one table: what is loaded, what is not, how late it is, and how large. Needs no Spark."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import dagster as dg
from deltalake import DeltaTable

from incload_assets.change_log.window_records import WindowRecord
from incload_assets.declaration import window as windows
from incload_assets.declaration.eras import Era
from incload_assets.declaration.table import Table
from incload_assets.platform.lake import Lake
from incload_assets.platform.wording import several
from incload_assets.progress.lateness import lateness_of
from incload_assets.progress.pause import pauses
from incload_assets.progress.progress import STATUSES, SourceState, WindowProgress, progress_from, source_state
from incload_assets.progress.recorded import Recorded
from incload_assets.progress.undone import undone_windows, with_undone


@dataclass(frozen=True, kw_only=True)
class ClosedEra:
    """The windows of a former partitions definition since the first one in the log, as keys, oldest first."""

    definition: str
    until: str
    loaded: list[str]
    never_loaded: list[str]

    def __str__(self) -> str:
        never = f", {len(self.never_loaded)} of them never loaded" if self.never_loaded else ""
        return (
            f"closed: {several(len(self.loaded) + len(self.never_loaded), 'window')}, "
            f"{self.definition} until {self.until}{never}"
        )


@dataclass(frozen=True, kw_only=True)
class Overview:
    """The row of a table among others; the fields are as in :class:`TableStatus`, with numbers in place of lists.

    Args:
        counts: Number of partitions by status; empty if they are unknown.
        unreadable: Why the table is not known, or not wholly, with the remedy; empty if it is.
    """

    table: str
    counts: Mapping[str, int] = field(default_factory=dict)
    rows: int | None = None
    freshness: float | None = None
    last_materialized: datetime | None = None
    forgotten: int = 0
    left_out: Sequence[str] = ()
    closed: Sequence[str] = ()
    unreadable: str = ""


@dataclass(frozen=True, kw_only=True)
class TableStatus:
    """The status of a table. Partitions are given as keys, oldest first, each in exactly one list of statuses.

    Args:
        missing: Never loaded, although the source holds data (or the window is over and declared empty).
        drifted: Checkpointed, but the source has changed since, or the table has lost the rows.
        waiting: The source holds nothing yet.
        held: A load was undone, and the source still holds what was undone.
        forgotten: Those missing or waiting whose load is in the log: Dagster's storage, or their run, was lost.
        causes: Why each failed partition failed: ``transient``, ``missing``, ``contract`` or ``error``.
        undone: Why the table has lost a loaded partition: it was restored, deleted or created again.
        freshness: Seconds by which the latest due partition is overdue, 0 if it is loaded; None if none is declared or
            due.
        rows: Number of rows of the table; None if there is no table, or a file lacks statistics.
        left_out: Names of files that resemble the table's data but do not match the source's path.
    """

    table: str
    loaded: list[str]
    missing: list[str]
    failed: list[str]
    drifted: list[str]
    in_progress: list[str]
    waiting: list[str]
    held: list[str] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)
    causes: Mapping[str, str]
    undone: Mapping[str, str]
    holds: Mapping[str, str] = field(default_factory=dict)
    freshness: float | None
    last_materialized: datetime | None
    rows: int | None
    version: int | None
    left_out: list[str] = field(default_factory=list)
    paused: str | None = None
    closed: list[ClosedEra] = field(default_factory=list)
    never_complete: str | None = None

    @property
    def overview(self) -> Overview:
        """The row of the table among others."""
        return Overview(
            table=self.table,
            counts={name: len(getattr(self, name)) for name in STATUSES},
            rows=self.rows,
            freshness=self.freshness,
            last_materialized=self.last_materialized,
            forgotten=len(self.forgotten),
            left_out=self.left_out,
            closed=[*map(str, self.closed)],
        )


def table_status(
    instance: dg.DagsterInstance,
    table: Table,
    lake: Lake,
    at: datetime | None = None,
    recorded: Callable[[Table], Recorded] | None = None,
) -> TableStatus:
    """The status of a table at an instant (aware; default now), from one read of source, Dagster and Delta log each."""
    moment = at or windows.now()
    state = source_state(table, lake, moment)
    known = Recorded(instance, [table]) if recorded is None else recorded(table)
    return status_from(instance, table, lake, state, progress_from(instance, table, state, known), moment, known)


def status_from(
    instance: dg.DagsterInstance,
    table: Table,
    lake: Lake,
    state: SourceState,
    progress: Sequence[WindowProgress],
    moment: datetime,
    recorded: Recorded,
) -> TableStatus:
    """The status of a table at an instant, from the progress that was found then; see :func:`table_status`."""
    forgotten = [w.key for w in progress if w.is_forgotten]
    lost = undone_windows(instance, table, lake, progress, moment, recorded=recorded).windows
    progress = with_undone(progress, lost)
    late = lateness_of(instance, table, progress, moment)
    delta = lake.delta(lake.table_uri(table.key.path))
    pause, last = pauses(lake, moment).get(table.name), recorded.last_materialization(table)
    keys = {status: [w.key for w in progress if w.status == status] for status in STATUSES}
    return TableStatus(
        table=table.name,
        **keys,
        forgotten=forgotten,
        undone=lost,
        holds={w.key: str(w.record.hold) for w in progress if w.status == "held" and w.record is not None},
        causes={w.key: w.failure for w in progress if w.failure is not None},
        freshness=None if late.verdict in ("undeclared", "not due") else late.overdue.total_seconds(),
        last_materialized=None if last is None else datetime.fromtimestamp(last.timestamp, UTC),
        rows=None if delta is None else rows_of(delta),
        version=None if delta is None else delta.version(),
        left_out=list(state.left_out),
        paused=None if pause is None else str(pause),
        closed=[_closed(era, state.records) for era in table.former_partitions],
        never_complete=next(filter(None, map(table.source.why_open, state.found.values())), None),
    )


def _closed(era: Era, records: Mapping[str, WindowRecord]) -> ClosedEra:
    keys = [window.key for window in era.windows]
    first = next((place for place, key in enumerate(keys) if key in records), len(keys))
    assert isinstance(era.partitions_def, dg.TimeWindowPartitionsDefinition)
    often = era.partitions_def.schedule_type
    return ClosedEra(
        definition=often.value.lower() if often else era.partitions_def.cron_schedule,
        until=era.end.isoformat(timespec="minutes"),
        loaded=[key for key in keys if key in records],
        never_loaded=[key for key in keys[first:] if key not in records],
    )


def forgotten_loads(windows: Mapping[str, int]) -> tuple[str, str]:
    """The finding that logs have loads that Dagster does not know, and its remedy, for numbers of windows by table."""
    count, tables = sum(windows.values()), ", ".join(sorted(windows))
    only = f" {tables}" if len(windows) == 1 else ""
    return (
        f"the {'log has' if only else 'logs have'} loads of {several(count, 'partition')} of {tables} "
        "that Dagster does not know: its storage was lost, or DAGSTER_HOME is another one",
        "put a backup back (incload restore-instance), or prove the partitions from the tables, which reads no source: "
        f"incload rebuild{only}",
    )


def rows_of(delta: DeltaTable) -> int | None:
    """The number of rows of a Delta table by its log; None if a file was written without statistics."""
    counts = delta.get_add_actions(flatten=True).column("num_records").to_pylist()
    return None if None in counts else sum(counts)
