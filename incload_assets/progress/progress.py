"""The progress of a table: what the source holds, window by window, compared with Dagster's checkpoints."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Literal, get_args

import dagster as dg

from incload_assets.change_log.log import ChangeLog
from incload_assets.change_log.window_records import WindowRecord
from incload_assets.declaration.source import DetectRequest, Position
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import Window, windows_at
from incload_assets.platform.dagster_private import (
    AssetPartitionStatus,
    PartitionsSubset,
    TimeWindowPartitionsSubset,
    get_and_update_asset_status_cache_value,
)
from incload_assets.platform.lake import Lake
from incload_assets.progress.checkpoint import fingerprints_of
from incload_assets.progress.recorded import Recorded
from incload_assets.progress.run_tags import FAILURE_TAG, own_tag

Status = Literal["loaded", "missing", "failed", "drifted", "in_progress", "waiting", "held"]
STATUSES: tuple[Status, ...] = get_args(Status)


@dataclass(frozen=True, kw_only=True)
class WindowProgress:
    """The progress of one window of a table.

    Args:
        status: ``loaded``: the checkpoint equals the source. ``drifted``: source or log have changed since.
            ``missing``: the source holds data that was never loaded (or the window is over and declared empty).
            ``in_progress``: a run is queued or loading it. ``waiting``: the source holds nothing. ``held``: a load was
            undone, and the source still holds what was undone.
        position: What a load would find now; None if nothing (a load would wait).
        checkpoint: Fingerprint of the last materialization, None if there is none.
        code_changed: Whether the log has rows of the window that another version of the code validated.
        failure: Why the last attempt failed, from the run's tag; None unless ``status`` is ``failed``.
        record: The record of the window in the log; None if it was never ingested.
    """

    window: Window
    status: Status
    position: Position | None = None
    checkpoint: str | None = None
    code_changed: bool = False
    failure: str | None = None
    failed_run: str | None = None
    record: WindowRecord | None = None

    @property
    def key(self) -> str:
        """The partition key."""
        return self.window.key

    @property
    def is_current(self) -> bool:
        """True if the last load had the source's present content, whatever a run has done since."""
        return self.position is not None and self.position.fingerprint == self.checkpoint

    @property
    def is_loaded(self) -> bool:
        """True if any load of the window was checkpointed, regardless of what happened since."""
        return self.checkpoint is not None

    @property
    def is_forgotten(self) -> bool:
        """True if the log has a load of the window that Dagster does not know: its storage, or the run, was lost."""
        has_load = self.record is not None and not self.record.is_withdrawn
        return has_load and self.checkpoint is None and self.status in ("missing", "waiting")


@dataclass(frozen=True)
class SourceState:
    """The state of a table's windows in source and log, from one read of each.

    Args:
        positions: For windows in which a load would find something.
        left_out: Names of files at the source that resemble the data of a checked window but are not read.
        asked: The windows that the source was asked about, oldest first.
        found: What it answered, by partition key.
        passed: Number of oldest windows that were not to be checked.
    """

    windows: Sequence[Window]
    positions: dict[str, Position]
    records: dict[str, WindowRecord]
    left_out: Sequence[str] = ()
    asked: Sequence[Window] = ()
    found: Mapping[str, Position] = field(default_factory=dict)
    passed: int = 0

    @property
    def ingested(self) -> dict[str, Position]:
        """The positions that earlier loads ingested, by partition key."""
        return {key: record.as_position() for key, record in self.records.items()}


def windows_to_look_at(table: Table, now: datetime) -> Sequence[Window]:
    """All windows that the table has at an instant, oldest first."""
    return windows_at(table.partitions_def, now)


def source_state(table: Table, lake: Lake, now: datetime, newest: int | None = None) -> SourceState:
    """The state of source and log, from one request to the source for all windows and one read of the log.

    A window that is over and declared empty has the empty position, as in a load. If only the ``newest`` windows are
    checked, the others have the ingested position.
    """
    windows = windows_to_look_at(table, now)
    records = ChangeLog(table, lake).records()
    ingested = {key: record.as_position() for key, record in records.items()}
    passed = {window.key for window in windows[:-newest]} if newest else set[str]()
    settled = {k: position for k, position in ingested.items() if k in passed or table.source.settled(position)}
    asked = [window for window in windows if window.key not in settled and window.key not in passed]
    table.source.check_landed(
        table.name, ((window, ingested[window.key]) for window in asked if window.key in ingested)
    )
    first = windows[0].start if windows else None
    seen = table.source.survey(DetectRequest(table.name, asked, ingested, lake, first, table.reads_older))
    positions = settled | seen.positions
    nothing_found = [window for window in windows if window.end <= now and window.key not in positions]
    positions |= table.source.empty_positions(nothing_found, lake)
    gone = [window.key for window in asked if window.key in ingested and window.key not in positions]
    positions |= {key: ingested[key] for key in gone}  # a load keeps what was ingested, too
    return SourceState(windows, positions, records, seen.left_out, asked, seen.positions, len(passed))


