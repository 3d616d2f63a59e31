"""The plan of an undo: the former landings that are kept of a window, and the one to return to."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from incload_assets.change_log.former import FormerLanding, FormerLandings
from incload_assets.change_log.log import ChangeLog
from incload_assets.change_log.window_records import WindowRecord
from incload_assets.declaration.table import Table
from incload_assets.platform.errors import CannotUndo
from incload_assets.platform.lake import Lake

LAST = "last"
SHORTEST_RUN_ID = 6


@dataclass(frozen=True)
class Undo:
    """A person's wish to undo loads.

    Args:
        before: The window is returned to what it held before this: ``last``, the last load that changed its content; a
            landing's number; a run's id, or the first characters of it; or an instant, ISO 8601, in UTC if it has no
            zone.
    """

    before: str = LAST
    actor: str = ""
    because: str = ""


@dataclass(frozen=True)
class UndoPlan:
    """The plan of an undo for one window: positions and numbers of records of what it holds, and would hold.

    ``former`` is empty if the load cannot be undone; ``refused`` then says why.
    """

    window: str
    now: str
    former: str
    rows_now: int
    rows_former: int
    refused: str = ""


def plan_undo(table: Table, lake: Lake, keys: Sequence[str] | None, undo: Undo) -> list[UndoPlan]:
    """The plan of an undo for some windows, or for all that were loaded at its instant or later; needs no Spark."""
    log = ChangeLog(table, lake)
    records = log.records(only=keys)
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
    if key in table.closed:
        return UndoPlan(key, now[0], "", now[1], 0, str(table.is_closed([key])))
    try:
        found = return_of(table, key, record, FormerLandings(log).of(key), undo)
    except CannotUndo as error:
        return UndoPlan(key, now[0], "", now[1], 0, str(error))
    if found.done:
        return UndoPlan(key, now[0], now[0], now[1], now[1])
    if found.former is None:
        return UndoPlan(key, now[0], "nothing", now[1], 0)
    position = found.former.record.summary or found.former.record.fingerprint
    return UndoPlan(key, now[0], position, now[1], found.former.record.rows_read)


@dataclass(frozen=True)
class KeptLanding:
    """A landing that the window holds now (``until`` is None), or can be returned to, at least until then (aware)."""

    window: str
    number: int
    run_id: str
    until: datetime | None
    is_next: bool = False

    def __str__(self) -> str:
        kept = "is in the table" if self.until is None else f"until {self.until:%Y-%m-%d %H:%M}"
        return f"landing {self.number}: {kept}{'; undo returns to it' if self.is_next else ''}"


def kept_landings(table: Table, lake: Lake, keys: Collection[str]) -> list[KeptLanding]:
    """The landings that some windows hold or can be returned to, oldest first; needs no Spark."""
    log, found = ChangeLog(table, lake), list[KeptLanding]()
    for key, record in log.records(only=keys).items():
        if record.compacted_at is None and key not in table.closed:
            found += _returns(table, key, record, FormerLandings(log).of(key))
        found.append(KeptLanding(key, record.landing, record.run_id, None))
    return found


def _returns(table: Table, window: str, record: WindowRecord, kept: Sequence[FormerLanding]) -> Iterator[KeptLanding]:
    following = None
    with suppress(CannotUndo):
        following = return_of(table, window, record, kept, Undo()).former
    for each, _ in reversed(_former_landings(record, kept)):
        until = each.replaced_at + table.undo_retention
        yield KeptLanding(window, each.record.landing, each.record.run_id, until, each == following)


@dataclass(frozen=True)
class Return:
    """The return of a window to a former landing, or to before its first load; ``done`` if it holds that already."""

    former: FormerLanding | None
    done: bool = False


def return_of(
    table: Table, window: str, record: WindowRecord | None, kept: Sequence[FormerLanding], undo: Undo
) -> Return:
    """The return of a window that an undo means.

    The last load that changed a window is the one after the last landing with other content than the present one. The
    same content is landed again by replays and loads that change nothing, by holds, and by an undo of an undo.
    """
    name = f"{table.name} {window}"
    if record is None:
        raise CannotUndo(f"{name} was never loaded", rule="only loads can be undone", remedy="name another partition")
    if undo.before == LAST and record.hold is not None and record.hold.undone:
        return Return(None, done=True)
    if record.compacted_at is not None:
        raise CannotUndo(
            f"{name}: its log was compacted on {record.compacted_at:%Y-%m-%d}",
            rule="what a window older than log_retention held before is not kept",
            remedy="correct the source and load the window with --rewrite-compacted",
        )
    former = _former_landings(record, kept)
    until = _bound(name, record, [each for each, _ in former], undo.before)
    for landing, follows in former:
        if undo.before == LAST and not follows:
            break
        if landing.record.differs_from(record) if undo.before == LAST else landing.record.landing < until:
            is_there = record.hold is not None and record.hold.returned_to == landing.record.landing
            return Return(landing, done=is_there or not landing.record.differs_from(record))
    else:
        oldest = former[-1][0].record if former else record
        if oldest.former == 0 or (oldest.former is None and oldest.landing == 1):
            return Return(None, done=record.is_withdrawn)
    raise CannotUndo(
        f"{name}: what it held before {_named(undo, record)} is not kept",
        rule=f"the content that loads replace is kept for {table.undo_retention} (undo_retention)",
        remedy="name a landing that is kept, see incload history; or correct the source and load the window",
    )


def _former_landings(record: WindowRecord, kept: Sequence[FormerLanding]) -> list[tuple[FormerLanding, bool]]:
    """The kept landings from which a window's present one has come, newest first.

    Each has whether the next newer one replaced it; otherwise others between them are not kept. A landing that is not
    among them was replaced in a version of the log that is no longer there, as the log was restored to an older one.
    """
    found, newest = list[tuple[FormerLanding, bool]](), record.former
    for landing in sorted(kept, key=lambda each: each.record.landing, reverse=True):
        number = landing.record.landing
        if number < record.landing and (newest is None or number <= newest):
            found.append((landing, newest is None or number == newest))
            newest = landing.record.former
    return found


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
