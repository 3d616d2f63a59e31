"""Adopts a Delta table that no load has made: its rows become base rows of its log, and stay where they are.

1. *Examine*: keys, columns, layout, features of Delta, other writers.
2. *Land*: the rows of one version of the table are landed in chunks, each in one fenced commit with its record; see
   :mod:`incload_assets.load.base_rows`. A new log begins with the property ``incload.adopted``, so that from its
   first commit on loads are refused. A killed adoption goes on with the chunks that are missing.
3. *Prove*: the full fold of all base rows has to find nothing to do in the table.
4. *Complete*: the table gets the same property, and loads may begin.

If the table is replaced later, by an older version or by nothing, it lacks the property, and loads are refused again:
no window could bring the base rows back. Adopting it again folds them into the table.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from deltalake import DeltaTable
from pyspark.errors import PySparkException

from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.window_records import base_keys, ingested_windows, window_records_of
from incload_assets.delta.tuning import tune_plan
from incload_assets.load.apply import apply_changes
from incload_assets.load.base_rows import (
    Base,
    adoption_app_id,
    base_window,
    chunks_of,
    fenced_numbers,
    land,
)
from incload_assets.load.placement import ADOPTED
from incload_assets.load.reconcile import check_bins
from incload_assets.load.reconcile import examine as evidence_of
from incload_assets.load.tables import adapt_tables, ensure_log
from incload_assets.platform.errors import ConcurrentLoad, IncrementalLoadError, ReconciliationFailed, SchemaMismatch
from incload_assets.platform.sql import literal
from incload_assets.platform.wording import several
from incload_assets.progress.audit import AuditEntry, record
from incload_assets.restore.adoptable import examine, refuse_strategy
from incload_assets.writes.merge_into import app_id
from incload_assets.writes.strategy import strategy_of

_KEEPS_ROWS = {"SET TBLPROPERTIES", "UNSET TBLPROPERTIES", "ADD COLUMNS", "CHANGE COLUMN", "VACUUM START", "VACUUM END"}
"""Operations of Delta's history that change no row."""


@dataclass(frozen=True, kw_only=True)
class Adoption:
    """The result of an adoption.

    Args:
        rows: Rows of the table that was examined; 0 if it was not examined again.
        landed: Chunks that were landed now.
        there: Chunks that an earlier, interrupted adoption had landed.
        restored: Rows that were written to the table, because it had lost adopted rows.
        notes: What a person should know.
        before: Whether the table was adopted before, so that nothing was done.
        dry_run: Whether nothing was done because only the examination was asked for.
    """

    base: Base
    rows: int = 0
    landed: int = 0
    there: int = 0
    restored: int = 0
    notes: tuple[str, ...] = ()
    before: bool = False
    dry_run: bool = False

    def summary(self, table_name: str) -> str:
        """The result in one line."""
        if self.before:
            return f"{table_name}: adopted already, {self.base}"
        if self.restored:
            return f"{table_name}: restored {self.restored:,} adopted rows from the log"
        verb = "could be adopted" if self.dry_run else "adopted"
        went_on = f", {self.there} of them by an earlier attempt" if self.there else ""
        what = f"{self.rows:,} rows of version {self.base.version} in {several(self.base.chunks, 'part')}"
        return f"{table_name}: {verb}, {what}{went_on}"


def adopt(
    load: LoadContext,
    *,
    dry_run: bool = False,
    again: bool = False,
    because: str = "",
    actor: str = "",
    done: Callable[[int, int], None] = lambda done, total: None,
) -> Adoption:
    """Adopts the table, or goes on with an adoption that was interrupted.

    Args:
        dry_run: Whether only to examine the table.
        again: Whether to begin again if the table has changed since an interrupted adoption.
        actor: Who adopts, for the audit; empty: the user of the operating system, or CI's.
        done: Called with the number of chunks that are in the log, and their total.

    Raises:
        SchemaMismatch: The table cannot be adopted, or has changed since its adoption began.
        ConcurrentLoad: Another adoption is running.
        ReconciliationFailed: The base rows do not make the table; loads stay refused.
    """
    table, lake = load.table, load.lake
    refuse_strategy(table)
    delta, log = lake.delta(load.uri), lake.delta(load.log.uri)
    begun = None if log is None else log.metadata().configuration.get(ADOPTED)
    if delta is not None and begun is not None and delta.metadata().configuration.get(ADOPTED) == begun:
        return Adoption(base=Base.parse(begun), before=True)
    if begun is None and (delta is None or log is not None):
        raise IncrementalLoadError(
            f"{table.name}: there is nothing to adopt: "
            + (
                f"{load.uri} is no Delta table"
                if delta is None
                else "loads have made the table, and its log has all rows"
            ),
            remedy=f"incload load {table.name}",
        )
    started = None if begun is None else Base.parse(begun)
    if log is not None and started is not None:
        all_there = delta is None and started.keys == base_keys(log)
        if ingested_windows(log) or all_there:
            return _restored(load, started, because, actor, dry_run=dry_run)
    if delta is None:
        raise _changed(load, "it is gone")
    if started is not None and (why := _change_since(delta, started)):
        if not again:
            raise _changed(load, why)
        started = None
    return _adopted(load, delta, started, because, actor, done, dry_run=dry_run)


