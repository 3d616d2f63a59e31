"""How far a table has come: what the source holds, window by window, against what Dagster has checkpointed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

import dagster as dg
from dagster._core.storage.partition_status_cache import AssetPartitionStatus  # status by partition has no public type

from incload_assets.change_log.log import ChangeLog
from incload_assets.change_log.window_records import WindowRecord
from incload_assets.declaration.source import DetectRequest, Position
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import Window, window_between
from incload_assets.progress.checkpoint import DATA_VERSION_TAG, FAILURE_TAG
from incload_assets.progress.run_tags import own_tag
from resources.lake import Lake

Status = Literal["loaded", "drifted", "missing", "failed", "in_progress", "waiting"]


@dataclass(frozen=True, kw_only=True)
class WindowProgress:
    """One window of a table.

    Args:
        window: Which.
        status: ``loaded``: the checkpoint is what the source holds. ``drifted``: source or log now hold something
            else. ``missing``: the source holds something (or the window is over and declared empty) that was never
            loaded. ``failed``: the last attempt failed. ``in_progress``: a run has it. ``waiting``: the source holds
            nothing.
        position: What a load would find now; None if nothing (a load would wait).
        checkpoint: Fingerprint of the last materialization, None if there is none.
        code_changed: Whether the log holds rows of the window that another version of the code validated.
        failure: Why the last attempt failed, as the run was tagged; None unless ``status`` is ``failed``.
        failed_run: The run of that attempt.
    """

    window: Window
    status: Status
    position: Position | None = None
    checkpoint: str | None = None
    code_changed: bool = False
    failure: str | None = None
    failed_run: str | None = None

    @property
    def key(self) -> str:
        """The partition key."""
        return self.window.key

    @property
    def is_loaded(self) -> bool:
        """Whether some load of the window was checkpointed, whatever happened since."""
        return self.checkpoint is not None


@dataclass(frozen=True)
class SourceState:
    """What a source and the log know of a table's windows, from one look at each.

    Args:
        windows: All that exist now, oldest first.
        positions: By partition key, where a load would find something.
        controls: The log's control rows by partition key.
        left_out: Names of what lies at the source, is like the data of some window that was looked at, and is not read.
    """

    windows: list[Window]
    positions: dict[str, Position]
    controls: dict[str, WindowRecord]
    left_out: Sequence[str] = ()

    @property
    def ingested(self) -> dict[str, Position]:
        """The positions that earlier loads ingested."""
        return {key: control.as_position() for key, control in self.controls.items()}


def windows_to_look_at(table: Table, now: datetime) -> list[Window]:
    """All windows that the table has at an instant, oldest first.

    Args:
        table: The declaration.
        now: Aware.
    """
    keys = table.partitions_def.get_partition_keys(current_time=now)
    # all bounds in one walk through the definition: a table may have thousands of windows
    bounds = table.partitions_def.time_windows_for_partition_keys(frozenset(keys), validate=False)
    return [window_between(table.partitions_def, b, key) for key, b in zip(keys, bounds, strict=True)]


def source_state(table: Table, lake: Lake, now: datetime, newest: int | None = None) -> SourceState:
    """Look at the source once for all windows, and at the log once for what was ingested.

    A window that is over and declared empty has the empty position, as a load would find it.

    Args:
        table: The declaration.
        lake: Where the table's log is.
        now: Aware.
        newest: Look at so many of the newest windows only; others have the position that was ingested. None: all.

    Raises:
        SourceUnavailable, SourceUnreadable: From the source.
        SchemaMismatch: A window holds what by the declaration belongs to another one now.
    """
    windows = windows_to_look_at(table, now)
    controls = ChangeLog(table, lake).controls()
    ingested = {key: control.as_position() for key, control in controls.items()}
    passed = {window.key for window in windows[:-newest]} if newest else set[str]()
    settled = {k: position for k, position in ingested.items() if k in passed or table.source.settled(position)}
    asked = [window for window in windows if window.key not in settled and window.key not in passed]
    table.source.check_landed(
        table.name, ((window, ingested[window.key]) for window in asked if window.key in ingested)
    )
    first = windows[0].start if windows else None
    seen = table.source.survey(DetectRequest(table.name, asked, ingested, lake, first))
    positions = settled | seen.positions
    nothing_found = [window for window in windows if window.end <= now and window.key not in positions]
    positions |= table.source.empty_positions(nothing_found, lake)
    return SourceState(windows, positions, controls, seen.left_out)


def progress_of(
    instance: dg.DagsterInstance, table: Table, lake: Lake, now: datetime, *, newest: int | None = None
) -> list[WindowProgress]:
    """The progress of every window that the table has, oldest first; without Spark.

    Args:
        instance: Where the checkpoints are.
        table: The declaration.
        lake: Where the table's log is.
        now: Aware; decides which windows exist and which are over.
        newest: Look at so many of the newest windows only; of others that are not loaded, no position is told, because
            nobody knows it. None: all.

    Raises:
        SourceUnavailable, SourceUnreadable: From the source.

    Example:
        >>> [w.key for w in progress_of(instance, table, lake, now()) if w.status == "missing"]  # doctest: +SKIP
        ['2026-01-03']
    """
    progress = progress_from(instance, table, source_state(table, lake, now, newest))
    passed = progress[:-newest] if newest else []
    unknown = [window if window.status == "loaded" else replace(window, position=None) for window in passed]
    return unknown + progress[len(unknown) :]


def progress_from(instance: dg.DagsterInstance, table: Table, state: SourceState) -> list[WindowProgress]:
    """As :func:`progress_of`, for a state of the source that was looked at before."""
    keys = [window.key for window in state.windows]
    statuses = instance.get_status_by_partition(table.key, keys, table.partitions_def) or {}
    checkpoints = _checkpoints(instance, table, keys)
    failures = _failures(instance, table, [k for k in keys if statuses.get(k) is AssetPartitionStatus.FAILED])
    progress = []
    for window in state.windows:
        key = window.key
        position, checkpoint, control = state.positions.get(key), checkpoints.get(key), state.controls.get(key)
        failed_run, failure = failures.get(key, (None, None))
        progress.append(
            WindowProgress(
                window=window,
                status=_status(statuses.get(key), position, checkpoint, control),
                position=position,
                checkpoint=checkpoint,
                code_changed=control is not None and control.code_version != table.code_version,
                failure=failure,
                failed_run=failed_run,
            )
        )
    return progress


def _status(
    seen: AssetPartitionStatus | None, position: Position | None, checkpoint: str | None, control: WindowRecord | None
) -> Status:
    if seen is AssetPartitionStatus.IN_PROGRESS:
        return "in_progress"
    if seen is AssetPartitionStatus.FAILED:
        return "failed"
    if seen is AssetPartitionStatus.MATERIALIZED and checkpoint is not None:  # else a person said so, and no load
        # a log that holds something else than what was checkpointed, or nothing, is brought back to it by a load, too
        known = {control.fingerprint if control else None} | ({position.fingerprint} if position else set())
        return "loaded" if known == {checkpoint} else "drifted"
    return "waiting" if position is None else "missing"


def _checkpoints(instance: dg.DagsterInstance, table: Table, keys: Sequence[str]) -> dict[str, str]:
    """The data version of each partition's last materialization, in one query."""
    chosen = set(keys)
    tags = instance.event_log_storage.get_latest_tags_by_partition(
        table.key, dg.DagsterEventType.ASSET_MATERIALIZATION, [DATA_VERSION_TAG]
    )
    return {key: found[DATA_VERSION_TAG] for key, found in tags.items() if key in chosen and DATA_VERSION_TAG in found}


def _failures(
    instance: dg.DagsterInstance, table: Table, keys: Sequence[str]
) -> Mapping[str, tuple[str | None, str | None]]:
    """Run and cause of the last attempt of each failed partition."""
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
