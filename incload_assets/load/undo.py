"""Undo: returns a window to what it held before a load, and holds it until its source changes.

An undo is a landing like any other, with the next number and under the same fence; only its rows come from a former
landing instead of the source. So the loads of other windows, and later loads of this one, are not touched, and an undo
can be undone. Its window record carries the hold. ``tests/model/undo.py`` explores this protocol.
"""

import json
from dataclasses import replace

from pyspark.sql import functions as F

from incload_assets.change_log.change import REJECTED, REPLACED
from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.former import FormerLanding, FormerLandings
from incload_assets.change_log.window_records import WITHDRAWN, Hold, WindowRecord
from incload_assets.declaration import window as windows
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import Window
from incload_assets.ingest.carry_over import replaced_rows
from incload_assets.ingest.erased import IS_ERASED, marked_erased
from incload_assets.ingest.erased_counts import counts_by_kind, without_erased_records
from incload_assets.ingest.facts import facts_of
from incload_assets.load.load import LoadReport
from incload_assets.load.revision import Revision, revise_and_merge
from incload_assets.load.undo_plan import Undo, return_of
from incload_assets.platform.wording import several
from incload_assets.protection.erasures import deny_list_of


def undo_window(load: LoadContext, window: Window, undo: Undo) -> LoadReport:
    """Returns a window to a former landing, and holds it. The source is not read.

    Unlike a load, it is not refused where the declaration now assigns the window's rows to other windows: loads
    under that declaration may be what is undone. Repeated it does nothing more. An undo that returns to what the source
    holds, because it undoes an undo, ends the hold.

    Raises:
        CannotUndo: What the window held before is not kept, or nothing was loaded.
    """
    return revise_and_merge(load, window, lambda revision: _return(revision, undo), doing="undo", even_misplaced=True)


def _return(revision: Revision, undo: Undo) -> bool | None:
    """One attempt to land the former content; None if it is there already."""
    load, window = revision.load, revision.window
    found = return_of(load.table, window.key, revision.before, FormerLandings(load.log).of(window.key), undo)
    assert revision.before is not None
    if found.done:
        held = f", and is {revision.before.hold}" if revision.before.hold is not None else ""
        load.info(f"{load.table.name} {window.key}: the window holds already what it is to return to{held}")
        return None
    return _land(revision, revision.before, found.former, undo)


def _land(revision: Revision, record: WindowRecord, former: FormerLanding | None, undo: Undo) -> bool:
    load, table, log, key = revision.load, revision.load.table, revision.load.log, revision.window.key
    # as if by other code, unless both landings are by the present code: then all keys of the old rows are marked
    alike = former is not None and former.record.code_version == record.code_version
    ingestion = revision.ingestion(record if alike else replace(record, code_version=""))
    content = FormerLandings(log).read(load.spark, former) if former else revision.former.limit(0)
    content = content.filter(F.col("_kind") != REPLACED)
    deny = deny_list_of(load.lake, table)
    marked = marked_erased(content, table, deny, rejected=F.col("_kind") == REJECTED)
    # the erasure has counted the rows that it found by their person, and not rows that are known by their key alone
    erased = counts_by_kind(marked.filter(IS_ERASED)) if deny and former else {}
    content = marked.filter(~F.col(IS_ERASED)).drop(IS_ERASED)
    if former is not None and former.files:
        revision.staged.write(content, log.validated)
        content = revision.staged.read()
    if (markers := replaced_rows(load, ingestion, revision.former, content)) is not None:
        revision.staged.write(markers)
    facts = facts_of(revision.staged.read(), table, [revision.window])[key]
    now = replace(
        without_erased_records(former.record, erased) if former else _nothing(table),
        run_id=load.run_id,
        landed_at=windows.now(),
        replaced=facts.replaced,
        partitions=facts.partitions,
        buckets=facts.buckets,
        largest_key=facts.largest_key,
        largest_place=facts.largest_place,
        first_sequence=facts.first_sequence,
        former=record.landing,
        held=_hold(record, former, undo),
    )
    read_at = {key: former.record.landed_at} if former else None
    if not revision.commit(now, note=f"undid {key}", read_at=read_at):
        return False
    to = f"landing {former.record.landing}" if former else "before its first load"
    load.info(
        f"{table.name} {key}: returned to {to}, {several(now.rows_read, 'row')}, taking a row "
        f"from {several(facts.replaced, 'key')}"
    )
    return True


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