def progress_of(
    instance: dg.DagsterInstance, table: Table, lake: Lake, now: datetime, *, newest: int | None = None
) -> list[WindowProgress]:
    """The progress of every window of the table at an instant (aware), oldest first; needs no Spark.

    If only the ``newest`` windows are checked, older ones that are not loaded have no position: it is unknown.
    """
    return progress_from(instance, table, source_state(table, lake, now, newest))


def progress_from(
    instance: dg.DagsterInstance, table: Table, state: SourceState, recorded: Recorded | None = None
) -> list[WindowProgress]:
    """The progress of every window, oldest first, for a given state of the source; see :func:`progress_of`."""
    keys = [window.key for window in state.windows]
    statuses = _statuses(instance, table, state.windows, recorded)
    checkpoints = fingerprints_of(instance, table.key)
    failures = _failures(instance, table, [k for k in keys if statuses.get(k) is AssetPartitionStatus.FAILED])
    progress = []
    for window in state.windows:
        key = window.key
        position, checkpoint, record = state.positions.get(key), checkpoints.get(key), state.records.get(key)
        status = _status(statuses.get(key), position, checkpoint, record)
        failed_run, failure = failures.get(key, (None, None))
        progress.append(
            WindowProgress(
                window=window,
                status=status,
                position=position,
                checkpoint=checkpoint,
                code_changed=record is not None and record.code_version != table.code_version,
                failure=failure,
                failed_run=failed_run,
                record=record,
            )
        )
    for place, old in enumerate(progress[: state.passed]):
        if old.status not in ("loaded", "held"):
            progress[place] = replace(old, position=None)  # it is unknown
    return progress


def _statuses(
    instance: dg.DagsterInstance, table: Table, windows: Sequence[Window], recorded: Recorded | None
) -> Mapping[str, AssetPartitionStatus]:
    """The status of each partition in Dagster, as its ``get_status_by_partition`` gives them, which asks for each key.

    It goes through all stretches of partitions for each key three times, which thousands of partitions feel; and a
    stretch computes its keys from the calendar, though the table's windows, oldest first, are known.
    """
    known = get_and_update_asset_status_cache_value(instance, table.key, table.partitions_def, loading_context=recorded)
    if known is None:
        return {}
    found: dict[str, AssetPartitionStatus] = {}
    for status, subset in (
        (AssetPartitionStatus.MATERIALIZED, known.deserialize_materialized_partition_subsets(table.partitions_def)),
        (AssetPartitionStatus.FAILED, known.deserialize_failed_partition_subsets(table.partitions_def)),
        (AssetPartitionStatus.IN_PROGRESS, known.deserialize_in_progress_partition_subsets(table.partitions_def)),
    ):
        for first, last in _stretches(subset, windows):
            found |= dict.fromkeys((window.key for window in windows[first:last]), status)
    return found


def _stretches(subset: PartitionsSubset, windows: Sequence[Window]) -> Iterator[tuple[int, int]]:
    """The places of the first window and after the last one of each stretch of a subset."""
    assert isinstance(subset, TimeWindowPartitionsSubset)
    for stretch in subset.included_time_windows:
        bounds = (stretch.start.astimezone(UTC), stretch.end.astimezone(UTC))
        first, last = (bisect_left(windows, bound, key=lambda window: window.start) for bound in bounds)
        yield first, last


def _status(
    seen: AssetPartitionStatus | None, position: Position | None, checkpoint: str | None, record: WindowRecord | None
) -> Status:
    if seen is AssetPartitionStatus.IN_PROGRESS:
        return "in_progress"
    hold = record.hold if record is not None and record.is_held_at(position) else None
    if seen is AssetPartitionStatus.FAILED and (hold is None or hold.undone):
        return "failed"
    if record is not None and hold is not None:
        return "held" if record.rests_at(position, checkpoint) else "drifted"
    if seen is AssetPartitionStatus.MATERIALIZED and checkpoint is not None:  # else a person marked it, not a load
        # a log without the window, or with other data than was checkpointed, is repaired by a load, too
        known = {record.fingerprint if record else None} | ({position.fingerprint} if position else set())
        return "loaded" if known == {checkpoint} else "drifted"
    return "waiting" if position is None else "missing"


def _failures(
    instance: dg.DagsterInstance, table: Table, keys: Sequence[str]
) -> Mapping[str, tuple[str | None, str | None]]:
    """Run and cause of the last attempt at each failed partition, by partition key."""
    if not keys:
        return {}
    attempts = instance.event_log_storage.get_latest_asset_partition_materialization_attempts_without_materializations(
        table.key
    )
    run_of = {key: attempts[key][0] for key in keys if key in attempts}
    causes = {}
    for run_id in set(run_of.values()):
        run = instance.get_run_by_id(run_id)
        causes[run_id] = (own_tag(run, FAILURE_TAG) or "error") if run else None
    return {key: (run_id, causes[run_id]) for key, run_id in run_of.items()}
