"""Removal of the rows of erased subjects from the log and the table of one asset.

The steps follow ``tests/model/erasure.py``: each window of the log that has rows of a subject is landed from the
log without them, with markers of their keys, and merged, so that the marked keys are folded in full. Then it is landed
once more without markers, which have the keys. MERGEs that were planned before are called off, and rows of a subject
that the table still has are replaced by what the log says of their keys. The source is not read.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incload_assets.change_log.change import CONTROL, REJECTED, REPLACED
from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.former import FormerLandings
from incload_assets.change_log.payloads import payloads_read_at
from incload_assets.change_log.window_records import BASE, WindowRecord
from incload_assets.declaration.window import Window
from incload_assets.delta.counts import Counts
from incload_assets.delta.deletion import delete_rows
from incload_assets.ingest.carry_over import replaced_rows
from incload_assets.ingest.erased import IS_ERASED, marked_erased, without_erased
from incload_assets.ingest.erased_counts import MOST_KINDS, counts_by_kind, records_in, without_erased_records
from incload_assets.load.apply import apply_changes
from incload_assets.load.range_fences import call_off_all_merges, call_off_ingestions, call_off_merges, every_window
from incload_assets.load.revision import ATTEMPTS, Revision, others_first, revise, revision
from incload_assets.platform.attempts import in_attempts
from incload_assets.platform.errors import ConcurrentLoad
from incload_assets.platform.lake import data_files, files_in
from incload_assets.platform.sql import col
from incload_assets.platform.wording import several
from incload_assets.protection.erasures import DenyList
from incload_assets.writes.merge_into import app_id

_REMEDY = "pause the table, and repeat the erasure"


@dataclass(frozen=True)
class ErasedRows(Counts):
    """The counts of a removal of subjects: windows landed again, log rows, rejected ones among them, and table rows."""

    windows: int = 0
    changes: int = 0
    rejected: int = 0
    rows: int = 0


def rows_found(load: LoadContext, deny: DenyList) -> dict[str, dict[str, int]]:
    """The number of rows of subjects that the log has, by kind, by partition key."""
    at = load.log.open()
    rows = load.log.read(load.spark, at.version()).filter(F.col("_kind") != CONTROL)
    found: dict[str, dict[str, int]] = {}
    counts = _of_subjects(load, rows, deny).groupBy("_window", "_kind").count()
    for row in counts.head(len(load.log.records_in(at)) * MOST_KINDS):
        found.setdefault(row["_window"], {})[row["_kind"]] = row["count"]
    return found


def table_rows_found(load: LoadContext, deny: DenyList) -> int:
    """The number of rows of subjects that the table has."""
    return marked_erased(load.newest_rows(), load.table, deny).filter(F.col(IS_ERASED)).count()


def erase_rows(load: LoadContext, deny: DenyList) -> ErasedRows:
    """Removes the rows of subjects from log and table. Repeated it does nothing more.

    No load of the table is running; all subjects are in the deny list of the lake, and the log's barrier was raised
    since. Raises ConcurrentLoad if loads committed first in every attempt.
    """
    done = ErasedRows(rows=table_rows_found(load, deny))

    def erased() -> dict[str, WindowRecord] | None:
        nonlocal done
        found = rows_found(load, deny)
        records = load.log.records_in(load.log.open())
        due = sorted(found.keys() | {key for key, record in records.items() if record.erasing})
        for window in every_window(load.table, due):
            done += _erase_window(load, window, deny)
        return None if due else records

    records = in_attempts(ATTEMPTS, erased, _others_first(load, "the log"))
    call_off_all_merges(load, records, _others_first(load, "the table"))
    _sweep(load, deny)
    return done


def _of_subjects(load: LoadContext, rows: DataFrame, deny: DenyList) -> DataFrame:
    marked = marked_erased(rows, load.table, deny, rejected=F.col("_kind") == REJECTED)
    return marked.filter(F.col(IS_ERASED)).drop(IS_ERASED)


def _erase_window(load: LoadContext, window: Window, deny: DenyList) -> ErasedRows:
    call_off_ingestions(load, window)
    done = ErasedRows()

    def erase(revision: Revision) -> bool:
        nonlocal done
        assert revision.before is not None
        if not revision.before.erasing:
            if revision.waits_for_removals or (counted := _land(revision, revision.before, deny)) is None:
                return False
            done += counted
        return _merge_and_strip(load, window, revision.before)

    revise(load, window, erase, doing="erase rows", remedy=_REMEDY)
    return done


def _land(revision: Revision, before: WindowRecord, deny: DenyList) -> ErasedRows | None:
    """Lands a window without the rows of subjects, with markers of their keys; None if another load landed first."""
    load, table, key, staged = revision.load, revision.load.table, revision.window.key, revision.staged
    former = revision.former.filter(F.col("_kind") != CONTROL)
    counts = counts_by_kind(_of_subjects(load, former, deny))
    # as of the present code, so that only keys that lose a row are marked; not settled, so that former markers stay
    ingestion = revision.ingestion(replace(before, code_version=table.code_version))
    kept = without_erased(former, table, deny, rejected=F.col("_kind") == REJECTED)
    staged.write(kept.filter(F.col("_kind").isin(*counts) & (F.col("_kind") != REPLACED)), load.log.validated)
    if (markers := replaced_rows(load, ingestion, former, kept)) is not None:
        staged.write(markers)
    records = records_in(counts)
    # no load of the window: an undo of what was loaded since an instant does not find it
    now = replace(
        without_erased_records(before, counts),
        replaced=sum(file.rows for file in staged.files if file.kind == REPLACED),
        erasing=True,
    )
    load.info(f"{table.name} {key}: lands without {several(records, 'row')}")
    _keep_named(load, revision.at, key, [*counts])
    landed = revision.commit(
        now,
        note=f"erased rows of {key}",
        adds=True,
        keep=False,
        replacing=[*({*counts} | {REPLACED})],
        read_at=payloads_read_at(revision.at, [key]),
    )
    return ErasedRows(windows=1, changes=records, rejected=counts.get(REJECTED, 0)) if landed else None


def _keep_named(load: LoadContext, at: DeltaTable, key: str, kinds: Sequence[str]) -> None:
    """Copies files that former landings name, and that a landing without subjects is about to replace."""
    replaced = pc.field("partition._kind").isin(pa.array(kinds, pa.string()))
    files = files_in(data_files(at), "_window", [key]).filter(replaced)
    FormerLandings(load.log).keep_named([key], [unquote(path) for path in files["path"].to_pylist()])


def _merge_and_strip(load: LoadContext, window: Window, before: WindowRecord) -> bool:
    """Merges a window, and lands it without markers; False if another landing came between.

    ``before`` is its record before the erasure, with the partitions that it touches without markers.
    """
    call_off_merges(load, window)
    applied = apply_changes(load, (window,), app_id(load.table, window), is_again=lambda _: True)
    merged = applied.at.records[window.key]
    with revision(load, window) as strip:
        now = replace(merged, partitions=before.partitions, replaced=0, erasing=False)
        note = f"removed markers of {window.key}"
        return strip.before == merged and strip.commit(now, note=note, adds=True, keep=False, replacing=[REPLACED])


def _sweep(load: LoadContext, deny: DenyList) -> None:
    in_attempts(ATTEMPTS, lambda: _swept(load, deny) or None, _others_first(load, "the table"))


def _swept(load: LoadContext, deny: DenyList) -> bool:
    """Replaces rows of subjects that the table still has by what the log says of their keys; whether there were none.

    Where rows have no keys, and where they are beliefs that were ended, they are deleted: the log has neither them nor
    others in their place.
    """
    table = load.table
    left = marked_erased(load.newest_rows(), table, deny).filter(F.col(IS_ERASED))
    if (held := table.write.open_rows) is not None:
        ended, left = left.filter(~col(held)), left.filter(col(held))
    if not (count := left.count()):
        return held is None or _deleted_beliefs(load, ended)
    names, records = table.write.marked(table.contract, table.changes), load.log.records_in(load.log.open())
    if not names or not records:
        load.info(f"{table.name}: deleted {several(count, 'row')} without an explanation in its log")
        _delete(load, left)
        return False
    load.info(f"{table.name}: {several(count, 'row')} of the table no longer in its log; their keys are folded again")
    # a base window only if there is no other
    [window] = every_window(load.table, [max(records, key=lambda key: (not key.startswith(BASE), key))])
    if _land_markers(load, window, records[window.key], left.select(*map(col, names)).distinct()):
        _merge_and_strip(load, window, records[window.key])
    return False


def _deleted_beliefs(load: LoadContext, ended: DataFrame) -> bool:
    """Deletes beliefs of subjects that were ended, by corrections or by the erasure itself; whether there were none."""
    if not (count := ended.count()):
        return True
    load.info(f"{load.table.name}: deleted {several(count, 'row')} that were believed earlier")
    _delete(load, ended)
    return False


def _delete(load: LoadContext, rows: DataFrame) -> None:
    table = load.table
    assert table.subject is not None
    columns, note = [table.subject.by, *table.changes.keys], f"deleted erased rows, run {load.run_id}"
    delete_rows(load.spark, load.lake.sql_name(load.uri), rows, columns, note=note)


def _land_markers(load: LoadContext, window: Window, before: WindowRecord, keys: DataFrame) -> bool:
    with revision(load, window) as marked:
        marked.staged.write(keys.withColumns({"_kind": F.lit(REPLACED), "_window": F.lit(window.key)}))
        # their keys may be in any partition
        now = replace(before, partitions=None, erasing=True)
        return marked.before == before and marked.commit(now, note="marked keys of erased rows", adds=True, keep=False)


def _others_first(load: LoadContext, what: str) -> ConcurrentLoad:
    return others_first(f"{load.table.name}: other loads changed {what} first", "erase rows", _REMEDY)
