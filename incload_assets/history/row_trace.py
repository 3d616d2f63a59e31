"""The trace of one row: every change of it that the log has, the outcome of each and why, and the table's row now.

It is read with deltalake and pyarrow, filtered by the key columns, without Spark. Its limits:

- Rejected rows whose key columns could not be read are not found by the key; they are only counted.
- Changes that a compaction has removed from the log are shown for two days, until their files are removed, too. The
  content of former landings of a window is gone.
- The place of a change is its place in the window's last landing, also if only a part was read again.
- Ties between upserts of one sequence are decided by the stored content hashes. The engine computes them by the present
  contract, so if the contract has changed since, another change may have won.
- Values that a row inherited from a former key (``moved_when``) are with that key.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from incload_assets.change_log.change import DELETE, EMPTIES, MOVED, REJECTED, REPLACED, SNAPSHOT, UPSERT, UPSERTS
from incload_assets.change_log.log import ChangeLog
from incload_assets.change_log.window_records import WindowRecord, base_keys, ingested_windows, window_records_of
from incload_assets.contract.contract import MASK
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
from incload_assets.history.row_fates import outcome_of
from incload_assets.platform.errors import LakeUnreadable
from incload_assets.platform.lake import Lake
from incload_assets.platform.lake_rows import Among, rows_where
from incload_assets.platform.wording import several

_OPERATIONS = {SNAPSHOT: "full extract", REPLACED: "withdrawn"}
_KEYED = (*UPSERTS, DELETE, REJECTED, REPLACED)
_OWN = ("_window", "_kind", "_hash", "_source", "_reasons", "_unset")
COMPACTED = "compacted "
"""How the note of a commit begins that removed changes from a log."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """One change of the row; personal values are masked.

    Args:
        number: Its place in the trace, from 1, oldest first in the engine's order; what has no sequence is at the end.
        operation: ``upsert``, ``partial``, ``moved``, ``delete``, ``truncate``, ``full extract``, ``rejected`` or
            ``withdrawn``.
        place: The source file and row, or the Kafka partition and offset, for people.
        file, block, row: The same for programs.
        landing: The number of the window's last ingestion, by the run at ``landed_at`` (aware).
        fate: Its outcome, in a word.
        by: The number of the change that decided it; None if it was none, or is none of the trace.
        sets: The columns that a partial change sets; empty for other changes.
        values: The values of the columns; empty unless they are requested.
    """

    number: int
    operation: str
    window: str
    place: str
    file: str | None
    block: int | None
    row: int | None
    landing: int
    run_id: str
    landed_at: datetime
    sequence: Mapping[str, Any]
    fate: str
    why: str
    by: int | None
    sets: Sequence[str]
    values: Mapping[str, Any]

    @property
    def trace_id(self) -> str:
        """The identifier of the run's trace: 32 hexadecimal digits."""
        return self.run_id.replace("-", "")


@dataclass(frozen=True, kw_only=True)
class RowTrace:
    """The trace of a row; personal columns are masked.

    ``rows`` counts the table's rows with the key, ``present`` has them if values are requested. ``now`` says why there
    is the row, or none; ``agrees`` whether the table is what its changes make, None if they do not show it; ``notes``
    the limits of the trace.
    """

    table: str
    key: Mapping[str, Any]
    changes: Sequence[Change]
    rows: int
    now: str
    agrees: bool | None
    present: Sequence[Mapping[str, Any]]
    notes: Sequence[str]


def trace_row(table: Table, lake: Lake, key: Mapping[str, Any], *, values: bool = False) -> RowTrace:
    """The trace of a row, or of all rows with some values where no key identifies one.

    The key is as :func:`~incload_assets.protection.row_key.key_of` returns it; with ``values``, columns are included.
    Raises SparkUnavailable or IncrementalLoadError if the lake's object store does not answer, or refuses.
    """
    delta = lake.delta(lake.table_uri(table.key.path))  # before the log, which then has everything that was merged
    log = ChangeLog(table, lake)
    opened = lake.delta(log.uri)
    if opened is None:
        return _nothing(table, key, "there is no log: nothing was ever loaded into the table")
    look = _Look(table, opened, key)
    together = {name: value for name, value in key.items() if name in (table.write.together() or key)}
    present, ended = _held(table, [] if delta is None else _rows(delta, table.schema.names, _only(together)))
    changes = look.changes(together)
    outcome = _outcome(table, changes, present, look.extracts())
    removed = look.removed(lake, together, changes)
    outcome.fates |= dict.fromkeys(
        removed, Fate("removed", "a compaction removed it from the log: it no longer decides")
    )
    changes += removed
    shown = [c for c in sorted(changes, key=lambda c: _display(table, c)) if _fits(c, key)]
    numbers = {change: number for number, change in enumerate(shown, 1)}
    here = [row for row in present if _has(row, key)]
    agrees, now = _verdict(table, shown, outcome, numbers, present, here, exists=delta is not None)
    masked = table.contract.personal
    return RowTrace(
        table=table.name,
        key={name: _shown(value, name in masked) for name, value in key.items()},
        changes=[_change(table, c, look.records[c.window], outcome.fates[c], numbers, values=values) for c in shown],
        rows=len(here),
        now=now,
        agrees=agrees,
        present=[_masked(row, masked) for row in (*here, *ended) if _has(row, key)] if values else [],
        notes=[*look.notes(changes), *_ended(ended)],
    )


