"""Compaction of the change log: removes changes of old windows that can no longer affect the table.

A change that a newer one has superseded is no longer needed, unless the newer one is withdrawn because its window is
rewritten at the source. So a compacted window is *marked*, and a load replaces its content only if it is asked to. As
loads may be running, and commits of killed loads may still arrive, a compaction

1. commits an *intent*: it marks the window records of windows at rest, under the compaction's own fence in the log;
2. checks again which of the marked windows are at rest: a load that begins from now on sees the mark;
3. reads the log and commits the *removal*, fenced by the next number. A load that is about to ingest a marked window
   moves that fence first, so that the removal is either rejected or is the state that the ingestion starts from.

Intents have odd numbers and removals even ones: an odd number means that a compaction was interrupted or rejected.
``tests/model/compaction.py`` explores this protocol.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime

import dagster as dg
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incload_assets.change_log.change import CHANGES, CONTROL
from incload_assets.change_log.commit import bare_fence, commit
from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.payloads import payloads_read_at
from incload_assets.change_log.staged import Staged
from incload_assets.change_log.window_records import WindowRecord
from incload_assets.declaration import window as windows
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import Window
from incload_assets.delta.fences import fenced
from incload_assets.delta.tables import lost_the_race
from incload_assets.load.compacted import compaction_app_id
from incload_assets.load.tables import ensure_log
from incload_assets.maintenance.jobs import MaintenanceJob, load_in
from incload_assets.platform.errors import ConcurrentLoad
from incload_assets.platform.sql import literal
from incload_assets.platform.wording import several
from incload_assets.progress.checkpoint import at_rest
from incload_assets.writes.strategy import strategy_of

AtRest = Callable[[Collection[str]], Mapping[str, str]]
"""A function from partition keys to checkpointed fingerprints, for keys that no run is loading or failed to load since.
"""


@dataclass(frozen=True)
class Compaction:
    """The counts of a compaction.

    Args:
        windows: Windows older than the retention that are compacted now; ``added`` of them were not compacted before.
        busy: Keys of old windows that were left alone because they were not at rest.
        before: Changes that the compacted windows had in the log; ``removed`` of them were removed.
    """

    windows: int = 0
    added: int = 0
    busy: tuple[str, ...] = ()
    before: int = 0
    removed: int = 0


def compact(load: LoadContext, older_than: datetime, at_rest: AtRest) -> Compaction:
    """Removes changes from the log that can no longer affect the table, of windows that ended by an aware time.

    Raises:
        ConcurrentLoad: A concurrent load came first; nothing was removed.
    """
    table, log = load.table, load.log
    version = log.version()
    if version is None:
        return Compaction()
    records = _old(table, log.records(version), older_than)
    _, busy, new = _choice(records, at_rest)
    last = load.lake.transaction_version(log.uri, compaction_app_id(table)) or 0
    if not new and last % 2 == 0:
        return Compaction(windows=sum(record.compacted_at is not None for record in records.values()), busy=busy)
    load.info(
        f"{table.name}: compacting the log of {several(len(new), 'more window')} that ended by "
        f"{older_than:%Y-%m-%d %H:%M} UTC"
    )
    intent = last + 1 + last % 2
    _mark(load, new, intent)
    known = at_rest([window.key for window in records])  # before the log is read: later ingestions see the marks
    version = log.version()
    assert version is not None
    now = _old(table, log.records(version), older_than)
    settled = {
        w: c
        for w, c in now.items()
        if c.compacted_at is not None and c.hold is None and known.get(w.key) == c.fingerprint
    }
    before, removed = _remove(load, version, settled, intent + 1) if settled else (0, 0)
    load.info(
        f"{table.name}: removed {removed} of {several(before, 'change')} of "
        f"{several(len(settled), 'window')} from the log"
    )
    return Compaction(len(settled), len(new), busy, before, removed)


def plan_compaction(load: LoadContext, older_than: datetime, at_rest: AtRest) -> Compaction:
    """The counts of a compaction, if it was made now; nothing is changed."""
    if (version := load.log.version()) is None:
        return Compaction()
    records = _old(load.table, load.log.records(version), older_than)
    rest, busy, new = _choice(records, at_rest)
    if not rest:
        return Compaction(busy=busy)
    with _decisive(load, version, {window: records[window] for window in rest}) as (_, before, after, _):
        return Compaction(len(rest), len(new), busy, sum(before.values()), sum(before.values()) - sum(after.values()))


def _choice(records: Mapping[Window, WindowRecord], at_rest: AtRest) -> tuple[list[Window], tuple[str, ...], list[str]]:
    """The windows at rest, the keys of the others, and the keys of those at rest that were not compacted before."""
    known = at_rest([window.key for window in records])
    rest = [
        window
        for window, record in records.items()
        if known.get(window.key) == record.fingerprint and record.hold is None
    ]
    busy = tuple(window.key for window in records if window not in rest)
    return rest, busy, [window.key for window in rest if records[window].compacted_at is None]


def _old(table: Table, records: Mapping[str, WindowRecord], older_than: datetime) -> dict[Window, WindowRecord]:
    """The windows that ended by a time, oldest first, without keys that are no longer windows of the table."""
    known = table.known_windows(records)
    return {window: records[window.key] for window in known if window.end <= older_than}


def _mark(load: LoadContext, keys: Collection[str], number: int) -> None:
    """Commits the intent, which is computed from the window records at the time of the commit."""
    log, at = load.log, windows.now().isoformat()
    chosen = f"_kind = '{CONTROL}' AND _window IN ({', '.join(map(literal, keys))})" if keys else "false"
    statement = f"UPDATE {load.lake.sql_name(log.uri)} SET _control.compacted_at = TIMESTAMP'{at}' WHERE {chosen}"
    try:
        with fenced(load.spark, compaction_app_id(load.table), number):
            load.spark.sql(statement).first()
    except PySparkException as error:
        if not lost_the_race(error):
            raise
    if load.lake.transaction_version(log.uri, compaction_app_id(load.table)) != number:
        raise _overtaken(load.table)


def _remove(load: LoadContext, version: int, rest: Mapping[Window, WindowRecord], number: int) -> tuple[int, int]:
    """Commits the removal; returns how many changes there were, and how many were removed."""
    table, log = load.table, load.log
    with _decisive(load, version, rest) as (rows, before, after, decisive):
        gone = {window.key: before.get(window.key, 0) - after.get(window.key, 0) for window in rest}
        records = {
            window.key: replace(record, removed=record.removed + gone[window.key])
            for window, record in rest.items()
            if gone[window.key]
        }
        if not records:
            bare_fence(load, compaction_app_id(table))
            return sum(before.values()), 0
        others = rows.filter(~F.col("_kind").isin(*CHANGES, CONTROL))
        content = decisive.unionByName(others).filter(F.col("_window").isin(*records))
        note, fence = f"compacted {min(records)}..{max(records)}, run {load.run_id}", compaction_app_id(table)
        with Staged(log, load.spark, list(records)) as staged:
            staged.write(content)
            read_at = payloads_read_at(log.open(), records)
            if not commit(load, staged, records, fence, number, note=note, keep=False, read_at=read_at):
                raise _overtaken(table)
        return sum(before.values()), sum(gone.values())


@contextmanager
def _decisive(
    load: LoadContext, version: int, rest: Mapping[Window, WindowRecord]
) -> Iterator[tuple[DataFrame, dict[str, int], dict[str, int], DataFrame]]:
    """The rows of windows, their changes by partition key, the number of those that still decide, and these."""
    rows = load.log.read(load.spark, version, [window.key for window in rest])
    changes = rows.filter(F.col("_kind").isin(*CHANGES))
    decisive = strategy_of(load.table).decisive(load.table, changes, rest).persist()
    try:
        yield rows, _by_window(changes, len(rest)), _by_window(decisive, len(rest)), decisive
    finally:
        decisive.unpersist()


def _by_window(rows: DataFrame, most: int) -> dict[str, int]:
    return {row["_window"]: row["count"] for row in rows.groupBy("_window").count().head(most)}


def _overtaken(table: Table) -> ConcurrentLoad:
    return ConcurrentLoad(
        f"{table.name}: a load of a compacted window came before the removal from the log",
        rule="a compaction gives way to loads; nothing was removed",
        remedy="none: the next compaction removes it",
    )


def at_rest_in(instance: dg.DagsterInstance, table: Table, run_id: str = "") -> AtRest:
    """The windows of a table that are at rest by an instance's records, not counting the run that compacts."""
    return lambda keys: at_rest(instance, table.key, table.partitions_def, keys, run_id)


