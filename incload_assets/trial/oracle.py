"""The oracle: what a table has to hold, in plain Python. Test cases and the tests of the write strategies use it."""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]
Key = tuple[Hashable, ...]
Age = Callable[[Row], Any]
"""Sorts the changes of a key from old to new."""


def fold(
    rows: Iterable[Row],
    keys: Sequence[str],
    sequence: Sequence[str],
    is_delete: Callable[[Row], bool],
    content_hash: Callable[[Row], Any],
) -> dict[Key, Row]:
    """The table that a set of changes makes: of each key the newest change, unless it deletes.

    Args:
        rows: Changes, in any order, with repetitions.
        keys: Columns that identify a row.
        sequence: Columns that order the changes of a key; NULL is older than any value.
        is_delete: Whether a change deletes; at an equal sequence a delete is the newer one.
        content_hash: Decides between different changes of equal sequence and kind; the greater one is the newer.

    Returns:
        The rows by key.

    Example:
        >>> changes = [{"id": 1, "at": 2, "v": "b"}, {"id": 1, "at": 1, "v": "a"}]
        >>> fold(changes, ["id"], ["at"], lambda row: False, lambda row: 0)
        {(1,): {'id': 1, 'at': 2, 'v': 'b'}}
    """

    def age(row: Row) -> Any:
        return (*by_sequence(row, sequence), is_delete(row))

    table = {key: last(changes, age, content_hash) for key, changes in grouped(rows, keys).items()}
    return {key: row for key, row in table.items() if not is_delete(row)}


def oldest(
    rows: Iterable[Row], identity: Sequence[str], sequence: Sequence[str], content_hash: Callable[[Row], Any]
) -> dict[Key, Row]:
    """The table of events: of each one the oldest content. Arguments as for :func:`fold`.

    Example:
        >>> events = [{"id": 1, "at": 2, "v": "b"}, {"id": 1, "at": 1, "v": "a"}]
        >>> oldest(events, ["id"], ["at"], lambda row: 0)
        {(1,): {'id': 1, 'at': 1, 'v': 'a'}}
    """
    groups = grouped(rows, identity)
    return {
        key: last(changes, lambda row: by_sequence(row, sequence), content_hash, pick=min)
        for key, changes in groups.items()
    }


def versions(
    rows: Iterable[Row],
    keys: Sequence[str],
    sequence: Sequence[str],
    tracked: Sequence[str],
    is_delete: Callable[[Row], bool],
    content_hash: Callable[[Row], Any],
) -> list[tuple[Row, Any, Any, bool]]:
    """The history that changes make: each version with its start, its end (None: none yet), and whether it is open.

    Arguments as for :func:`fold`; a version begins when one of the ``tracked`` columns changes, and after a delete.

    Example:
        >>> changes = [{"id": 1, "at": 1, "v": "a"}, {"id": 1, "at": 2, "v": "b"}]
        >>> [found[1:] for found in versions(changes, ["id"], ["at"], ["v"], lambda row: False, lambda row: 0)]
        [(1, 2, False), (2, None, True)]
    """
    first, found = sequence[0], []

    def age(row: Row) -> Any:
        return (*by_sequence(row, sequence), is_delete(row))

    for changes in grouped(rows, keys).values():
        instants = sorted(grouped(changes, [first]).values(), key=lambda of: by_sequence(of[0], [first]))
        version: tuple[Row, Any] | None = None
        for row in (last(of_instant, age, content_hash) for of_instant in instants):
            same = version is not None and all(version[0][name] == row[name] for name in tracked)
            if version is not None and (is_delete(row) or not same):
                found.append((*version, row[first], False))
                version = None
            if not is_delete(row):
                version = (row, row[first] if version is None else version[1])
        if version is not None:
            found.append((*version, None, True))
    return found


def beliefs(moments: Iterable[tuple[Any, Collection[Key]]]) -> set[tuple[Any, ...]]:
    """Each row that was known with the instant that it became known, and the one that ended it (None: none yet).

    Args:
        moments: Instants with the rows that were known from then on, in any order; of equal instants the last counts.

    Example:
        >>> sorted(beliefs([(1, {("a",)}), (2, {("a",), ("b",)}), (3, {("b",)})]), key=str)
        [('a', 1, 3), ('b', 2, None)]
    """
    found: set[tuple[Any, ...]] = set()
    held: dict[Key, Any] = {}
    for instant, rows in sorted(dict(moments).items()):
        found |= {(*row, since, instant) for row, since in held.items() if row not in rows}
        held = {row: held.get(row, instant) for row in rows}
    return found | {(*row, since, None) for row, since in held.items()}


def grouped(rows: Iterable[Row], keys: Sequence[str]) -> dict[Key, list[Row]]:
    """The rows by their values of some columns."""
    groups: dict[Key, list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in keys), []).append(row)
    return groups


def by_sequence(row: Row, sequence: Sequence[str]) -> tuple[Any, ...]:
    """The sequence of a change, such that NULL is the smallest."""
    return tuple((row[name] is not None, row[name] if row[name] is not None else 0) for name in sequence)


def last(changes: Sequence[Row], age: Age, content_hash: Callable[[Row], Any], pick: Callable[..., Any] = max) -> Row:
    """The newest change, or the oldest by ``min``; the hash is asked only about different changes of one age."""
    age_of_it = pick(map(age, changes))
    tied = [row for row in changes if age(row) == age_of_it]
    found: Row = tied[0] if all(row == tied[0] for row in tied) else pick(tied, key=content_hash)
    return found
