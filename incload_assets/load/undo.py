"""Undo: returns a window to what it held before a load, and holds it until its source changes.

An undo is a landing like any other, with the next number and under the same fence; only its rows come from a former
landing instead of the source. So the loads of other windows, and later loads of this one, are not touched, and an undo
can be undone. Its window record carries the hold. ``tests/model/undo.py`` explores this protocol.
"""

import json
from dataclasses import replace

from deltalake import DeltaTable
from pyspark.sql import functions as F

from incload_assets.change_log.change import REJECTED, REPLACED
from incload_assets.change_log.commit import commit
from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.erasures import deny_list_of
from incload_assets.change_log.former import FormerLanding, FormerLandings
from incload_assets.change_log.staged import Staged
from incload_assets.change_log.window_records import WITHDRAWN, Hold, WindowRecord, window_records_of
from incload_assets.declaration import window as windows
from incload_assets.declaration.source import Position
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import Window
from incload_assets.delta.tuning import tune_ingest
from incload_assets.ingest.carry_over import replaced_rows
from incload_assets.ingest.erased import IS_ERASED, marked_erased
from incload_assets.ingest.erased_counts import counts_by_kind, without_erased_records
from incload_assets.ingest.facts import facts_of
from incload_assets.ingest.ingestion import Ingestion, ingestion_app_id
from incload_assets.load.apply import apply_changes
from incload_assets.load.load import INGESTIONS, LoadReport, report_of
from incload_assets.load.range_fences import call_off_ingestions, call_off_merges
from incload_assets.load.tables import ensure_tables
from incload_assets.load.undo_plan import Undo, return_of
from incload_assets.writes.merge_into import app_id
from resources.errors import ConcurrentLoad


def undo_window(load: LoadContext, window: Window, undo: Undo) -> LoadReport:
    """Returns a window to a former landing, and holds it. The source is not read.

    Repeated it does nothing more. An undo that returns to what the source holds, because it undoes an undo, ends the
    hold.

    Args:
        load: The run's load context.
        window: The window.
        undo: What is undone.

    Raises:
        CannotUndo: What the window held before is not kept, or nothing was loaded.
        ConcurrentLoad: Other loads committed first in every attempt.
        IncrementalLoadError: Any error of the merge.
    """
    load = load.anew()
    with load.phases.timed("prepare"):
        ensure_tables(load)
        call_off_ingestions(load, window)
    with load.phases.timed("ingest"):
        landed = _land(load, window, undo)
    with load.phases.timed("prepare"):
        call_off_merges(load, window)
    applied = apply_changes(load, (window,), app_id(load.table, window), is_again=lambda _: True)
    return report_of(load, applied, window, ingested=landed)


def _land(load: LoadContext, window: Window, undo: Undo) -> bool:
    """Lands the former content; returns whether anything was landed, as it may be there already."""
    for _ in range(INGESTIONS):
        at = load.log.open()
        record = window_records_of(at, only=[window.key]).get(window.key)
        found = return_of(load.table, window.key, record, FormerLandings(load.log).of(window.key), undo)
        assert record is not None
        if found.done:
            held = f", and is {record.hold}" if record.hold is not None else ""
            load.info(f"{load.table.name} {window.key}: the window holds already what it is to return to{held}")
            return False
        if _land_once(load, window, at, record, found.former, undo):
            return True
    raise ConcurrentLoad(
        f"{load.table.name} {window.key}: other loads landed first in each of {INGESTIONS} attempts to undo",
        rule="an undo replaces the landing that it has read",
        remedy="try again; if the source changes all the time, pause the table first",
    )


def _land_once(
    load: LoadContext, window: Window, at: DeltaTable, record: WindowRecord, former: FormerLanding | None, undo: Undo
) -> bool:
    table, log, key = load.table, load.log, window.key
    fence = at.transaction_version(ingestion_app_id(table, window)) or 0
    tune_ingest(load.spark, at, [key], 0)
    # as if by other code, unless both landings are by the present code: then all keys of the old rows are marked
    alike = former is not None and former.record.code_version == record.code_version
    before = record if alike else replace(record, code_version="")
    ingestion = Ingestion(window, Position("", {}, ""), before, at.version(), False, fence)
    present = log.read(load.spark, at.version(), [key])
    staged = Staged(log, load.spark, [key])
    try:
        content = FormerLandings(log).read(load.spark, former) if former else present.limit(0)
        content = content.filter(F.col("_kind") != REPLACED)
        deny = deny_list_of(load.lake, table)
        marked = marked_erased(content, table, deny, rejected=F.col("_kind") == REJECTED)
        # the erasure has counted the rows that it found by their person, and not those that only their key tells
        erased = counts_by_kind(marked.filter(IS_ERASED)) if deny and former else {}
        content = marked.filter(~F.col(IS_ERASED)).drop(IS_ERASED)
        if former is not None and former.files:
            staged.write(content, log.validated)
            content = staged.read()
        if (markers := replaced_rows(load, ingestion, present, content)) is not None:
            staged.write(markers)
        facts = facts_of(staged.read(), table, [window])[key]
        number = max(record.landing, fence) + 1
        now = replace(
            without_erased_records(former.record, erased) if former else _nothing(table),
            landing=number,
            run_id=load.run_id,
            landed_at=windows.now(),
            replaced=facts.replaced,
            partitions=facts.partitions,
            first_sequence=facts.first_sequence,
            former=record.landing,
            held=_hold(record, former, undo),
        )
        note = f"undid {key}, run {load.run_id}"
        read_at = {key: former.record.landed_at} if former else None
        if not commit(load, staged, {key: now}, ingestion_app_id(table, window), number, note=note, read_at=read_at):
            return False
        to = f"landing {former.record.landing}" if former else "before its first load"
        load.info(f"{table.name} {key}: returned to {to}, {now.rows_read} rows, {facts.replaced} keys lose a row")
        return True
    finally:
        staged.discard()


def _nothing(table: Table) -> WindowRecord:
    return WindowRecord(
        landing=0,
        fingerprint=WITHDRAWN,
        position=json.dumps({}),
        summary="nothing: its first load was undone",
        code_version=table.code_version,
        run_id="",
        landed_at=windows.now(),
        rows_read=0,
        rejected=0,
        replaced=0,
        content=0,
    )


def _hold(record: WindowRecord, former: FormerLanding | None, undo: Undo) -> str | None:
    """The hold of the window: on what is undone, or what was undone before; None if it returns to that."""
    undone = record.hold.fingerprint if record.hold else record.fingerprint
    first = (record.hold.undone if record.hold else 0) or record.landing
    if former is not None and former.record.landing == first:
        return None
    hold = Hold(
        fingerprint=undone,
        actor=undo.actor,
        because=undo.because,
        at=windows.now(),
        undone=first,
        returned_to=former.record.landing if former else 0,
    )
    return hold.as_text()
