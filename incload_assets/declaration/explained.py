"""A declaration in sentences, for people; sources and write strategies contribute their own, next to their code."""

from collections.abc import Iterator, Mapping

import dagster as dg

from incload_assets.contract.model import Field
from incload_assets.declaration.table import Table
from incload_assets.declaration.write import AUTO
from incload_assets.platform.wording import several, share, spoken

_LENGTHS = {"HOURLY": "an hour", "DAILY": "a day", "WEEKLY": "a week", "MONTHLY": "a month"}


def explained(table: Table) -> Mapping[str, list[str]]:
    """The sentences of a table's declaration, by what they are about."""
    return {
        "Read": [*_windows(table.partitions_def), *table.source.explained(), *_looks(table)],
        "Kept": [*table.write.explained(table.changes), *_divided(table), *_again(table)],
        "Rejected": [*_rejected(table)],
        "Stopped": [*_stopped(table)],
        "Afterwards": [*_afterwards(table)],
    }


def _windows(partitions_def: dg.TimeWindowPartitionsDefinition) -> Iterator[str]:
    first = partitions_def.start.strftime(partitions_def.fmt)
    kind, cron = partitions_def.schedule_type, partitions_def.cron_schedule
    each = _LENGTHS[kind.name] if kind else f"the time from one instant of the cron schedule {cron} to the next"
    yield f"A window, which is a partition in Dagster, is {each} in {partitions_def.timezone}; the first is {first}."
    if partitions_def.end_offset > 0:
        yield f"A window can be loaded before it ends: {several(partitions_def.end_offset, 'open window')} at a time."


def _looks(table: Table) -> Iterator[str]:
    yield (
        f"The sensor looks every {spoken(table.interval)} and requests the windows that are new or "
        "have changed. "
        "If the source holds what was loaded, nothing is read."
    )
    if table.source.absent == "wait":
        yield "A window without data waits for it."
    else:
        yield "A window without data is loaded as an empty one."


def _divided(table: Table) -> list[str]:
    """The sentence about the buckets of a table; none if it is not divided."""
    if (buckets := table.write.buckets) is None:
        return []
    number = f"{buckets} buckets" if buckets != AUTO else "buckets, as many as its first load chooses by its size,"
    return [
        f"The table is divided into {number} by a hash of its keys; a load rewrites only the buckets of its changes."
    ]


def _again(table: Table) -> Iterator[str]:
    yield (
        "If a window changes at its source, it is loaded again: its rows replace its former ones, and the "
        "table becomes "
        "what all loaded windows make, in whatever order they were loaded."
    )
    if table.source.retains_absent_keys and table.write.keyed:
        yield "A key that the source no longer shows in a window keeps the row that the window had."
    by = table.write.partition_by
    if by is not None and table.write.keyed and by not in table.changes.keys:
        yield f"A row stays in the partition of its {by}: the same key with another {by} is another row."
    together = "one after another, as each may change any row" if table.write.serialized else "at the same time"
    yield f"Loads of different windows run {together}."
    if table.log_retention is not None:
        yield (
            f"A window whose end is more than {spoken(table.log_retention)} ago is not replaced any more, unless a "
            "person requests it."
        )


def _rejected(table: Table) -> Iterator[str]:
    contract = table.contract
    required = [field.name for field in contract.fields if not field.nullable]
    required += [name for name in table.identity if name not in required]
    yield (
        f"Each row is validated by the contract {contract.model_name}. A rejected row goes to quarantine with "
        "its reasons, "
        "and the rest of its window is loaded."
    )
    yield "A row is rejected if a value cannot become its column's type without a loss."
    if required:
        yield f"A row is rejected if {_any_of(required)} is NULL."
    if table.changes.operations:
        known = table.changes.operations.known
        yield f"A row is rejected if its {table.changes.operations.column} is no declared operation code ({known})."
    if table.changes.delete_when:
        yield "A delete needs its key and sequence only."
    if broken := [f"{field.name}: {rule.broken}" for field in contract.fields for rule in field.rules]:
        yield f"A row is rejected if a value breaks a check: {'; '.join(broken)}."
    if contract.unique:
        yield f"Rows with the same {', '.join(contract.unique)} under two keys in one window are all rejected."
    if not table.passes_rows_on:
        yield "The table's function shapes the rows before they are validated."


def _stopped(table: Table) -> Iterator[str]:
    limit = table.quarantine
    most = f", or more than {several(limit.max_rows, 'row')}," if limit.max_rows is not None else ""
    yield (
        f"A load stops, and its window keeps what it had, if more than {share(limit.max_share)} of its rows{most} are "
        "rejected. It waits for corrected data."
    )
    evolution = table.evolution
    if evolution.unknown == "stop":
        yield "A load stops if a record has a field that the contract does not declare."
    else:
        yield "A field that the contract does not declare is kept beside its row, and stops nothing."
    added = (
        "adds a new column of the contract" if evolution.add == "apply" else "stops if the contract has a new column"
    )
    wider = "widens a type" if evolution.widen == "apply" else "stops if a type has changed"
    yield f"A load {added}, and {wider}."
    held = {"hold": "and the window is held", "undo": "the load is undone, and the window is held"}
    then = held.get(table.on_failed_reconciliation or "", "and the partition does not turn green")
    yield f"A load fails if the table differs from its log, after it has tried to repair it, {then}."


def _afterwards(table: Table) -> Iterator[str]:
    if table.undo_retention:
        yield f"What a load replaced can be brought back for {spoken(table.undo_retention)}: incload undo."
    kept = spoken(table.quarantine_retention) if table.quarantine_retention else "ever"
    yield f"A rejected row keeps its record for {kept}, so that it can be replayed: incload replay."
    if table.freshness is not None:
        yield f"A window is late if it is not loaded {spoken(table.freshness.within)} after its end."
    if protected := [_protected(field) for field in table.contract.fields if field.personal]:
        yield f"Personal columns: {'; '.join(protected)}."
    if table.subject is not None:
        yield f"The rows of one {table.subject.kind} can be erased: incload erase {table.subject.kind} …"


def _protected(field: Field) -> str:
    kept = f"stored {type(field.protection).__name__.lower()}" if field.protection is not None else "stored in clear"
    return f"{field.name} is masked in messages and samples, {kept}"


def _any_of(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}" if len(names) > 1 else names[0]