def _adopted(
    load: LoadContext,
    delta: DeltaTable,
    started: Base | None,
    because: str,
    actor: str,
    done: Callable[[int, int], None],
    *,
    dry_run: bool,
) -> Adoption:
    table, lake = load.table, load.lake
    pinned = delta
    if started is not None:
        at = lake.delta(load.uri, started.version)
        assert at is not None
        pinned = at
    found = examine(load, pinned)
    found.refuse(table.name)
    chunks = chunks_of(table, pinned)
    base = Base(str(pinned.metadata().id), pinned.version(), len(chunks))
    adoption = Adoption(base=base, rows=found.rows, notes=tuple(found.notes), dry_run=dry_run)
    if dry_run:
        return adoption
    if started is not None and started != base:  # other limits of a chunk
        started = None
    _begin(load, base, again=started is None)
    there = window_records_of(load.log.open(), only=base.keys) if base.keys else {}
    numbers = fenced_numbers(load)
    landed = 0
    rows = sum(one.rows_read for one in there.values())
    for key, files in zip(base.keys, chunks, strict=True):
        if key not in there:
            rows += land(load, base, key, files, next(numbers)).rows_read
            landed += 1
            load.info(f"{table.name}: landed {key} of {base.chunks}")
        done(len(there) + landed, base.chunks)
    if base.keys and rows != found.changes:
        raise ReconciliationFailed(
            f"{table.name}: the table has {several(found.changes, 'row')} to adopt, the log has {rows:,}",
            rule="each row becomes one base row; loads stay refused",
            remedy=f"incload adopt {table.name} --again",
        )
    now = lake.delta(load.uri)
    if now is None or (why := _change_since(now, base)):
        raise _changed(load, "it is gone" if now is None else why)
    adapt_tables(load)
    _prove(load, base)
    _complete(load, base)
    _audit(load, base, because, actor, rows=found.rows)
    return replace(adoption, landed=landed, there=len(there))


def _change_since(delta: DeltaTable, base: Base) -> str:
    """The events of a table since a version, if its rows may have changed; empty if they have not."""
    if str(delta.metadata().id) != base.table_id or delta.version() < base.version:
        return "it was made again"
    for one in delta.history(delta.version() - base.version) if delta.version() > base.version else []:
        if one.get("operation") not in _KEEPS_ROWS:
            return f"another writer committed {one.get('operation')} as version {one.get('version')}"
    return ""


def _changed(load: LoadContext, why: str) -> SchemaMismatch:
    name = load.table.name
    return SchemaMismatch(
        f"{name}: the table has changed since its adoption began: {why}",
        rule="all base rows are of one version of the table",
        remedy=f"stop the other writer, then incload adopt {name} --again, which begins again",
    )


def _begin(load: LoadContext, base: Base, *, again: bool) -> None:
    """Makes a log that refuses loads; an interrupted adoption of another version is removed from the log."""
    log = load.lake.delta(load.log.uri)
    if log is not None and again:
        number = next(fenced_numbers(load))
        if keys := base_keys(log):
            load.lake.commit(log, [], adoption_app_id(load.table), number, replaced={"_window": keys})
        if base_keys(load.log.open()):
            raise ConcurrentLoad(
                f"{load.table.name}: another adoption landed rows meanwhile",
                rule="one adoption of a table runs at a time",
                remedy="try again when the other has ended",
            )
        _set_property(load, load.log.uri, base)
    ensure_log(load, more={ADOPTED: str(base)})


def _prove(load: LoadContext, base: Base) -> None:
    """Compares the full fold of all base rows with the table; raises an error if they differ."""
    if not base.keys:
        return
    at = load.read_view(tuple(map(base_window, base.keys)), adoption_app_id(load.table), of_range=True)
    tune_plan(load.spark, at.changes, at.near_bytes + at.log_bytes)
    plan = strategy_of(load.table).plan(load, at, full=True)
    try:
        found = evidence_of(plan, at)
    finally:
        plan.release()
        load.kept.release()
    if pending := sum(one.pending for one in found.values()):
        raise ReconciliationFailed(
            f"{load.table.name}: the fold of the base rows would change {several(pending, 'row')} of the table",
            rule="the base rows make the table as it is; loads stay refused",
            remedy=f"if another writer changed the table meanwhile: incload adopt {load.table.name} --again",
        )
    for key, one in found.items():
        check_bins(one, f"{load.table.name} {key}")


def _complete(load: LoadContext, base: Base) -> None:
    """Marks the table as adopted: loads are no longer refused."""
    _set_property(load, load.uri, base)


def _set_property(load: LoadContext, uri: str, base: Base) -> None:
    try:
        load.spark.sql(
            f"ALTER TABLE {load.lake.sql_name(uri)} SET TBLPROPERTIES ({literal(ADOPTED)} = {literal(str(base))})"
        )
    except PySparkException as error:
        raise ConcurrentLoad(
            f"{load.table.name}: the property {ADOPTED} of {uri} could not be set ({error.getCondition()})",
            rule="no other writer commits to a table while it is adopted",
            remedy=f"stop it, then incload adopt {load.table.name}",
        ) from error


def _restored(load: LoadContext, base: Base, because: str, actor: str, *, dry_run: bool) -> Adoption:
    """Folds the base rows into a table that has lost them; other windows are requested by the check ``rollback``."""
    if dry_run:
        return Adoption(base=base, dry_run=True, notes=("the table has lost adopted rows; they are in the log",))
    adapt_tables(load)
    restored = 0
    for key in base.keys:
        window = base_window(key)
        applied = apply_changes(load, (window,), app_id(load.table, window), is_again=lambda _: True)
        merged = applied.merged[key]
        restored += merged.inserted + merged.updated + merged.deleted
    _complete(load, base)
    _audit(load, base, because, actor, restored=restored)
    return Adoption(base=base, restored=restored)


def _audit(load: LoadContext, base: Base, because: str, actor: str, **counts: int) -> None:
    details = {"base": str(base)} | {name: str(count) for name, count in counts.items()}
    name, run_id = load.table.name, load.run_id
    record(
        load.lake,
        AuditEntry(action="adopt", table=name, because=because, actor=actor, run_id=run_id, details=details),
    )
