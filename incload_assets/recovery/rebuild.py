"""Rebuilds lost checkpoints from the tables: no source is read, and nothing is written to the lake.

A window is green only if it is proven: the full fold of its keys from the log has to find nothing to do in the table,
and each row read has to be in one bin. Then Dagster is told what the log's record says, as if the load had just ended.
A commit of a load that was killed long ago and still arrives is refused by the fences, which the tables hold.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import dagster as dg

from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.window_records import WindowRecord
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import Window, known_windows, now
from incload_assets.delta.tuning import tune_plan
from incload_assets.load.reconcile import Evidence, check_bins, examine, unsigned
from incload_assets.progress.checkpoint import DATA_VERSION_TAG
from incload_assets.progress.progress import SourceState, progress_from, windows_to_look_at
from incload_assets.writes.merge_into import app_id
from incload_assets.writes.strategy import strategy_of
from resources.errors import ReconciliationFailed

WINDOWS_AT_ONCE = 500
"""Windows that one plan proves."""


@dataclass(frozen=True)
class Rebuilt:
    """The result of a rebuild of one table.

    Args:
        proven: Partition keys that are proven to be in the table as the log says; reported unless it was a dry run.
        refused: Why a partition could not be proven, by partition key.
        kept: Partition keys whose checkpoint Dagster has already.
    """

    proven: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    kept: list[str] = field(default_factory=list)

    def summary(self, table_name: str, *, dry_run: bool) -> str:
        """The counts in one line."""
        verb = "could be rebuilt" if dry_run else "rebuilt"
        known = f"{len(self.kept)} known already, {len(self.refused)} not proven"
        return f"{table_name}: {len(self.proven)} {verb}, {known}"


def rebuild(
    load: LoadContext,
    instance: dg.DagsterInstance,
    *,
    dry_run: bool = False,
    done: Callable[[int, int], None] = lambda done, total: None,
) -> Rebuilt:
    """Reports every window as loaded that log and table prove to be loaded.

    Args:
        load: The context; its run id is not used.
        instance: The instance that lost its checkpoints.
        dry_run: Whether to report nothing.
        done: Called with the number of windows examined, and their total.

    Example:
        >>> rebuild(LoadContext(spark, orders, lake), instance).proven  # doctest: +SKIP
        ['2026-01-01', '2026-01-02']
    """
    table, result = load.table, Rebuilt()
    records = load.log.controls()
    windows = _to_prove(instance, table, records, result)
    if load.lake.delta(load.uri) is None:
        result.refused.update(dict.fromkeys((w.key for w in windows), "the table is gone; a load makes it again"))
        return result
    for start in range(0, len(windows), WINDOWS_AT_ONCE):
        for window, evidence, version in _examined(load, windows[start : start + WINDOWS_AT_ONCE]):
            why = _doubt(table, window, evidence)
            if why:
                result.refused[window.key] = why
                continue
            result.proven.append(window.key)
            if not dry_run:
                instance.report_runless_asset_event(_event(table, window, records[window.key], evidence, version))
        done(min(start + WINDOWS_AT_ONCE, len(windows)), len(windows))
    return result


def _to_prove(
    instance: dg.DagsterInstance, table: Table, records: Mapping[str, WindowRecord], result: Rebuilt
) -> list[Window]:
    """The windows to prove, oldest first; windows that need no proof, or can have none, are put into the result."""
    windows = {window.key: window for window in known_windows(table.partitions_def, records)}
    state = SourceState(windows_to_look_at(table, now()), {}, dict(records))
    checkpoints = {progress.key: progress.checkpoint for progress in progress_from(instance, table, state)}
    chosen = []
    for key, record in records.items():
        if key not in windows:
            result.refused[key] = "the partitions definition has no such partition"
        elif checkpoints.get(key) == record.fingerprint:
            result.kept.append(key)
        elif record.code_version != table.code_version:
            result.refused[key] = "other code has validated its rows; a load validates them again"
        else:
            chosen.append(windows[key])
    result.kept.sort()
    return sorted(chosen)


def _examined(load: LoadContext, windows: Sequence[Window]) -> Iterator[tuple[Window, Evidence, int]]:
    """The evidence of a full fold of the windows' keys, and the version of the table."""
    at = load.read_view(tuple(windows), app_id(load.table, windows[0]), of_range=len(windows) > 1)
    tune_plan(load.spark, at.changes, at.near_bytes + at.log_bytes)
    plan = strategy_of(load.table).plan(load, at, full=True)
    try:
        evidence = examine(plan, at)
    finally:
        plan.release()
        load.kept.release()
    for window in windows:
        yield window, evidence[window.key], at.table_version


def _doubt(table: Table, window: Window, evidence: Evidence) -> str:
    """Why a window is not proven; empty if it is."""
    if evidence.pending:
        return f"{evidence.pending} of its {evidence.keys} keys differ between log and table; a load repairs them"
    try:
        check_bins(evidence, f"{table.name} {window.key}")
    except ReconciliationFailed as error:
        return str(error)
    return ""


def _event(
    table: Table, window: Window, record: WindowRecord, evidence: Evidence, version: int
) -> dg.AssetMaterialization:
    return dg.AssetMaterialization(
        table.key,
        partition=window.key,
        description="Rebuilt from log and table; the source was not read.",
        metadata={
            "rebuilt": dg.MetadataValue.bool(True),
            "delta_version": dg.MetadataValue.int(version),
            "source_position": dg.MetadataValue.text(record.summary or record.fingerprint),
            "fingerprint": dg.MetadataValue.text(record.fingerprint),
            "loaded_by_run": dg.MetadataValue.text(record.run_id),
            "proof": dg.MetadataValue.json(
                {
                    "keys": evidence.keys,
                    "pending": evidence.pending,
                    "log_hash": unsigned(evidence.log_hash),
                    "table_hash": unsigned(evidence.table_hash),
                }
            ),
        },
        tags={DATA_VERSION_TAG: record.fingerprint},
    )
