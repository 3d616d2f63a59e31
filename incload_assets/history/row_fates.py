"""The fates of the changes of one row, by the rules of its table's write strategy, computed without Spark.

The rules are the ones of :mod:`incload_assets.writes`, for the few changes of one row in memory. Tests compare the
results with tables that real loads have made.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, zip_longest
from typing import Any

from incload_assets.change_log.change import DELETE, EMPTIES, MOVED, REJECTED, REPLACED, UPSERTS
from incload_assets.declaration.table import Table
from incload_assets.history.row_changes import (
    UNKNOWN,
    Extracts,
    Fate,
    Logged,
    Outcome,
    Row,
    order_of,
    ranked,
    same,
)
from incload_assets.writes.append import Append
from incload_assets.writes.delete_insert import DeleteInsert
from incload_assets.writes.fold import Fold
from incload_assets.writes.full_reload import FullReload
from incload_assets.writes.history import History
from incload_assets.writes.merge import Merge
from incload_assets.writes.overwrite import Overwrite
from incload_assets.writes.snapshot import Snapshot


def outcome_of(table: Table, changes: Sequence[Logged], present: Sequence[Row], extracts: Extracts) -> Outcome:
    """The rows that the changes of one row, or of rows that belong together, make.

    ``changes``, in any order, are all rows of the log that concern it; the table's rows, ``present``, are only used for
    what the changes do not show.
    """
    fates = {change: _aside(change) for change in changes if change.kind in (REJECTED, REPLACED)}
    rest = sorted((change for change in changes if change not in fates), key=lambda change: change.arrived)
    silent = {change.window for change in changes if change.kind == REJECTED}
    match table.write:
        case Merge() as write:
            outcome = _merged(table, write, rest, present)
        case History() as write:
            outcome = _versions(table, write, rest)
        case Append():
            outcome = _appended(table, rest)
        case DeleteInsert():
            outcome = _sets(table, rest)
        case Fold() as write:
            outcome = _folded(table, write, rest)
        case Snapshot() as write:
            outcome = _of_snapshot(table, write, rest, extracts, silent)
        case FullReload():
            outcome = _of_newest(table, rest, extracts)
        case Overwrite():
            outcome = _overwritten(table, rest)
        case write:
            why = f"what {type(write).__name__} makes of changes is not known here"
            outcome = Outcome({change: Fate("unknown", why) for change in rest}, None)
    for change in rest:
        if change not in outcome.fates:
            outcome.fates[change] = _undecisive(table, change, rest)
    return Outcome(fates | outcome.fates, outcome.rows, outcome.gone)


def _aside(change: Logged) -> Fate:
    if change.kind == REJECTED:
        return Fate("rejected", "; ".join(change.reasons) or "it breaks the contract")
    return Fate("withdrawn", "its window was ingested again without a change of this row that it had before")


def _age(table: Table, change: Logged) -> tuple[Any, ...]:
    """The changes without repetitions, and the fates of these; of several equal ones the first that arrived stays."""
    return (change.rank if isinstance(table.write, Snapshot) else 0, order_of(table, change))


def _identity(table: Table, change: Logged) -> tuple[Any, ...]:
    """Something that is equal for a change and its repetitions."""
    if not table.changes.keys:
        return same(change.values, table.columns)
    return (change.kind, change.unset, _age(table, change))


def _distinct(table: Table, changes: Iterable[Logged]) -> list[Logged]:
    """The changes without repetitions, oldest first; of several equal ones the first that arrived stays."""
    first: dict[Any, Logged] = {}
    for change in changes:
        first.setdefault(_identity(table, change), change)
    return sorted(first.values(), key=lambda c: _age(table, c))


def _undecisive(table: Table, change: Logged, others: Sequence[Logged]) -> Fate:
    """The fate of a change that does not decide: it is a repetition, was stale on arrival, or was superseded later."""
    first = next(c for c in others if _identity(table, c) == _identity(table, change))
    if first is not change:
        return Fate("duplicate", "the same change is there already", first)
    newer = [c for c in _distinct(table, others) if _age(table, c) > _age(table, change)]
    before = [c for c in newer if c.landed_at < change.landed_at and c.window != change.window]
    if before:
        return Fate("stale", "a newer change had arrived before it", before[-1])
    return Fate("superseded", "a newer change came after it", newer[0] if newer else None)


def _content(table: Table, change: Logged) -> Row:
    return {name: change.values.get(name) for name in table.columns}


def _merged(table: Table, write: Merge, changes: Sequence[Logged], present: Sequence[Row]) -> Outcome:
    """By the newest change of the key, or of each of its columns; see :mod:`incload_assets.writes.column_fold`."""
    some, fates = _distinct(table, changes), dict[Logged, Fate]()
    ends = [c for c in some if c.kind == DELETE or c.kind in EMPTIES]
    upserts = [c for c in some if c.kind in UPSERTS]
    if not upserts:
        fates |= {c: Fate("in effect", "there is no row to delete; it keeps older changes out") for c in ends[-1:]}
        return Outcome(fates, gone=_deleted(ends[-1]) if ends else "")
    last, place = upserts[-1], {change: number for number, change in enumerate(some)}
    before = max((place[c] for c in ends if place[c] < place[last]), default=-1)
    ended = ends[-1] if ends and place[ends[-1]] > place[last] else None
    living = [c for c in upserts if place[c] > before]
    row, sources = _values(table, last, living)
    fixed = {*table.identity, *table.changes.sequence_by}
    if ended is not None and write.soft_delete:
        row |= {name: ended.values.get(name) for name in table.changes.sequence_by if name not in table.identity}
    if write.soft_delete:
        row[write.soft_delete] = ended is not None
    required = [f.name for f in table.contract.fields if table.by_column and not f.nullable and f.name not in fixed]
    lacks = [name for name in required if row[name] is None or (row[name] is UNKNOWN and not present)]
    alive = ended is None or bool(write.soft_delete)
    for change in some:
        if change is ended:
            fates[change] = Fate(
                "in effect", "it marks the row as deleted" if write.soft_delete else "it deleted the row"
            )
        elif change in sources and alive and lacks:
            fates[change] = Fate("waiting", f"no change has set {', '.join(lacks)} yet, which the contract requires")
        elif change in sources and alive:
            fates[change] = Fate("in effect", _gives(table, change, sources[change]))
    if not alive and ended is not None:
        return Outcome(fates, gone=_deleted(ended))
    if lacks:
        return Outcome(fates, gone=f"its changes wait for a value of {', '.join(lacks)}")
    return Outcome(fates, [row])


def _deleted(change: Logged) -> str:
    what = {DELETE: "the delete", "truncate": "the truncate"}.get(change.kind, "the full extract")
    return f"{what} from {change.place or 'its source'} in window {change.window} removed it"


def _values(table: Table, last: Logged, living: Sequence[Logged]) -> tuple[Row, dict[Logged, list[str]]]:
    """The row of the living upserts, oldest first, and by upsert the columns that it gives."""
    if not table.by_column:
        return _content(table, last), {last: []}
    row, sources = {name: last.values.get(name) for name in table.columns}, dict[Logged, list[str]]({last: []})
    for name in table.columns:
        if name in table.identity or name in table.changes.sequence_by:
            continue
        setting = [c for c in living if name not in c.unset or c.kind == MOVED]
        row[name] = None
        if setting:
            sources.setdefault(setting[-1], []).append(name)
            row[name] = UNKNOWN if name in setting[-1].unset else setting[-1].values.get(name)
    return row, sources


def _gives(table: Table, change: Logged, columns: Sequence[str]) -> str:
    if change.kind == MOVED:
        return "it gave the row this key; values that it leaves unset come from changes under the former key"
    if not table.by_column:
        return "the row has its values"
    return f"the row has its {', '.join(columns)}" if columns else "the row has its sequence"


@dataclass(frozen=True)
class _Moment:
    """The state that the changes of one moment make, see :mod:`incload_assets.writes.moments`.

    ``end`` is the delete that ended what was known, if it is of this moment; ``row`` its row, None without a
    row; ``sources`` the changes that the state has its values from, with their columns; ``lacks`` the required columns
    that no change has set.
    """

    newest: Logged
    end: Logged | None
    row: Row | None
    sources: Mapping[Logged, Sequence[str]]
    lacks: Sequence[str] = ()


def _moments(table: Table, changes: Sequence[Logged]) -> Iterator[_Moment]:
    time, fixed = table.changes.sequence_by[0], {*table.identity, *table.changes.sequence_by}
    required = [f.name for f in table.contract.fields if table.by_column and not f.nullable and f.name not in fixed]
    living: list[Logged] = []
    for _, group in groupby(_distinct(table, changes), key=lambda c: ranked(c.values.get(time))):
        members = list(group)[0 if table.by_column else -1 :]
        deletes = [place for place, change in enumerate(members) if change.kind == DELETE]
        end = members[deletes[-1]] if deletes else None
        living = members[deletes[-1] + 1 :] if deletes else [*living, *members]
        if not living:
            yield _Moment(members[-1], end, None, {})
            continue
        row, sources = _values(table, members[-1], living)
        lacks = [name for name in required if row[name] is None]
        yield _Moment(members[-1], end, None if lacks else row, sources, lacks)


def _versions(table: Table, write: History, changes: Sequence[Logged]) -> Outcome:
    """The versions of a key, see :mod:`incload_assets.writes.versions`."""
    time, tracked = table.changes.sequence_by[0], write.tracked(table.columns, table.changes)
    moments = list(_moments(table, changes))
    stretches = [
        list(group) for _, group in groupby(moments, key=lambda m: None if m.row is None else same(m.row, tracked))
    ]
    fates, rows, gone = _ends(moments) | _waiting(moments), [], ""
    for number, stretch in enumerate(stretches):
        start, last = stretch[0].newest.values.get(time), stretch[-1]
        end = stretches[number + 1][0].newest.values.get(time) if number + 1 < len(stretches) else None
        if last.row is None:
            gone = _deleted(last.newest)
            if last.lacks:
                gone = f"its changes wait for a value of {', '.join(last.lacks)}"
            continue
        own: Row = {write.valid_from: start, write.valid_to: end, write.is_current: end is None}
        if write.known:
            own |= {write.known_from: UNKNOWN, write.known_to: None, write.is_known: True}
        rows.append(last.row | own)
        superseded = Fate(
            "superseded", "no tracked column differs, so that it is in the version of a newer change", last.newest
        )
        for change in (change for moment in stretch for change in moment.sources):
            fates.setdefault(change, superseded)
        for change, columns in last.sources.items():
            if fates[change].what != "in effect":
                fates[change] = Fate("in effect", f"a version has its {', '.join(columns)}")
        fates[last.newest] = Fate("in effect", "the current version" if end is None else "a past version")
    return Outcome(fates, rows, gone)


def _waiting(moments: Sequence[_Moment]) -> dict[Logged, Fate]:
    """The fates of changes that lack a required column, until a delete or the end."""
    fates: dict[Logged, Fate] = {}
    for moment, after in zip_longest(moments, moments[1:]):
        if moment.lacks and (after is None or after.end is not None):
            why = f"no change has set {', '.join(moment.lacks)} yet, which the contract requires"
            fates |= dict.fromkeys(moment.sources, Fate("waiting", why))
    return fates


def _ends(moments: Sequence[_Moment]) -> dict[Logged, Fate]:
    """The fates of deletes: they end a version, or what was known; without either they have no effect."""
    fates: dict[Logged, Fate] = {}
    before: _Moment | None = None
    last: Logged | None = None
    for moment in moments:
        if (end := moment.end) is not None:
            if before is not None and before.row is not None:
                fates[end] = Fate("in effect", "it ended the version before it")
            elif last is None:
                fates[end] = Fate("in effect", "there is no version to end; it is remembered")
            elif before is not None and before.sources:
                fates[end] = Fate("in effect", "it ended what was known before it")
            else:
                fates[end] = Fate("no effect", "the row was deleted already", last)
                end = last
            last = end
        before = moment
    return fates


def _appended(table: Table, changes: Sequence[Logged]) -> Outcome:
    """The oldest content of each event, see :class:`incload_assets.writes.append.Append`."""
    some = _distinct(table, changes)
    if not table.changes.keys:
        fates = {c: Fate("in effect", "the event is in the table") for c in some}
        return Outcome(fates, [_content(table, c) for c in some])
    fates = {c: Fate("stale", "the oldest content of an event is final", some[0]) for c in some}
    fates |= {c: Fate("in effect", "it is the oldest content of the event") for c in some[:1]}
    return Outcome(fates, [_content(table, c) for c in some[:1]])


def _sets(table: Table, changes: Sequence[Logged]) -> Outcome:
    """The newest set of a group, see :class:`incload_assets.writes.delete_insert.DeleteInsert`."""
    sequence = table.changes.sequence_by
    by_set: dict[Any, list[Logged]] = {}
    for change in changes:
        place = tuple(ranked(change.values.get(name)) for name in sequence)
        by_set.setdefault((change.window, place, change.kind == DELETE), []).append(change)
    age = {
        key: (key[1], key[2], 0 if key[2] else sum(change.hash or 0 for change in members))
        for key, members in by_set.items()
    }
    if not by_set:
        return Outcome()
    newest = max(age.values())
    right, *again = [key for key in by_set if age[key] == newest]
    first, is_delete = by_set[right][0], right[2]
    why = "it deleted the group" if is_delete else "its set is the newest of the group"
    fates = {change: Fate("in effect", why) for change in by_set[right]}
    for key, members in by_set.items():
        if key in again:
            fates |= {change: Fate("duplicate", "the same set is there already", first) for change in members}
        elif key != right:
            late = by_set[right][0].landed_at < members[0].landed_at
            what: Fate = Fate("stale" if late else "superseded", f"the set of {right[0]} is newer", first)
            fates |= dict.fromkeys(members, what)
    if is_delete:
        return Outcome(fates, gone=_deleted(first))
    return Outcome(fates, [_content(table, change) for change in by_set[right]])


def _folded(table: Table, write: Fold, changes: Sequence[Logged]) -> Outcome:
    """The aggregate of all contributions, see :class:`incload_assets.writes.fold.Fold`."""
    fates = {change: Fate("in effect", "it is one of the contributions to the row") for change in changes}
    if not changes:
        return Outcome(fates)
    row: Row = {}
    newest = max(changes, key=lambda c: order_of(table, c))
    for name in table.columns:
        known = [value for c in changes if (value := c.values.get(name)) is not None]
        if name in write.sums:
            row[name] = sum(known) if known else None
        elif name in write.mins or name in write.maxes:
            pick = min if name in write.mins else max
            row[name] = pick(known, key=ranked) if known else None
        else:
            row[name] = newest.values.get(name)
    return Outcome(fates, [row])


def _of_snapshot(
    table: Table, write: Snapshot, changes: Sequence[Logged], extracts: Extracts, silent: Collection[str]
) -> Outcome:
    """The row of the newest extract that decides, see :class:`incload_assets.writes.snapshot.Snapshot`."""
    windows, some, fates = extracts.windows, _distinct(table, changes), dict[Logged, Fate]()
    clean = max((n for n, key in enumerate(windows) if key not in extracts.dirty), default=0)
    since = clean if write.delete_missing else 0
    right = next((c for c in reversed(some) if c.rank >= since), None)
    after = right.rank + 1 if right is not None else since
    lacking = [
        key for key in windows[after:] if write.delete_missing and key not in extracts.blind and key not in silent
    ]
    if right is None and write.delete_missing and some:
        lacking = lacking or list(windows[since : since + 1])
    gone = bool(lacking) and bool(some)
    if not gone:
        if right is not None:
            fates[right] = Fate("in effect", f"{right.window} is the newest extract that has the row")
        return Outcome(fates, [] if right is None else [_content(table, right)])
    fates |= {change: Fate("superseded", f"the newer extract {lacking[0]} lacks the row") for change in some}
    about = f"the extract {lacking[0]} lacks it"
    if write.scope is not None:  # only Spark knows whether the row is in the scope
        return Outcome(
            fates, None, f"{about}, and rows within the scope {write.scope} that an extract lacks are deleted"
        )
    return Outcome(fates, [], about)


def _of_newest(table: Table, changes: Sequence[Logged], extracts: Extracts) -> Outcome:
    """The rows of the newest window, see :class:`incload_assets.writes.full_reload.FullReload`."""
    newest = extracts.windows[-1] if extracts.windows else ""
    right = [c for c in changes if c.window == newest]
    fates = {c: Fate("superseded", f"{newest} is a newer full extract") for c in changes}
    fates |= {c: Fate("in effect", f"{newest} is the newest full extract") for c in right}
    gone = f"the newest full extract, {newest}, lacks it" if changes and not right else ""
    return Outcome(fates, [_content(table, c) for c in right], gone)


def _overwritten(table: Table, changes: Sequence[Logged]) -> Outcome:
    """All accepted rows of each window, see :class:`incload_assets.writes.overwrite.Overwrite`."""
    fates = {c: Fate("in effect", f"it is one of the rows of the window {c.window}") for c in changes}
    return Outcome(fates, [_content(table, c) for c in changes])
