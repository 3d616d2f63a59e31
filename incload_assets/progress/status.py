"""One table at a glance: what is loaded, what is not, how late, how large. Nothing here needs Spark."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

import dagster as dg
from deltalake import DeltaTable

from incload_assets.declaration import window as windows
from incload_assets.declaration.table import Table
from incload_assets.progress.lateness import lateness_of
from incload_assets.progress.progress import progress_from, source_state
from incload_assets.progress.undone import undone_windows, with_undone
from resources.lake import Lake


@dataclass(frozen=True, kw_only=True)
class TableStatus:
    """The status of a table; partitions are keys, oldest first, each in one list.

    Args:
        table: Its name.
        loaded: Checkpointed with what the source holds now.
        missing: The source holds something (or the window is over and declared empty), and it was never loaded.
        failed: The last attempt failed.
        drifted: Checkpointed, and since then the source has changed, or the table has lost it.
        in_progress: Queued or running.
        waiting: The source holds nothing yet.
        causes: Why each failed partition failed: ``transient``, ``missing``, ``contract`` or ``error``.
        undone: Why the table no longer holds what was loaded of a partition: it was restored, removed or made anew.
        freshness: Seconds by which the latest due partition is overdue, 0 if it is there; None where no freshness is
            declared or nothing is due yet.
        last_materialized: When any partition was last materialized, aware; None if never.
        rows: Rows of the table; None where there is no table, or its files do not say.
        version: Delta version of the table; None where there is no table.
        left_out: Names of files that are like the table's and that the source's path leaves out by their names.
    """

    table: str
    loaded: list[str]
    missing: list[str]
    failed: list[str]
    drifted: list[str]
    in_progress: list[str]
    waiting: list[str]
    causes: Mapping[str, str]
    undone: Mapping[str, str]
    freshness: float | None
    last_materialized: datetime | None
    rows: int | None
    version: int | None
    left_out: list[str] = field(default_factory=list)


def table_status(instance: dg.DagsterInstance, table: Table, lake: Lake, at: datetime | None = None) -> TableStatus:
    """The status of a table, from one look at its source, at Dagster and at the Delta log.

    Args:
        instance: Where the checkpoints are.
        table: The declaration.
        lake: Where the table is.
        at: The instant it is for, aware; default now.

    Raises:
        SourceUnavailable, SourceUnreadable: From the source.

    Example:
        >>> table_status(instance, table, lake).missing  # doctest: +SKIP
        ['2026-01-03']
    """
    moment = at or windows.now()
    state = source_state(table, lake, moment)
    progress = progress_from(instance, table, state)
    lost = undone_windows(instance, table, lake, progress, moment).windows
    progress = with_undone(progress, lost)
    late = lateness_of(instance, table, progress, moment)
    delta = lake.delta(lake.table_uri(table.key.path))
    keys = {status: [w.key for w in progress if w.status == status] for status in _STATUSES}
    return TableStatus(
        table=table.name,
        **keys,
        undone=lost,
        causes={w.key: w.failure for w in progress if w.failure is not None},
        freshness=None if late.verdict in ("undeclared", "not due") else late.overdue.total_seconds(),
        last_materialized=_last_materialized(instance, table),
        rows=None if delta is None else rows_of(delta),
        version=None if delta is None else delta.version(),
        left_out=list(state.left_out),
    )


_STATUSES = ("loaded", "missing", "failed", "drifted", "in_progress", "waiting")


def rows_of(delta: DeltaTable) -> int | None:
    """The rows of a Delta table as its log counts them; None where a file was written without statistics."""
    counts = delta.get_add_actions(flatten=True).column("num_records").to_pylist()
    return None if None in counts else sum(counts)


def _last_materialized(instance: dg.DagsterInstance, table: Table) -> datetime | None:
    event = instance.get_latest_materialization_event(table.key)
    return None if event is None else datetime.fromtimestamp(event.timestamp, UTC)