class _Look:
    """The rows of the log about a key."""

    def __init__(self, table: Table, log: DeltaTable, key: Mapping[str, Any]) -> None:
        self.table, self.log, self.key = table, log, key
        windows = table.known_windows(ingested_windows(log))
        self.windows = [*base_keys(log), *(window.key for window in windows)]  # base rows are older than all windows
        self.records: dict[str, WindowRecord] = {}

    def changes(self, key: Mapping[str, Any]) -> list[Logged]:
        """All rows of the log with the key, and those without a key that may delete it."""
        rows = self._rows({"_kind": _KEYED, **_only(key)})
        if self.table.changes.empties:
            rows += self._rows({"_kind": EMPTIES})
        compacts = self.table.write.compacts and self.table.log_retention is not None
        self.records = window_records_of(self.log, only=None if compacts else {row["_window"] for row in rows})
        changes = self._all_logged(rows)
        if any(change.kind not in EMPTIES for change in changes):
            return changes
        return []  # a truncate deletes nothing of a row that never was

    def removed(self, lake: Lake, key: Mapping[str, Any], changes: Sequence[Logged]) -> list[Logged]:
        """Changes that compactions have removed from the log, as far as its former versions are still there."""
        windows = [window for window, record in self.records.items() if record.removed]
        if not windows:
            return []
        known = {_identity(change) for change in changes}
        wanted = {"_kind": (*UPSERTS, DELETE), "_window": windows, **_only(key)}
        found: list[Logged] = []
        for commit in self.log.history():
            if not str(commit.get("userMetadata") or "").startswith(COMPACTED):
                continue
            with suppress(OSError, DeltaError, LakeUnreadable):  # its files are gone
                former = lake.delta(self.log.table_uri, int(commit["version"]) - 1)
                assert former is not None
                rows = _rows(former, [*self.table.columns, *_OWN], wanted)
                new = [change for change in self._all_logged(rows) if _identity(change) not in known]
                known |= {_identity(change) for change in new}
                found += new
        return found

    def _rows(self, wanted: Among) -> list[Row]:
        return _rows(self.log, [*self.table.columns, *_OWN], wanted)

    def _all_logged(self, rows: Iterable[Mapping[str, Any]]) -> list[Logged]:
        rank = {window: number for number, window in enumerate(self.windows)}
        here = self.records.keys() & rank.keys()
        return [self._logged(row, rank[row["_window"]]) for row in rows if row["_window"] in here]

    def _logged(self, row: Mapping[str, Any], rank: int) -> Logged:
        source = row.get("_source") or {}
        return Logged(
            kind=row["_kind"],
            window=row["_window"],
            rank=rank,
            landed_at=self.records[row["_window"]].landed_at,
            values={name: row.get(name) for name in self.table.columns},
            hash=row.get("_hash"),
            unset=frozenset(row.get("_unset") or ()),
            file=source.get("file"),
            block=source.get("block"),
            row=source.get("row"),
            reasons=tuple(row.get("_reasons") or ()),
        )

    def extracts(self) -> Extracts:
        """The ingested windows; where the newest extract decides, one whose first load was undone is none."""
        if not self.table.write.supersedes:
            return Extracts(self.windows)
        records = window_records_of(self.log)
        withdrawn = {window for window, record in records.items() if record.is_withdrawn}
        windows = list(self.windows)
        while len(windows) > 1 and windows[-1] in withdrawn:
            windows.pop()
        rejected = {window for window, record in records.items() if record.rejected}
        return Extracts(windows, rejected | withdrawn, withdrawn | set(self._unreadable()))

    def _unreadable(self) -> list[str]:
        """The windows of rejected rows whose key cannot be read, one for each row."""
        known = self.log.schema().to_arrow().names
        empty = pc.scalar(False)
        for name in self.table.identity:
            if name in known:
                empty |= pc.field(name).is_null()
        return list(rows_where(self.log, {"_kind": [REJECTED]}, empty, columns=["_window"])["_window"].to_pylist())

    def notes(self, changes: Sequence[Logged]) -> Iterable[str]:
        """The limits of the trace, a line for each."""
        if count := len(self._unreadable()):
            yield (
                f"{several(count, 'rejected row')} of the table cannot be found by a key, because their "
                "key columns cannot be read; the payload of one may be this row's"
            )
        if compacted := [record.removed for record in self.records.values() if record.removed]:
            yield (
                f"compactions have removed {several(sum(compacted), 'change')} of "
                f"{several(len(compacted), 'window')} from the log, which no "
                "longer decided; changes of this row that were removed more than two days ago are not shown"
            )
        versions = {self.records[change.window].code_version for change in changes}
        if versions - {self.table.code_version}:
            yield (
                "some changes were validated by other versions of the code; if the contract has changed since, ties "
                "between changes of one sequence may have been decided otherwise"
            )
        for change in changes:
            if change.kind == MOVED:
                yield from self._former(change)

    def _former(self, change: Logged) -> Iterable[str]:
        """The former key of a row that was given another one: the delete of the same sequence has it."""
        sequence = {name: change.values[name] for name in self.table.changes.sequence_by}
        for row in _rows(self.log, self.table.identity, {"_kind": [DELETE], **_only(sequence)}):
            masked = _masked(row, self.table.contract.personal)
            yield f"the row's former key is {' '.join(f'{name}={value}' for name, value in masked.items())}"


