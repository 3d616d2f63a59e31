"""Rebuilds lost checkpoints from the tables: no source is read, and nothing is written to the lake.

A window is green only if it is proven: the full fold of its keys from the log has to find nothing to do in the table,
and each row read has to be in one bin. Dagster then gets the recorded result and data version, as if the load had
just finished. A late commit of a load that was killed is refused by the fences, which the tables hold.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import dagster as dg
from pyspark.errors import PySparkException

from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.lake_errors import lost_file
from incload_assets.change_log.read_view import ReadView
from incload_assets.change_log.window_records import WindowRecord
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import Window, now
from incload_assets.delta.tuning import tune_plan
from incload_assets.load.proven import shown_proof
from incload_assets.load.range_fences import not_merged
from incload_assets.load.reconcile import Evidence, check_bins, examine
from incload_assets.platform.errors import ReconciliationFailed
from incload_assets.platform.wording import several
from incload_assets.progress.checkpoint import DATA_VERSION_TAG, fingerprints_of
from incload_assets.progress.progress import windows_to_look_at
from incload_assets.restore.runless_events import report_materializations
from incload_assets.writes.merge_into import app_id
from incload_assets.writes.strategy import strategy_of

WINDOWS_AT_ONCE = 5_000
"""Windows that one plan proves. A plan may have to read the whole log, however few windows it is for."""


@dataclass(frozen=True)
class Rebuilt:
    """The result of a rebuild of one table, by partition key.

    Args:
        proven: Proven to be in the table as the log says; reported unless it was a dry run.
        refused: Why a partition could not be proven.
        kept: Dagster has their checkpoint already.
        closed: Proven partitions of former definitions; nothing is reported for them, as Dagster no longer has them.
    """

    proven: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    kept: list[str] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)

    def summary(self, table_name: str, *, dry_run: bool) -> str:
        """The counts in one line."""
        verb = "could be rebuilt" if dry_run else "rebuilt"
        known = f"{len(self.kept)} known already, {len(self.refused)} not proven"
        closed = f", {len(self.closed)} closed and proven" if self.closed else ""
        return f"{table_name}: {len(self.proven)} {verb}, {known}{closed}"


def rebuild(
    load: LoadContext,
    instance: dg.DagsterInstance,
    *,
    dry_run: bool = False,
    done: Callable[[int, int], None] = lambda done, total: None,
) -> Rebuilt:
    """Reports every window as loaded that log and table prove to be loaded; a dry run reports nothing.

    ``done`` is called with the number of windows examined, and their total.
    """
    table, result = load.table, Rebuilt()
    records = load.log.records()
    windows = _to_prove(instance, table, records, result)
    if load.lake.delta(load.uri) is None:
        result.refused.update(dict.fromkeys((w.key for w in windows), "the table is gone; a load makes it again"))
        return result
    at_once = WINDOWS_AT_ONCE if table.in_ranges else 1
    for start in range(0, len(windows), at_once):
        proven = []
        for window, evidence, at in _examined(load, windows[start : start + at_once]):
            if why := _doubt(load, window, evidence, at):
                result.refused[window.key] = why
                continue
            if window.key in table.closed:
                result.closed.append(window.key)
                continue
            result.proven.append(window.key)
            proven.append(_event(table, window, records[window.key], evidence, at.table_version))
        if not dry_run:
            report_materializations(instance, proven)
        done(min(start + at_once, len(windows)), len(windows))
    return result


def _to_prove(
    instance: dg.DagsterInstance, table: Table, records: Mapping[str, WindowRecord], result: Rebuilt
) -> list[Window]:
    """The windows to prove, oldest first; windows that need no proof, or can have none, are put into the result."""
    windows = {window.key: window for window in windows_to_look_at(table, now())} | dict(table.closed)
    checkpoints = fingerprints_of(instance, table.key)
    chosen = []
    for key, record in records.items():
        if key not in windows:
            if not record.is_withdrawn:
                result.refused[key] = "the partitions definition has no such partition"
        elif key in table.closed:  # Dagster shows nothing of it, so that only a proof shows whether it is there
            chosen.append(windows[key])
        elif checkpoints.get(key) == record.fingerprint:
            result.kept.append(key)
        elif record.code_version != table.code_version:
            result.refused[key] = "other code has validated its rows; a load validates them again"
        else:
            chosen.append(windows[key])
    result.kept.sort()
    return sorted(chosen)


def _examined(load: LoadContext, windows: Sequence[Window]) -> Iterator[tuple[Window, Evidence, ReadView]]:
    """The evidence of a full fold of the windows' keys, and what it was read from."""
    at = load.read_view(tuple(windows), app_id(load.table, windows[0]), of_range=len(windows) > 1)
    tune_plan(load.spark, at.changes, at.near_bytes + at.log_bytes)
    plan = None
    try:
        plan = strategy_of(load.table).plan(load, at, full=True)
        evidence = examine(plan, at)
    except PySparkException as error:
        raise lost_file(error, load.table, load.lake) or error from None
    finally:
        if plan is not None:
            plan.release()
        load.kept.release()
    for window in windows:
        yield window, evidence[window.key], at


def _doubt(load: LoadContext, window: Window, evidence: Evidence, at: ReadView) -> str:
    """Why a window is not proven; empty if it is."""
    if evidence.pending and window.key in load.table.closed:
        return (
            f"log and table differ in {evidence.pending} of {several(evidence.keys, 'key')}, and "
            f"it is closed; RESTORE the table's version"
        )
    if evidence.pending and not _was_merged(load, window, at):
        return "it was ingested, but not merged; a load merges it"
    if evidence.pending:
        return f"log and table differ in {evidence.pending} of {several(evidence.keys, 'key')}; a load repairs them"
    try:
        check_bins(evidence, f"{load.table.name} {window.key}")
    except ReconciliationFailed as error:
        return str(error)
    return ""


def _was_merged(load: LoadContext, window: Window, at: ReadView) -> bool:
    """True if the table has, or may have, a commit of a merge of the window's last ingestion."""
    delta = load.lake.delta(load.uri, at.table_version)
    return delta is not None and not not_merged(load.table, {window: at.records[window.key]}, delta)


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
            "proof": dg.MetadataValue.json(shown_proof(evidence, None)),
        },
        tags={DATA_VERSION_TAG: record.fingerprint},
    )
