"""Key and order of a table's rows, inferred from how many different values columns have together."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import pyspark.sql.types as T

from incload_assets.inference.evidence import Column, Sample
from incload_assets.inference.personal import words
from incload_assets.inference.spelled import why_left_out

CANDIDATES = 6
"""Most columns that are tried together."""
MOST_COLUMNS = 4
"""Most columns of a key."""
_ORDERED = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
_PLAIN = (*_ORDERED, T.StringType, T.DateType)
_IDENTIFYING = {"id": 1, "uuid": 1, "guid": 1, "key": 1, "code": 2, "sku": 2, "no": 2, "nr": 2, "num": 2, "number": 2}
_FIRST, _OTHER, _DATED = 3, 4, 5
_CHANGED = {"updated", "modified", "changed", "update", "mtime", "lastmodified", "updatedat"}
_COUNTED = {"version", "revision", "lsn", "seq", "sequence", "scn", "offset"}
_TIMED = {"ts", "timestamp", "time", "datetime", "at", "occurred", "asof", "when"}
_BEGUN = {"created", "inserted", "loaded", "ingested", "added", "born"}

Columns = tuple[str, ...]
Counts = Mapping[Columns, int]
"""Number of different values of columns together."""


@dataclass(frozen=True)
class Key:
    """The columns that identify a row (none: no columns do), and why.

    ``versions``: a key has several rows. ``extracts``: at most one in each window, as in full extracts.
    """

    columns: Columns
    why: str
    versions: bool = False
    extracts: bool = False


def sequence_of(columns: Sequence[Column], types: Mapping[str, T.DataType]) -> str | None:
    """The column that most likely orders the changes of a key: never NULL, an instant, or a number that counts."""
    ranked = [
        (likely, place, column.name)
        for place, column in enumerate(columns)
        if column.never_null
        and not why_left_out(column.name)
        and (likely := _sequence_rank(column.name, types[column.name])) is not None
    ]
    return min(ranked)[2] if ranked else None


def _sequence_rank(name: str, kind: T.DataType) -> int | None:
    if isinstance(kind, T.TimestampType):
        return time_rank(name)
    if isinstance(kind, _ORDERED) and counted(name):
        return 1
    return 5 if isinstance(kind, T.DateType) and time_rank(name) == 0 else None


def time_rank(name: str) -> int:
    """The likelihood that a time is that of the last change: 0 if its name says so, 4 if it says the contrary."""
    found = words(name)
    return 0 if found & _CHANGED else 4 if found & _BEGUN else 2 if found & _TIMED else 3


def counted(name: str) -> bool:
    """True if the name of a number says that it grows with each change."""
    return bool(words(name) & _COUNTED or {"ts", "ms"} <= words(name))


def candidates(
    columns: Sequence[Column], types: Mapping[str, T.DataType], table: str, sequence: str | None
) -> list[Column]:
    """The columns that a key may have, the likeliest first: never NULL, of a plain type, named like an identifier."""
    fine = [
        column
        for column in columns
        if column.never_null
        and isinstance(types[column.name], _PLAIN)
        and column.name != sequence
        and not why_left_out(column.name)
    ]
    ranked = sorted(fine, key=lambda column: (rank(column.name, table, columns, types), columns.index(column)))
    return ranked[:CANDIDATES]


def rank(name: str, table: str, columns: Sequence[Column], types: Mapping[str, T.DataType]) -> int:
    """The likelihood that a column is (part of) a key, 0 is the likeliest; up to 2 its name says so."""
    found, of_table = words(name), {word.removesuffix("s") for word in words(table)}
    if "id" in found and found <= {"id"} | of_table:
        return 0
    if named := [_IDENTIFYING[word] for word in found if word in _IDENTIFYING]:
        return min(named)
    if name.lower().endswith("id") and name[-2:] in ("ID", "Id"):
        return 1
    if isinstance(types[name], T.DateType):
        return _DATED
    return _FIRST if columns and columns[0].name == name else _OTHER


def tried(names: Sequence[str], sequence: str | None) -> list[Columns]:
    """The sets of columns whose different values have to be counted to choose a key, with and without the sequence."""
    alone = list(_sets(names))
    return [*alone, *((*columns, sequence) for columns in alone if len(columns) < 3 and sequence)]


def choose(sample: Sample, table: str, types: Mapping[str, T.DataType], sequence: str | None, counts: Counts) -> Key:
    """The smallest set of columns that identifies a row in the sample.

    A name that says so comes before a smaller set. Where a key has several versions, key and sequence together identify
    a row.
    """
    names = [column.name for column in candidates(sample.columns, types, table, sequence)]
    ranks = {name: rank(name, table, sample.columns, types) for name in names}
    named = [name for name in names if ranks[name] <= 2]
    for columns in _in_order(names, named):
        if counts[columns] == sample.different:
            return Key(columns, f"unique in {sample.different:,} of {sample.rows:,} rows{_repeated(sample)}")
        with_sequence = (*columns, sequence) if sequence else ()
        if {*columns} <= {*named} and counts.get(with_sequence) == sample.different:
            why = f"{counts[columns]:,} keys in {sample.rows:,} rows, and each once per value of {sequence}"
            return Key(columns, f"{why}: several versions of a key", versions=True)
    return Key(
        (),
        f"no set of up to {MOST_COLUMNS} of the columns {', '.join(names)} is unique"
        if names
        else "no column that is never NULL and of a plain type",
    )


def _in_order(names: Sequence[str], named: Sequence[str]) -> Iterator[Columns]:
    """The sets in which a key is looked for: columns whose names say so, then all sets, the smallest first."""
    yield from (columns for columns in _sets(named) if len(columns) < 3)
    yield from _sets(names)


def _sets(names: Sequence[str]) -> Iterator[Columns]:
    for size in range(1, min(MOST_COLUMNS, len(names)) + 1):
        yield from combinations(names, size)


def _repeated(sample: Sample) -> str:
    return f", {sample.rows - sample.different:,} repeat another" if sample.different < sample.rows else ""