def _compact(context: dg.OpExecutionContext, table: Table) -> Compaction:
    assert table.log_retention is not None
    older_than = windows.now() - table.log_retention
    with load_in(context, table) as loads:
        if loads.log.version() is None:
            return Compaction()
        ensure_log(loads)
        return compact(loads, older_than, at_rest_in(context.instance, table, context.run.run_id))


def _metadata(table: Table, done: Compaction) -> dict[str, dg.MetadataValue]:
    return {
        "log_windows_compacted": dg.MetadataValue.int(done.windows),
        "log_windows_added": dg.MetadataValue.int(done.added),
        "log_changes_before": dg.MetadataValue.int(done.before),
        "log_changes_removed": dg.MetadataValue.int(done.removed),
        "log_windows_busy": dg.MetadataValue.text(", ".join(done.busy) or "none"),
        "log_retention": dg.MetadataValue.text(str(table.log_retention)),
    }


COMPACT_LOGS = MaintenanceJob(
    name="compact_logs",
    step_name="compact_each_log",
    cron="20 3 * * *",
    about="Removes changes that can no longer affect the table from the logs of tables with a log_retention.",
    whose="tables with a log_retention",
    undone="logs not compacted",
    removes="changes from logs, so that their windows are replaced only by choice",
    applies_to=lambda table: table.log_retention is not None,
    work=lambda context, table: _metadata(table, _compact(context, table)),
)
