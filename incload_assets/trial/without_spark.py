"""Evaluates a case by the oracle, without Spark: for tables whose function returns its rows unchanged.

Types, nullability, checks and conditions are those that Python decides exactly; for others the case needs Spark.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from typing import Any

import pyspark.sql.types as T

from incload_assets.contract.model import Field
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import Window
from incload_assets.ingest.quarantine import is_tolerated
from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.wording import several, share
from incload_assets.trial import oracle
from incload_assets.trial.cases import REASON, Case, Row
from incload_assets.trial.conditions import holds
from incload_assets.trial.outcome import Outcome, Texts
from incload_assets.trial.values import NeedsSpark, reason_of, shown, type_reason, value_of
from incload_assets.writes.append import Append
from incload_assets.writes.full_reload import FullReload
from incload_assets.writes.history import History
from incload_assets.writes.merge import Merge
from incload_assets.writes.overwrite import Overwrite

DELETES = "_deletes"
"""The column, beside the contract's, that marks a delete."""
_NULL, _NULL_KEY = "NULL is not allowed", "NULL, but it identifies the row"

Typed = dict[str, Any]
Held = dict[Window, list[Typed]]


def evaluate(case: Case) -> Outcome:
    """The outcome of a case.

    Raises:
        NeedsSpark: Only a real load evaluates it exactly.
        IncrementalLoadError: An expected value is none of its column's type.
    """
    table = case.table
    _expect_simple(table)
    held: Held = {}
    rejected: dict[Window, list[Texts]] = {}
    stopped: dict[int, str] = {}
    for number, arrival in enumerate(case.arrivals):
        window, rows = arrival.window, [(row, *_validated(row, table, arrival.window)) for row in arrival.rows]
        bad: list[Texts] = [{**row.values, REASON: "; ".join(reasons)} for row, _, reasons in rows if reasons]
        if not is_tolerated(table, len(rows), len(bad)):
            stopped[number] = (
                f"{len(bad)} of {several(len(rows), 'row')} are rejected, more than {table.name} tolerates "
                f"({share(table.quarantine.max_share)}): {bad[0][REASON]}"
            )
            continue
        if window in held and table.source.retains_absent_keys:
            raise NeedsSpark("its source keeps rows that a window no longer shows")
        good = [typed for _, typed, reasons in rows if not reasons]
        _expect_settled(table, held, window, good)
        held[window], rejected[window] = good, bad
    return Outcome(
        rows=[_texts(row, table) for row in _made(table, held)],
        expected=[_texts(_expected(row, case), table) for row in case.expected],
        rejected=[row for rows_of in rejected.values() for row in rows_of],
        stopped=stopped,
    )


def _expect_simple(table: Table) -> None:
    """Refuses what only a load evaluates: a function, rules between rows, parts of write strategies."""
    write, changes = table.write, table.changes
    if not table.passes_rows_on:
        raise NeedsSpark("its function changes rows")
    if type(write) not in _MAKERS:
        raise NeedsSpark(f"{type(write).__name__} is evaluated by Spark")
    if table.by_column or changes.empties:
        raise NeedsSpark("changes that set some columns, truncates and full extracts are evaluated by Spark")
    if changes.operations is not None or changes.skip_when is not None:
        raise NeedsSpark("operation codes, and records that are no changes, are evaluated by Spark")
    if table.contract.unique:
        raise NeedsSpark("its contract declares unique columns")
    if table.contract.protections:
        raise NeedsSpark("its contract protects columns")
    by = write.partition_by
    if by is not None and isinstance(table.type_of(by), T.StringType):
        raise NeedsSpark(f"it is partitioned by the string {by}")


def _expect_settled(table: Table, held: Held, window: Window, good: list[Typed]) -> None:
    """Refuses windows about which a load also compares rows or windows with each other."""
    by, keys = table.write.partition_by, table.changes.keys
    if by is not None and keys and by not in keys:
        groups = oracle.grouped(good, keys).values()
        if any(len({row[by] for row in rows}) > 1 for rows in groups):
            raise NeedsSpark(f"a key has two values of {by} in the window {window.key}")
    before = [rows for other, rows in held.items() if other != window]
    if isinstance(table.write, FullReload) and any(len(good) < len(rows) for rows in before):
        raise NeedsSpark(f"the window {window.key} has fewer rows than another one")


