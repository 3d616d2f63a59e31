"""The observation that the checks of a table share: one read of source, log and Dagster; and helpers for results."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import dagster as dg

from incload_assets.change_log.log import ChangeLog
from incload_assets.change_log.window_records import WindowRecord
from incload_assets.declaration.table import Table
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.lake import Lake
from incload_assets.progress.pause import Pause, pauses
from incload_assets.progress.progress import (
    SourceState,
    WindowProgress,
    progress_from,
    source_state,
    windows_to_look_at,
)
from incload_assets.progress.verdicts import Verdict, last_verdict

UNCHECKED = "source_unchecked"
"""Metadata of results: why the source could not be checked; absent if it could."""
LISTED = 100
"""The longest list that a result shows; its numbers always count everything."""


@dataclass(frozen=True)
class Observation:
    """The state of a table at one instant; no window has a position if there is ``trouble`` with the source.

    ``last`` has the last results of the table's checks by name, if they are known already.
    """

    table: Table
    lake: Lake
    instance: dg.DagsterInstance
    now: datetime
    state: SourceState
    progress: list[WindowProgress]
    trouble: str | None = None
    pause: Pause | None = None
    last: Mapping[str, Verdict] = field(default_factory=dict)

    def last_verdict(self, name: str) -> Verdict | None:
        """The last result of a check of the table; None if it never had a result."""
        return self.last.get(name) or last_verdict(self.instance, dg.AssetCheckKey(self.table.key, name))

    @property
    def records(self) -> dict[str, WindowRecord]:
        """The log's window records by partition key."""
        return self.state.records


def look(instance: dg.DagsterInstance, table: Table, lake: Lake, now: datetime) -> Observation:
    """Makes the observation for all checks; a source that does not answer is a finding, not a failure of the check."""
    try:
        state = source_state(table, lake, now)
    except IncrementalLoadError as error:
        return unanswered(instance, table, lake, now, str(error))
    progress = progress_from(instance, table, state)
    return Observation(table, lake, instance, now, state, progress, pause=pauses(lake, now).get(table.name))


def unanswered(instance: dg.DagsterInstance, table: Table, lake: Lake, now: datetime, trouble: str) -> Observation:
    """The observation of a table whose source did not answer, for a reason."""
    state = SourceState(windows_to_look_at(table, now), {}, ChangeLog(table, lake).records())
    progress = progress_from(instance, table, state)
    return Observation(table, lake, instance, now, state, progress, trouble, pauses(lake, now).get(table.name))


def result(
    look: Observation,
    name: str,
    passed: bool,
    description: str,
    metadata: Mapping[str, dg.MetadataValue] | None = None,
    severity: dg.AssetCheckSeverity = dg.AssetCheckSeverity.WARN,
) -> dg.AssetCheckResult:
    """The result of one check of the observed table; it says, too, if the source could not be checked."""
    trouble = {} if look.trouble is None else {UNCHECKED: dg.MetadataValue.text(look.trouble)}
    return verdict(look.table, name, passed, description, {**(metadata or {}), **trouble}, severity)


def verdict(
    table: Table,
    name: str,
    passed: bool,
    description: str,
    metadata: Mapping[str, dg.MetadataValue] | None,
    severity: dg.AssetCheckSeverity,
) -> dg.AssetCheckResult:
    """The result of one check of a table."""
    return dg.AssetCheckResult(
        asset_key=table.key,
        check_name=name,
        passed=passed,
        severity=severity,
        description=description,
        metadata=dict(metadata or {}),
    )


def records(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> dg.TableMetadataValue:
    """A metadata table of the first rows; cells that are not numbers are shown as text."""
    shown = [row for _, row in zip(range(LISTED), rows, strict=False)]
    return dg.MetadataValue.table(
        [dg.TableRecord({c: _cell(v) for c, v in zip(columns, row, strict=True)}) for row in shown],
        dg.TableSchema(columns=[dg.TableColumn(c) for c in columns]),
    )


def _cell(value: object) -> str | int | float | bool:
    if value is None:
        return ""
    return value if isinstance(value, str | int | float | bool) else str(value)
