"""Undo: returns a window to what it held before a load, and holds it until its source changes.

An undo is a landing like any other, with the next number and under the same fence; only its rows come from a former
landing instead of the source. So the loads of other windows, and later loads of this one, are not touched, and an undo
can be undone. Its window record carries the hold. ``tests/model/undo.py`` explores this protocol.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from incload_assets.change_log.change import REPLACED
from incload_assets.change_log.commit import commit
from incload_assets.change_log.context import LoadContext
from incload_assets.change_log.former import FormerLanding, FormerLandings
from incload_assets.change_log.log import ChangeLog
from incload_assets.change_log.staged import Staged
from incload_assets.change_log.window_records import WITHDRAWN, Hold, WindowRecord, window_records_of
from incload_assets.declaration import window as windows
from incload_assets.declaration.source import Position
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import Window
from incload_assets.delta.tuning import tune_ingest
from incload_assets.ingest.carry_over import replaced_rows
from incload_assets.ingest.facts import facts_of
from incload_assets.ingest.ingestion import Ingestion, ingestion_app_id
from incload_assets.load.apply import apply_changes
from incload_assets.load.load import INGESTIONS, LoadReport, ensure_tables, report_of
from incload_assets.load.range_fences import call_off_ingestions, call_off_merges
from incload_assets.writes.merge_into import app_id
from resources.errors import CannotUndo, ConcurrentLoad
from resources.lake import Lake

UNDO_TAG = "incload/undo"
"""The tag of a run that undoes loads: what to go back before, or ``last``."""
RELEASE_TAG = "incload/release"
"""The tag of a run that loads held windows from their source."""
BECAUSE_TAG = "incload/because"
"""The tag with the reason that a person gave."""
LAST = "last"
SHORTEST_RUN_ID = 6


@dataclass(frozen=True)
class Undo:
    """What a person wants undone.

    Args:
        before: The window is returned to what it held before this: ``last``, the last load that changed its content; a
            landing's number; a run's id, or the first characters of it; or an instant, ISO 8601, in UTC if it has no
            zone.
        actor: Who wants it.
        because: Why.
    """

    before: str = LAST
    actor: str = ""
    because: str = ""


def undo_window(
    spark: SparkSession,
    table: Table,
    lake: Lake,
    window: Window,
    undo: Undo,
    *,
    run_id: str = "",
    info: Callable[[str], None] = lambda _: None,
) -> LoadReport:
    """Returns a window to a former landing, and holds it. The source is not read.

    Repeated it does nothing more. An undo that returns to what the source holds, because it undoes an undo, ends the
    hold.

    Args:
        spark: A session used by this undo only.
        table: The declaration.
        lake: The lake with the table.
        window: The window.
        undo: What is undone.
        run_id: The run, recorded in the window record and the commits.
        info: Logs one line for each step.

    Raises:
        CannotUndo: What the window held before is not kept, or nothing was loaded.
        ConcurrentLoad: Other loads committed first in every attempt.
        IncrementalLoadError: Any error of the merge.
    """
    load = LoadContext(spark, table, lake.followed(), run_id, info)
    with load.phases.timed("prepare"):
        ensure_tables(load)
        call_off_ingestions(load, window)
    with load.phases.timed("ingest"):
        landed = _land(load, window, undo)
    with load.phases.timed("prepare"):
        call_off_merges(load, window)
    applied = apply_changes(load, (window,), app_id(table, window), is_again=lambda _: True)
    return report_of(load, applied, window, ingested=landed)


@dataclass(frozen=True)
class UndoPlan:
    """What an undo would do with one window.

    Args:
        window: The partition key.
        now: The source position of what the window holds.
        former: The source position of what it would hold; empty if it cannot be undone.
        rows_now: Number of records of what it holds.
        rows_former: Number of records of what it would hold.
        refused: Why it cannot be undone; empty if it can.
    """

    window: str
    now: str
    former: str
    rows_now: int
    rows_former: int
    refused: str = ""


def plan_undo(table: Table, lake: Lake, keys: Sequence[str] | None, undo: Undo) -> list[UndoPlan]:
    """What an undo would do, by window; needs no Spark.

    Args:
        table: The declaration.
        lake: The lake with the table.
        keys: Partition keys; None: all windows that were loaded at the instant of the undo or later.
        undo: What is undone.

    Raises:
        CannotUndo: All windows are meant, and the undo names no instant.
    """
    log = ChangeLog(table, lake)
    records = log.controls(only=keys)
    if keys is None:
        if (since := _instant(undo.before)) is None:
            raise CannotUndo(
                f"{table.name}: {undo.before!r} is not an instant",
                rule="an undo of all partitions goes back before an instant",
                remedy="write for example --before 2026-01-03T12:00, or name --partitions",
            )
        keys = sorted(key for key, record in records.items() if record.landed_at >= since)
    return [_planned(table, log, key, records.get(key), undo) for key in keys]


def _planned(table: Table, log: ChangeLog, key: str, record: WindowRecord | None, undo: Undo) -> UndoPlan:
    now = ((record.summary or record.fingerprint) if record else "", record.rows_read if record else 0)
    try:
        former = former_landing(table, key, record, FormerLandings(log).of(key), undo)
    except CannotUndo as error:
        return UndoPlan(key, now[0], "", now[1], 0, str(error))
    if former is None:
        return UndoPlan(key, now[0], "nothing", now[1], 0)
    position = former.record.summary or former.record.fingerprint
    return UndoPlan(key, now[0], position, now[1], former.record.rows_read)


def former_landing(
    table: Table, window: str, record: WindowRecord | None, kept: Sequence[FormerLanding], undo: Undo
) -> FormerLanding | None:
    """The landing that an undo returns a window to; None: to before its first load.

    Args:
        table: The declaration.
        window: The partition key.
        record: The window record in the log.
        kept: The former landings that are kept, oldest first.
        undo: What is undone.

    Raises:
        CannotUndo: It is not kept, or nothing was loaded.
    """
    name = f"{table.name} {window}"
    if record is None:
        raise CannotUndo(f"{name} was never loaded", rule="only loads can be undone", remedy="name another partition")
    if record.compacted_at is not None:
        raise CannotUndo(
            f"{name}: its log was compacted on {record.compacted_at:%Y-%m-%d}",
            rule="what a window older than log_retention held before is not kept",
            remedy="correct the source and load the window with --rewrite-compacted",
        )
    known = {landing.record.landing: landing for landing in kept if landing.record.landing < record.landing}
    until = _bound(name, record, [*known.values()], undo.before)
    earlier = [landing for number, landing in sorted(known.items()) if number < until]
    if undo.before == LAST:  # repeated loads of the same content are not what is to be undone
        now = (record.fingerprint, record.code_version)
        earlier = [a for a in earlier if (a.record.fingerprint, a.record.code_version) != now]
    if earlier:
        return earlier[-1]
    oldest = min([record, *(landing.record for landing in known.values())], key=lambda each: each.landing)
    if oldest.former == 0 or (oldest.former is None and oldest.landing == 1):
        return None
    raise CannotUndo(
        f"{name}: what it held before {_named(undo, record)} is not kept",
        rule=f"the content that loads replace is kept for {table.undo_retention} (undo_retention)",
        remedy="name a landing that is kept, see incload history; or correct the source and load the window",
    )


def _named(undo: Undo, record: WindowRecord) -> str:
    return f"its landing {record.landing}" if undo.before == LAST else undo.before


def _bound(name: str, record: WindowRecord, known: Sequence[FormerLanding], before: str) -> int:
    """The number of the first landing that is undone."""
    if before == LAST:
        return record.landing
    landings = sorted([record, *(landing.record for landing in known)], key=lambda each: each.landing)
    if before.isdigit() and len(before) < SHORTEST_RUN_ID:
        found = [each for each in landings if each.landing >= int(before)]
    elif (at := _instant(before)) is not None:
        found = [each for each in landings if each.landed_at >= at]
    else:
        found = [each for each in landings if len(before) >= SHORTEST_RUN_ID and each.run_id.startswith(before)]
    if not found:
        raise CannotUndo(
            f"{name}: {before!r} is no landing of it, no run that loaded it, and no instant before its last load",
            rule="an undo names a landing's number, a run (6 characters or more), or an instant such as "
            "2026-01-03T12:00",
            remedy=f"choose one of: {', '.join(f'{each.landing} (run {each.run_id[:8]})' for each in landings[-5:])}",
        )
    return found[0].landing


def _instant(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _land(load: LoadContext, window: Window, undo: Undo) -> bool:
    """Lands the former content; returns whether anything was landed, as it may be there already."""
    for _ in range(INGESTIONS):
        at = load.log.open()
        record = window_records_of(at, only=[window.key]).get(window.key)
        if record is not None and record.hold is not None and undo.before == LAST:
            load.info(f"{load.table.name} {window.key}: the window is {record.hold}")
            return False
        former = former_landing(load.table, window.key, record, FormerLandings(load.log).of(window.key), undo)
        assert record is not None
        if record.hold is not None and record.hold.returned_to == (former.record.landing if former else 0):
            return False
        if _land_once(load, window, record, former, undo):
            return True
    raise ConcurrentLoad(
        f"{load.table.name} {window.key}: other loads landed first in each of {INGESTIONS} attempts to undo",
        rule="an undo replaces the landing that it has read",
        remedy="try again; if the source changes all the time, pause the table first",
    )


def _land_once(
    load: LoadContext, window: Window, record: WindowRecord, former: FormerLanding | None, undo: Undo
) -> bool:
    table, log, key = load.table, load.log, window.key
    at = log.open()
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
        if former is not None and former.files:
            staged.write(content, log.validated)
            content = staged.read()
        if (markers := replaced_rows(load, ingestion, present, content)) is not None:
            staged.write(markers)
        facts = facts_of(staged.read(), table, [window])[key]
        number = max(record.landing, fence) + 1
        now = replace(
            former.record if former else _nothing(table),
            landing=number,
            run_id=load.run_id,
            landed_at=windows.now(),
            replaced=facts.replaced,
            partitions=facts.partitions,
            first_sequence=facts.first_sequence,
            former=record.landing,
            held=_hold(record, former, undo),
        )
        returned = f"landing {former.record.landing}" if former else "before its first load"
        load.info(f"{table.name} {key}: returns to {returned}, {now.rows_read} rows, {facts.replaced} keys lose a row")
        note = f"undid {key}, run {load.run_id}"
        return commit(load, staged, {key: now}, ingestion_app_id(table, window), number, note=note)
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
    )


def _hold(record: WindowRecord, former: FormerLanding | None, undo: Undo) -> str | None:
    """The hold of the window: on what is undone, or what was undone before; None if it returns to that."""
    undone = record.hold.fingerprint if record.hold else record.fingerprint
    first = record.hold.undone if record.hold else record.landing
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