def _validated(row: Row, table: Table, window: Window) -> tuple[Typed, list[str]]:
    """A row with types, and the reasons for which a load rejects it."""
    contract, typed, reasons = table.contract, Typed(), []
    failed = set()
    for field in contract.fields:
        text = row.values.get(field.name)
        typed[field.name] = None if text is None else value_of(text, field.data_type)
        if text is not None and typed[field.name] is None:
            failed.add(field.name)
            reasons.append(type_reason(field, text))
    control = {name: row.values.get(name) for name in table.control_fields}
    deletes = holds(table.changes.delete_when, {**typed, **control}, contract.types)
    needed = {*table.identity, *table.changes.sequence_by}
    for field in contract.fields:
        value = typed[field.name]
        if deletes and field.name not in needed:
            continue
        if value is None and not field.nullable and field.name not in failed:
            reasons.append(f"{field.name}: {_NULL}")
        if value is not None:
            reasons += _broken(field, value)
    nullable = {field.name for field in contract.fields if field.nullable}
    for name in table.identity:
        if typed[name] is None and name in nullable and name not in failed:
            reasons.append(f"{name}: {_NULL_KEY}")
    reasons += _elsewhere(typed, table, window)
    return {**typed, DELETES: deletes}, list(dict.fromkeys(reasons))


def _broken(field: Field, value: Any) -> list[str]:
    rules = [rule for rule in field.rules if not rule.passes(value)]
    return [reason_of(field, shown(value, field.data_type), rule.broken) for rule in rules]


def _elsewhere(typed: Typed, table: Table, window: Window) -> list[str]:
    """The reason for a row that an overwritten window does not hold."""
    by = table.write.partition_by
    if not isinstance(table.write, Overwrite) or by is None or (value := typed[by]) is None:
        return []
    if isinstance(value, datetime):
        inside = window.start <= value < window.end
    else:
        assert isinstance(value, date)
        first, after = (bound.astimezone(window.zone).date() for bound in (window.start, window.end))
        inside = first <= value < after
    [field] = [field for field in table.contract.fields if field.name == by]
    text = reason_of(field, shown(value, field.data_type), f"does not lie in the window {window.key}")
    return [] if inside else [text]


def _deletes(row: Mapping[str, Any]) -> bool:
    return bool(row[DELETES])


def _undecided(row: Mapping[str, Any]) -> Any:
    raise NeedsSpark("two different changes of one key have the same sequence, and a hash of their content decides")


def _every(held: Held) -> list[Typed]:
    return [row for rows in held.values() for row in rows]


def _merged(table: Table, held: Held) -> list[Typed]:
    assert isinstance(table.write, Merge)
    changes = table.changes
    if table.write.soft_delete is not None:
        raise NeedsSpark("rows that are marked as deleted are evaluated by Spark")
    found = oracle.fold(_every(held), table.identity, changes.sequence_by, _deletes, _undecided)
    return [dict(row) for row in found.values()]


def _appended(table: Table, held: Held) -> list[Typed]:
    changes = table.changes
    identity = table.identity if changes.keys else table.columns
    return [dict(row) for row in oracle.oldest(_every(held), identity, changes.sequence_by, _undecided).values()]


def _versions(table: Table, held: Held) -> list[Typed]:
    write, changes = table.write, table.changes
    assert isinstance(write, History)
    tracked = write.tracked(table.columns, changes)
    found = oracle.versions(_every(held), changes.keys, changes.sequence_by, tracked, _deletes, _undecided)
    own = {write.known_from: None, write.known_to: None, write.is_known: True} if write.known else {}
    return [
        {**row, write.valid_from: start, write.valid_to: end, write.is_current: is_open, **own}
        for row, start, end, is_open in found
    ]


_MAKERS: dict[type[Any], Callable[[Table, Held], Sequence[Typed]]] = {
    Append: _appended,
    FullReload: lambda table, held: held[max(held)] if held else [],
    History: _versions,
    Merge: _merged,
    Overwrite: lambda table, held: _every(held),
}
"""The oracle of each write strategy that has one."""


def _made(table: Table, held: Held) -> Sequence[Typed]:
    return _MAKERS[type(table.write)](table, held)


def _expected(row: Row, case: Case) -> Typed:
    """An expected row with types."""
    typed = Typed()
    for field in case.table.schema.fields:
        text = row.values.get(field.name)
        typed[field.name] = None if text is None else value_of(text, field.dataType)
        if text is not None and typed[field.name] is None:
            raise wrong_value(case, row, field)
    return typed


def wrong_value(case: Case, row: Row, field: T.StructField) -> IncrementalLoadError:
    """The error for an expected value that is none of its column's type."""
    return IncrementalLoadError(
        f"{case.file}:{row.line}: {field.name} is {row.values[field.name]!r}",
        rule=f"the table has it as {field.dataType.simpleString()}",
        remedy="write a value of that type, or null",
    )


def _texts(row: Mapping[str, Any], table: Table) -> Texts:
    """A row as texts; a double as Python writes it, as both sides of a comparison are written by it."""
    return {
        field.name: None
        if row[field.name] is None
        else repr(row[field.name])
        if isinstance(field.dataType, T.DoubleType)
        else shown(row[field.name], field.dataType)
        for field in table.schema.fields
    }
