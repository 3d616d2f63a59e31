"""The differences between two contracts of a table, each with what a load does about it; they are pure functions.

What Delta stores is compared by ``adaptation.py``, as loads do. What only the declaration has is
compared here, for example checks.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from incload_assets.contract.adaptation import (
    ADDED,
    ADDED_UNSET,
    DROPPED,
    STORED_KINDS,
    Difference,
    Kind,
    stored_differences,
)
from incload_assets.contract.described import ColumnDescription, TableContract

_LOADED = "Existing rows do not change until you reload their window"
RENAMED = Kind(
    "renamed?",
    "ignored",
    "Only a hint: one column is dropped and one of the same type added. No value is moved from one to the other",
    remedy="fill the new column in the function from both fields of the source, and load the windows again",
)
LOOSENED = Kind(
    "NULL allowed",
    "validated from now on",
    "Rows in quarantine are replayed by a sensor, or by `incload replay`. No window loads again because of it",
)
TIGHTENED = Kind(
    "NULL no longer allowed",
    "validated from now on",
    f"A row with NULL goes to quarantine from now on. {_LOADED}",
    remedy="look how many rows have NULL before you deploy it: incload shadow {table}",
)
CHECKS = Kind(
    "checks changed",
    "validated from now on",
    f"Rows are validated by the new checks from now on; rows in quarantine are replayed by a sensor. {_LOADED}",
    remedy="compare with the rows that are there before you deploy it: incload shadow {table}",
)
UNIQUE = Kind(
    "unique columns changed",
    "validated from now on",
    "Rows of one window are validated by it from now on. The check `uniqueness` reads all rows at its next evaluation",
    remedy="incload check {table}",
)
PERSONAL = Kind(
    "personal changed",
    "applied",
    "Values are masked, or shown, in what is written from now on; protected ones are kept in no new row. What was "
    "written before stays as it is",
    remedy="where columns become protected, replace the rows that are there: incload load {table} --outdated",
)
SEQUENCE = Kind(
    "sequence changed",
    "validated from now on",
    f"Changes of a key are ordered by the new sequence from now on. {_LOADED}",
    remedy="load all windows again, or the table mixes two orders: incload load {table} --partitions FIRST..LAST",
)
KEY_ORDER = Kind(
    "keys reordered",
    "ignored",
    "Rows are identified by the same columns, whatever their order. Only buckets depend on it",
)
ARGUMENTS = Kind(
    "arguments of the write strategy changed",
    "validated from now on",
    f"Changes are applied by the new arguments from now on. {_LOADED}",
)
CODE = Kind(
    "code changed",
    "validated from now on",
    "The function, a check, a condition or an argument of the source is another one than windows were loaded by. "
    f"{_LOADED}",
    remedy="to load them again: incload load {table} --outdated",
)
NEW_TABLE = Kind("table added", "applied", "The first load creates the table and its log")
NO_TABLE = Kind(
    "table removed",
    "ignored",
    "The table and its log stay in the lake; nothing loads them",
)
KINDS = (
    *STORED_KINDS, RENAMED, LOOSENED, TIGHTENED, CHECKS, UNIQUE, PERSONAL, SEQUENCE, KEY_ORDER, ARGUMENTS, CODE,
    NEW_TABLE, NO_TABLE,
)  # fmt: skip
"""All kinds of differences."""


def differences(has: TableContract | None, declared: TableContract | None) -> list[Difference]:
    """The differences between two contracts of a table; those that stop a load are first.

    Args:
        has: The contract by which the table was loaded; None: there was no such table.
        declared: The contract that is declared now; None: the table is not declared any more.

    Example:
        >>> [found.kind.name for found in differences(None, orders)]  # doctest: +SKIP
        ['table added']
    """
    if has is None or declared is None:
        kind = NEW_TABLE if has is None else NO_TABLE
        return [] if has is declared else [Difference(kind)]
    of = {"whole": declared.whole, "unset": declared.unset}
    stored = list(stored_differences(has.stored, declared.stored, **of, adaptation=declared.adaptation))
    return [*stored, *renamed(stored), *_of_columns(has, declared), *_of_rows(has, declared)]


def renamed(found: Sequence[Difference]) -> Iterator[Difference]:
    """Hints at columns that may have been renamed: the only dropped and the only added one of a type."""
    dropped, added = ([one for one in found if one.kind in kinds] for kinds in ((DROPPED,), (ADDED, ADDED_UNSET)))
    for old in dropped:
        same = [one for one in added if one.now == old.was]
        if len(same) == 1 and [one.was for one in dropped].count(old.was) == 1:
            yield Difference(RENAMED, old.column, old.column, same[0].column)


def _of_columns(has: TableContract, declared: TableContract) -> Iterator[Difference]:
    before = {column.name: column for column in has.columns}
    for column in declared.columns:
        if (old := before.get(column.name)) is not None:
            yield from _of_column(old, column)


def _of_column(old: ColumnDescription, new: ColumnDescription) -> Iterator[Difference]:
    if old.nullable != new.nullable:
        kind = LOOSENED if new.nullable else TIGHTENED
        yield Difference(kind, new.name, _nullability(old), _nullability(new))
    if sorted(old.checks) != sorted(new.checks):
        yield Difference(CHECKS, new.name, _list(old.checks), _list(new.checks))
    if old.personal != new.personal:
        yield Difference(PERSONAL, new.name, _mask(old), _mask(new))


def _nullability(column: ColumnDescription) -> str:
    return "NULL allowed" if column.nullable else "NOT NULL"


_MASKS = {True: "personal", False: "not personal"}


def _mask(column: ColumnDescription) -> str:
    return f"personal, {column.personal}" if isinstance(column.personal, str) else _MASKS[column.personal]


def _of_rows(has: TableContract, declared: TableContract) -> Iterator[Difference]:
    if has.keys != declared.keys and set(has.keys) == set(declared.keys):
        yield Difference(KEY_ORDER, "", _list(has.keys), _list(declared.keys))
    if has.sequence_by != declared.sequence_by:
        yield Difference(SEQUENCE, "", _list(has.sequence_by), _list(declared.sequence_by))
    if set(has.unique) != set(declared.unique):
        yield Difference(UNIQUE, "", _list(has.unique), _list(declared.unique))
    same = has.write.partition("(")[0] == declared.write.partition("(")[0]
    if same and has.write != declared.write:
        yield Difference(ARGUMENTS, "", has.write, declared.write)


def _list(texts: Iterable[str]) -> str:
    return ", ".join(texts) or "none"


def put_together(of_table: Iterable[Difference], of_log: Iterable[Difference]) -> list[tuple[Difference, str]]:
    """The differences of a table and of its log, each once, with its place: ``table``, ``log`` or both."""
    places: dict[Difference, list[str]] = {}
    for one, place in chain(((one, "table") for one in of_table), ((one, "log") for one in of_log)):
        places.setdefault(one, []).append(place)
    found = [(one, " and ".join(where)) for one, where in places.items()]
    return sorted(found, key=lambda pair: not pair[0].stops)