def _held(table: Table, rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """The rows that the table's changes explain, and those that were believed earlier."""
    held = table.write.open_rows
    return (
        [row for row in rows if held is None or row[held]],
        [row for row in rows if held is not None and not row[held]],
    )


def _ended(rows: Sequence[Row]) -> Iterable[str]:
    if rows:
        yield f"the table keeps {several(len(rows), 'row')} that were believed earlier, see incload as-of"


def _identity(change: Logged) -> tuple[Any, ...]:
    """Something by which a row of one version of the log is known in another."""
    return (change.window, change.kind, change.hash, change.file, change.block, change.row)


def _outcome(table: Table, changes: Sequence[Logged], present: Sequence[Row], extracts: Extracts) -> Outcome:
    """The outcome of changes that may be of several rows: by the columns that identify one."""
    by = table.identity if table.changes.keys or table.write.together() else ()
    groups: dict[tuple[str, ...], list[Logged]] = {}
    for change in changes:
        if change.kind not in EMPTIES:
            groups.setdefault(same(change.values, by), []).append(change)
    whole = Outcome(rows=[])
    for place, members in groups.items():
        # a change whose partition column is NULL was rejected, and is of no row
        empties = [change for change in changes if change.kind in EMPTIES]
        rows = [row for row in present if same(row, by) == place]
        one = outcome_of(table, [*members, *empties], rows, extracts)
        for change, fate in one.fates.items():
            if change not in whole.fates or fate.what == "in effect":
                whole.fates[change] = fate
        whole.rows = None if whole.rows is None or one.rows is None else [*whole.rows, *one.rows]
        whole.gone = whole.gone or one.gone
    return whole


def _verdict(
    table: Table,
    shown: Sequence[Logged],
    outcome: Outcome,
    numbers: Mapping[Logged, int],
    present: Sequence[Row],
    here: Sequence[Row],
    *,
    exists: bool,
) -> tuple[bool | None, str]:
    """The verdict whether the table is what its changes make, and why it has the row or lacks it."""
    deciding = [change for change in shown if outcome.fates[change].what == "in effect"]
    agrees = None if outcome.rows is None else _alike(outcome.rows, present)
    if agrees is False:
        windows = sorted({change.window for change in deciding or shown})
        differs = _differing(outcome.rows or [], present)
        return False, (
            ("the table lacks the row" if not present else f"the table's row differs from its changes ({differs})")
            + (f", although its changes make {len(outcome.rows or ())}" if not present else "")
            + ("" if exists else "; there is no table")
            + ". A load has ended between ingestion and merge, or another writer has changed the table. "
            f"What to do: incload load {table.name} --partitions {','.join(windows)}"
        )
    by = ", ".join(str(numbers[change]) for change in deciding if change.kind not in (DELETE, *EMPTIES))
    if here:
        count = "the row" if len(here) == 1 else f"{len(here)} rows"
        return agrees, f"the table has {count}" + (f", by change {by}" if by else "")
    if not shown:
        return agrees, "the table has no such row: no ingested window has a change of it"
    if outcome.gone:
        return agrees, f"the table has no such row: {outcome.gone}"
    if all(change.kind == REJECTED for change in shown):
        return agrees, "the table has no such row: its changes are in quarantine"
    return agrees, "the table has no such row: the changes that it had were withdrawn"


def _alike(expected: Sequence[Row], present: Sequence[Row]) -> bool:
    """True if rows are the same, in any order; unknown values are equal to every value."""
    left = list(present)
    for row in expected:
        known = [name for name, value in row.items() if value is not UNKNOWN]
        match = next((other for other in left if same(other, known) == same(row, known)), None)
        if match is None:
            return False
        left.remove(match)
    return not left


def _differing(expected: Sequence[Row], present: Sequence[Row]) -> str:
    if len(expected) != len(present):
        return f"{several(len(present), 'row')} instead of {len(expected)}"
    if len(expected) > 1:
        return f"{several(len(expected), 'row')}, some with other values"
    [wanted], [found] = expected, present
    names = [name for name, value in wanted.items() if value is not UNKNOWN and repr(value) != repr(found.get(name))]
    return ", ".join(names)


def _display(table: Table, change: Logged) -> tuple[Any, ...]:
    """The order of the trace: the engine's, and what has no sequence by arrival at the end."""
    sequence = table.changes.sequence_by
    aside = change.kind == REPLACED or (change.kind == REJECTED and change.values.get((sequence or ("",))[0]) is None)
    if table.write.supersedes or not sequence:
        return (aside, change.rank, *change.arrived)
    return (aside, *(((0,),) if aside else order_of(table, change)), *change.arrived)


def _fits(change: Logged, key: Mapping[str, Any]) -> bool:
    """True if a change is to be shown: it has the key, or belongs to no key."""
    return change.kind in (DELETE, REPLACED, *EMPTIES) or _has(change.values, key)


def _has(values: Mapping[str, Any], key: Mapping[str, Any]) -> bool:
    return all(ranked(values.get(name)) == ranked(value) for name, value in key.items())


def _change(
    table: Table, change: Logged, record: WindowRecord, fate: Fate, numbers: Mapping[Logged, int], *, values: bool
) -> Change:
    personal = table.contract.personal
    sets = [name for name in table.columns if name not in change.unset] if change.unset else []
    operation = "partial" if change.kind == UPSERT and change.unset else _OPERATIONS.get(change.kind, change.kind)
    why = fate.why
    if fate.by is not None and fate.by not in numbers:
        why += f" ({fate.by.place} of {fate.by.window})"
    sequence = {name: change.values.get(name) for name in table.changes.sequence_by}
    return Change(
        number=numbers[change],
        operation=operation,
        window=change.window,
        place=change.place,
        file=change.file,
        block=change.block,
        row=change.row,
        landing=record.landing,
        run_id=record.run_id,
        landed_at=record.landed_at,
        sequence=_masked(sequence, personal),
        fate=fate.what,
        why=why,
        by=numbers.get(fate.by) if fate.by is not None else None,
        sets=sets,
        values=_masked(change.values, personal) if values and change.kind not in EMPTIES else {},
    )


def _nothing(table: Table, key: Mapping[str, Any], now: str) -> RowTrace:
    masked = {name: _shown(value, name in table.contract.personal) for name, value in key.items()}
    return RowTrace(table=table.name, key=masked, changes=[], rows=0, now=now, agrees=None, present=[], notes=[])


def _masked(row: Mapping[str, Any], personal: Iterable[str]) -> dict[str, Any]:
    return {name: _shown(value, name in personal) for name, value in row.items()}


def _shown(value: Any, is_personal: bool) -> Any:
    return MASK if is_personal and value is not None else value


def _rows(delta: DeltaTable, columns: Sequence[str], wanted: Among) -> list[Row]:
    """The rows of a Delta table that are wanted; columns that it does not have yet are left out."""
    return list(rows_where(delta, wanted, columns=columns).to_pylist())


def _only(values: Mapping[str, Any]) -> dict[str, list[Any]]:
    return {name: [value] for name, value in values.items()}
