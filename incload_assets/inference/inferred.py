"""A declaration inferred from a sample: columns, key, order, deletes and partition, each with its evidence."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import pyspark.sql.types as T

from incload_assets.inference.column_types import Guess, members, type_of
from incload_assets.inference.evidence import Column, Sample
from incload_assets.inference.keys import Counts, Key, candidates, choose, counted, rank, sequence_of, time_rank, tried
from incload_assets.inference.origin import WINDOW, Origin
from incload_assets.inference.personal import may_be_personal, why_personal, words
from incload_assets.inference.spelled import text, why_left_out
from incload_assets.platform.errors import SourceUnreadable
from incload_assets.platform.wording import ago, several

ENOUGH_ROWS = 100
"""Fewest rows from which a column without a NULL is declared as never NULL."""
_DELETES = {"d", "del", "delete", "deleted"}
_KINDS_OF_CHANGES = {
    *_DELETES, "c", "i", "ins", "insert", "inserted", "create", "created", "u", "upd", "update", "updated", "r", "read",
    "upsert", "t", "truncate",
}  # fmt: skip
_FEWEST_VERSIONS = 100


@dataclass(frozen=True, kw_only=True)
class InferredColumn:
    """A column of the contract with its evidence; ``left_out`` says why the contract cannot have it."""

    name: str
    kind: T.DataType
    nullable: bool
    personal: bool
    evidence: str
    questions: tuple[str, ...] = ()
    left_out: str = ""


@dataclass(frozen=True, kw_only=True)
class Inferred:
    """A declaration with the evidence of each part; ``write`` and ``delete_when`` are expressions, None: not needed."""

    table: str
    origin: Origin
    rows: int
    columns: tuple[InferredColumn, ...]
    keys: tuple[str, ...]
    keys_why: str
    sequence: str | None
    sequence_why: str
    delete_when: str | None
    delete_why: str
    write: str
    write_why: str
    questions: tuple[str, ...]


def sets_to_count(origin: Origin, sample: Sample, table: str) -> list[tuple[str, ...]]:
    """The sets of columns whose different values decide about the key, see :func:`inferred`."""
    if origin.keys:
        return []
    types = {column.name: type_of(column).kind for column in sample.columns}
    sequence = origin.sequence or sequence_of(sample.columns, types)
    names = [column.name for column in candidates(sample.columns, types, table, sequence)]
    dates = [name for name, kind in types.items() if isinstance(kind, T.DateType) and sample.column(name).never_null]
    sets = tried(names, sequence)
    with_window = [(*columns, WINDOW) for columns in sets if len(columns) < 3]
    with_date = [(*columns, date) for columns in sets if len(columns) < 3 for date in dates if date not in columns]
    return [*dict.fromkeys([*sets, *with_window, *with_date])]


def inferred(origin: Origin, sample: Sample, table: str, counts: Counts, now: datetime) -> Inferred:
    """The declaration of a table."""
    guesses = {column.name: type_of(column) for column in sample.columns}
    types = {name: guess.kind for name, guess in guesses.items()}
    sequence = origin.sequence or sequence_of(sample.columns, types)
    key = _key(origin, sample, table, types, sequence, counts)
    sequence = None if key.extracts else sequence
    for name in (*key.columns, *([sequence] if sequence else [])):
        if unfit := why_left_out(name):
            raise SourceUnreadable(
                f"{table}: {origin.place} has {name!r} in its key or order: {unfit}",
                rule="key and order are columns of the table, under the names of the source",
                remedy="make a view that renames the column, and infer the table from it",
            )
    if not sequence and origin.offset and key.columns:
        sequence, why = origin.offset, "no column orders the versions of a key, so its last message counts"
    else:
        why = origin.sequence_why or (sequence_why(sample.column(sequence), now) if sequence else "")
    full = not sequence and bool(key.columns) and (origin.full or key.versions)
    deletes, delete_why = _deletes(sample.columns, types)
    write, write_why, asked = _write(origin, sample, types, key, sequence, counts, full=full)
    if not sequence and (deletes or not key.columns):
        deletes = None
    columns = tuple(
        _column(sample, column, guesses[column.name], table, key.columns, sequence) for column in sample.columns
    )
    if sequence == origin.offset and sequence:
        columns += (
            InferredColumn(
                name=sequence,
                kind=T.LongType(),
                nullable=False,
                personal=False,
                evidence="the place of the message in its topic partition",
            ),
        )
    return Inferred(
        table=table,
        origin=origin,
        rows=sample.rows,
        columns=_without_doubles(columns),
        keys=key.columns,
        keys_why=key.why,
        sequence=sequence,
        sequence_why=why,
        delete_when=deletes,
        delete_why=delete_why,
        write=write,
        write_why=write_why,
        questions=(*_questions(sample, key, deletes, sequence), *asked, *origin.questions),
    )


def _key(
    origin: Origin, sample: Sample, table: str, types: Mapping[str, T.DataType], sequence: str | None, counts: Counts
) -> Key:
    if origin.keys:
        return Key(tuple(origin.keys), origin.keys_why)
    key = choose(sample, table, types, sequence, counts)
    if len(key.columns) == 1:
        return key
    likely = [column.name for column in candidates(sample.columns, types, table, sequence)]
    ranks = {name: rank(name, table, sample.columns, types) for name in likely}
    for name in likely:
        alone, in_windows = counts[(name,)], counts.get((name, WINDOW), 0)
        if ranks[name] <= 3 and alone < in_windows == sample.rows:
            why = f"unique within each window: {alone:,} keys in {sample.rows:,} rows"
            return Key((name,), why, versions=True, extracts=True)
    if origin.offset and not key.columns and likely and ranks[likely[0]] == 0:
        why = f"by its name; {several(counts[(likely[0],)], 'key')} in {several(sample.rows, 'message')}"
        return Key((likely[0],), why, versions=True)
    return key


def sequence_why(column: Column, now: datetime) -> str:
    """Why a column can order changes, with the age of the newest one."""
    newest = ""
    if column.newest and re.match(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d", column.newest):
        newest = f", newest {ago(datetime.fromisoformat(column.newest).replace(tzinfo=now.tzinfo), now)}"
    elif column.newest:
        newest = f", greatest {column.newest}"
    return f"never NULL{newest}"


def _deletes(columns: Sequence[Column], types: Mapping[str, T.DataType]) -> tuple[str | None, str]:
    """The condition that marks a delete, by a column that says what kind of change a row is, and why."""
    for column in columns:
        name = column.name if re.fullmatch(r"\w+", column.name) else f"`{column.name.replace('`', '``')}`"
        if {value.lower() for value in column.values} & _DELETES and {
            v.lower() for v in column.values
        } <= _KINDS_OF_CHANGES:
            mark = next(value for value in column.values if value.lower() in _DELETES)
            return f"{name} = '{mark}'", f"the values of {column.name} are {', '.join(column.values)}"
        found = words(column.name)
        if "deleted" in found and isinstance(types[column.name], T.BooleanType):
            return f"{name} = true", f"{column.name} is true or false"
        if "deleted" in found and isinstance(types[column.name], T.TimestampType | T.DateType) and column.nulls:
            return f"{name} IS NOT NULL", f"{column.name} has a value in {column.filled:,} of {column.rows:,} rows"
    return None, ""


def _write(
    origin: Origin,
    sample: Sample,
    types: Mapping[str, T.DataType],
    key: Key,
    sequence: str | None,
    counts: Counts,
    *,
    full: bool,
) -> tuple[str, str, list[str]]:
    """The write strategy, why, and questions about it."""
    if origin.write:
        return origin.write, "the only strategy for this source", []
    if full:
        extract = "is each window a full extract? Snapshot() deletes what the newest one lacks."
        return "Snapshot()", "keys come again, and no column orders their versions", [extract]
    if not key.columns:
        if origin.full:
            return "FullReload()", "no key: each window takes the place of the whole table", []
        return "Append()", "no key: each row once, by its whole content", ["which columns identify a row?"]
    if not sequence:
        changing = "do rows change later? Then name a column that orders the versions of a key, in sequence_by."
        return "Append()", "no column orders versions of a key: the first row of a key stays", [changing]
    dates = [name for name, kind in types.items() if isinstance(kind, T.DateType) and sample.column(name).never_null]
    for date in dates:
        alone, together = counts.get(key.columns, 0), counts.get((*key.columns, date), 0)
        if date in key.columns:
            return f"Merge(partition_by={text(date)})", f"{date} is part of the key, so it never changes for a row", []
        if key.versions and alone == together and sample.different - alone >= _FEWEST_VERSIONS:
            why = f"{date} is the same in all versions of each of {alone:,} keys"
            return f"Merge(partition_by={text(date)})", why, []
    asked = [
        f"is the table large, and does {date} never change for a row? Then it is partition_by of Merge."
        for date in dates[:1]
        if not origin.changes
    ]
    return "Merge()", "the newest change of a key makes its row", asked


def _column(
    sample: Sample, column: Column, guess: Guess, table: str, keys: Sequence[str], sequence: str | None
) -> InferredColumn:
    needed = column.name in keys or (column.name == sequence and column.never_null)
    nullable = not needed and not (
        column.required if column.required is not None else column.never_null and sample.rows >= ENOUGH_ROWS
    )
    personal = why_personal(column, table, members(guess.kind))
    questions = [guess.question] if guess.question else []
    if not personal and may_be_personal(column):
        questions.append("is it the name of a person? Then it is personal.")
    return InferredColumn(
        name=column.name,
        kind=guess.kind,
        nullable=nullable,
        personal=bool(personal),
        evidence="; ".join(filter(None, [guess.why, _nulls(column), personal])),
        questions=tuple(questions),
        left_out=why_left_out(column.name),
    )


def _nulls(column: Column) -> str:
    stated = {True: "NOT NULL at the source, ", False: "", None: ""}[column.required]
    if column.never_null:
        few = " (too few to rule it out)" if column.rows < ENOUGH_ROWS and not column.required else ""
        return f"{stated}never NULL in {column.rows:,} rows{few}"
    return f"{stated}NULL in {column.nulls:,} of {column.rows:,} rows"


def _without_doubles(columns: Sequence[InferredColumn]) -> tuple[InferredColumn, ...]:
    """The columns, those left out whose name differs from another's only by case."""
    seen: dict[str, str] = {}
    return tuple(
        column
        if seen.setdefault(column.name.lower(), column.name) == column.name
        else replace(column, left_out=f"it differs from {seen[column.name.lower()]!r} only by case")
        for column in columns
    )


def _questions(sample: Sample, key: Key, deletes: str | None, sequence: str | None) -> list[str]:
    found = []
    if sample.rows < ENOUGH_ROWS:
        found.append(f"the sample has only {sample.rows:,} rows. Are key and types right for all?")
    if sample.unreadable:
        found.append(f"{sample.unreadable:,} records cannot be read and go to quarantine. Why?")
    if sequence and key.columns and key.versions and time_rank(sequence) >= 3 and not counted(sequence):
        found.append(f"does {sequence} grow with each change of a row?")
    if key.columns and sequence and not deletes:
        found.append("are rows ever deleted? No column that marks a delete was found (delete_when).")
    return found
