"""The doctor: places where Dagster, the change log, the table and the lake contradict each other, each with its remedy.

It compares what each of them has recorded, asks no source and changes nothing. A window that failed or is being loaded
is no contradiction: its next load repairs it.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import dagster as dg

from incload_assets.change_log.log import ChangeLog
from incload_assets.change_log.window_records import WindowRecord
from incload_assets.declaration.table import Table
from incload_assets.load.faults import Faults, unreadable_of_lake
from incload_assets.load.range_fences import not_merged
from incload_assets.platform.errors import IncrementalLoadError, LakeUnreadable, StoredFileLost
from incload_assets.platform.lake import AUDIT_FOLDER, BACK, Lake
from incload_assets.progress.audit import chain_of
from incload_assets.progress.lake_identity import mistaken
from incload_assets.progress.process import gone
from incload_assets.progress.progress import SourceState, WindowProgress, progress_from, windows_to_look_at
from incload_assets.progress.recorded import Recorded, in_groups
from incload_assets.progress.request import Request
from incload_assets.progress.run_tags import PROCESS_TAG, own_tag
from incload_assets.progress.status import forgotten_loads
from incload_assets.progress.undone import undone_windows


@dataclass(frozen=True, kw_only=True)
class Disagreement:
    """Two records of one thing that contradict each other; without partitions it concerns the whole table.

    ``table`` may name what it concerns instead, and is empty for the lake or the audit.
    """

    table: str
    partitions: Sequence[str] = ()
    what: str
    remedy: str


_FORGOTTEN = "the log has them, and Dagster does not know that they were loaded"
_LOAD = "incload load {table} --partitions …, or wait: the sensor loads them again"
_REBUILD = "incload rebuild {table}"
_REPLACED = "no commit of their load: it was replaced by an older copy"
_FORMER = "give the table its former partitions, or declare them as former_partitions"


def examine(instance: dg.DagsterInstance, tables: Iterable[Table], lake: Lake, at: datetime) -> list[Disagreement]:
    """The disagreements about the lake and about tables; a table that cannot be read is one of them."""
    chosen, of_tables, faults = list(tables), dict[str, list[Disagreement]](), Faults(lake)
    recorded, alive = in_groups(instance, chosen), _alive(instance)

    def look(table: Table) -> None:
        found = examine_table(instance, table, lake.followed(), at, recorded(table), alive)
        # a load that ended meanwhile is in the log, and not in the records, which may be seconds old
        of_tables[table.name] = found and examine_table(instance, table, lake.followed(), at)

    faults.in_threads(chosen, look)
    found = examine_lake(lake, instance)
    for table in chosen:
        found += of_tables.get(table.name, [])
    return in_one(found + [_of_fault(name, error) for name, error in faults.errors.items()])


def _of_fault(name: str, error: BaseException) -> Disagreement:
    if not isinstance(error, IncrementalLoadError):
        return Disagreement(table=name, what=str(error), remedy="run incload --verbose doctor, and see its stack trace")
    what = error.problem.removeprefix(f"{name}: ") + (f" (rule: {error.rule})" if error.rule else "")
    return Disagreement(table=name, what=what, remedy=error.remedy or "see incload docs runbooks")


def examine_lake(lake: Lake, instance: dg.DagsterInstance) -> list[Disagreement]:
    """The disagreements that concern no single table: unreadable audit or decisions, or an audit that was altered."""
    faults: dict[str, BaseException] = {**unreadable_of_lake(lake)}
    try:
        altered = chain_of(lake).altered
    except (LakeUnreadable, StoredFileLost) as error:
        altered, faults[AUDIT_FOLDER] = None, error
    found = [_of_fault(folder, error) for folder, error in faults.items()]
    if altered is not None:
        remedy = "incload audit shows its entries; bring the former ones back with a RESTORE of the Delta table _audit"
        found.append(Disagreement(table="", what=str(altered), remedy=remedy))
    return found


def examine_table(
    instance: dg.DagsterInstance,
    table: Table,
    lake: Lake,
    at: datetime,
    recorded: Recorded | None = None,
    alive: Iterable[dg.DagsterRun] | None = None,
) -> list[Disagreement]:
    """The disagreements about a table, from one read of Dagster, of the log and of the table's Delta log.

    ``alive`` are the runs that Dagster has as running; None: it is asked.

    Raises:
        LakeUnreadable: The table or its log cannot be read.
    """
    if (why := mistaken(instance, table, lake)) is not None:
        return [Disagreement(table=table.name, what=why, remedy=f"set {BACK}")]  # all others would be of this lake
    for uri in (lake.log_uri(table.key.path), lake.table_uri(table.key.path)):
        lake.expect_readable(uri)
    records = ChangeLog(table, lake).records()
    recorded = recorded or Recorded(instance, [table])
    state = SourceState(windows_to_look_at(table, at), {}, dict(records))
    progress = progress_from(instance, table, state, recorded)
    causes: dict[tuple[str, str], list[str]] = defaultdict(list)
    found_undone = undone_windows(instance, table, lake, progress, at, recorded=recorded).windows
    undone = {key: f"lost them: {why}" for key, why in found_undone.items()}
    delta = lake.delta(lake.table_uri(table.key.path))
    landed = {window.window: window.record for window in progress if window.record is not None}
    lacking = {} if delta is None else dict.fromkeys(not_merged(table, landed, delta), _REPLACED)
    for window in progress:
        if (cause := _of_window(instance, table, window, delta is not None, lacking | undone)) is not None:
            causes[cause].append(window.key)
    known = {window.key for window in table.known_windows(records)}
    held = {key for key, record in records.items() if not record.is_withdrawn}
    if strange := sorted(held - known):
        causes["the log has them, and the table's partitions do not", _FORMER] = strange
    found = [
        Disagreement(table=table.name, partitions=keys, what=what, remedy=remedy.format(table=table.name))
        for (what, remedy), keys in causes.items()
    ]
    return [*found, *_dead_runs(table, _alive(instance) if alive is None else alive)]


def in_one(found: Sequence[Disagreement]) -> list[Disagreement]:
    """The disagreements, with a single one for all tables whose loads Dagster does not know, as they have one cause."""
    lost = {each.table: len(each.partitions) for each in found if each.what == _FORGOTTEN}
    if len(lost) < 2:
        return [*found]
    what, remedy = forgotten_loads(lost)
    others = [each for each in found if each.what != _FORGOTTEN]
    return [Disagreement(table="Dagster's storage", what=what, remedy=remedy), *others]


def _of_window(
    instance: dg.DagsterInstance,
    table: Table,
    window: WindowProgress,
    is_there: bool,
    lost: Mapping[str, str],
) -> tuple[str, str] | None:
    """The contradiction about a window, and the remedy; None if there is none."""
    record, checkpoint = window.record, window.checkpoint
    if window.status in ("failed", "in_progress") or (record is None and checkpoint is None):
        return None
    if record is None:
        return "Dagster has them as loaded, and the log has no record of them: it was restored or removed", _LOAD
    if checkpoint is None:
        return _FORGOTTEN, _REBUILD
    if checkpoint != record.fingerprint:
        if _landed_since(instance, table, window.key, record):
            return "the log has newer content than Dagster knows of: Dagster's storage was restored", _REBUILD
        return "Dagster has newer content than the log: the log was restored", _LOAD
    if not is_there:
        return "the log has them, and the table is gone", _LOAD
    if (why := lost.get(window.key)) is not None:
        return f"the log has them, and the table has {why}", _LOAD
    return None


def _landed_since(instance: dg.DagsterInstance, table: Table, key: str, record: WindowRecord) -> bool:
    """True if the window was ingested after the last load of it that Dagster knows of."""
    wanted = dg.AssetRecordsFilter(asset_key=table.key, asset_partitions=[key])
    last = instance.fetch_materializations(wanted, limit=1).records
    return not last or record.landed_at.timestamp() > last[0].timestamp


def _alive(instance: dg.DagsterInstance) -> list[dg.DagsterRun]:
    statuses = [dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING]
    return [*instance.get_runs(dg.RunsFilter(statuses=statuses))]


def _dead_runs(table: Table, alive: Iterable[dg.DagsterRun]) -> list[Disagreement]:
    """Runs of the table that Dagster has as running, and whose process on this machine is gone."""
    runs = [run for run in alive if Request.from_tags(run.tags).table == table.name]
    return [
        Disagreement(
            table=table.name,
            what=f"Dagster has run {run.run_id[:8]} as running. {why}",
            remedy="start Dagster's daemon, whose sensor orphaned_runs ends it, or begin incload load",
        )
        for run in runs
        if (mark := own_tag(run, PROCESS_TAG)) is not None and (why := gone(mark)) is not None
    ]
