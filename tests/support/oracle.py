"""The oracle: what a table has to hold, in plain Python, and random change streams to hold it against."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

Row = Mapping[str, Any]


def fold(
    rows: Iterable[Row],
    keys: Sequence[str],
    sequence: Sequence[str],
    is_delete: Callable[[Row], bool],
    content_hash: Callable[[Row], Any],
) -> dict[tuple[Hashable, ...], Row]:
    """The table that a set of changes makes: sort, fold.

    Args:
        rows: Changes, in any order, with repetitions.
        keys: Columns that identify a row.
        sequence: Columns that order the changes of a key; NULL is older than any value.
        is_delete: Whether a change deletes; at an equal sequence a delete is the newer one.
        content_hash: Decides between changes of equal sequence and kind; the greater one is the newer.

    Returns:
        The rows by key.

    Example:
        >>> changes = [{"id": 1, "at": 2, "v": "b"}, {"id": 1, "at": 1, "v": "a"}]
        >>> fold(changes, ["id"], ["at"], lambda row: False, lambda row: 0)
        {(1,): {'id': 1, 'at': 2, 'v': 'b'}}
    """

    def age(row: Row) -> tuple[Any, ...]:
        nulls_first = tuple((row[name] is not None, row[name] if row[name] is not None else 0) for name in sequence)
        return (*nulls_first, is_delete(row), content_hash(row))

    table: dict[tuple[Hashable, ...], Row] = {}
    for row in sorted(rows, key=age):
        key = tuple(row[name] for name in keys)
        table.pop(key, None)
        if not is_delete(row):
            table[key] = row
    return table


def change_streams(
    *,
    key_count: int = 3,
    sequences: st.SearchStrategy[Any] | None = None,
    max_batches: int = 4,
    max_rows: int = 6,
    deletes: bool = True,
    null_sequences: bool = True,
) -> st.SearchStrategy[list[list[dict[str, Any]]]]:
    """Random batches of changes with the columns ``id``, ``at``, ``value`` and ``op`` (``u`` or ``d``).

    Few keys and few sequence values make what matters frequent: ties with equal and with different content, deletes
    older and newer than the row, NULL sequences, changes repeated within a batch and across batches, empty batches.

    Args:
        key_count: Keys are 1 to this.
        sequences: Values of ``at`` other than NULL; default 0 to 4.
        max_batches: Longest stream.
        max_rows: Most rows of a batch, before repetitions.
        deletes: Whether ``op`` may be ``d``.
        null_sequences: Whether ``at`` may be NULL.
    """
    at = st.integers(0, 4) if sequences is None else sequences
    change = st.fixed_dictionaries(
        {
            "id": st.integers(1, key_count),
            "at": st.none() | at if null_sequences else at,
            "value": st.sampled_from(["", "a", "b"]) | st.none(),
            "op": st.sampled_from(["u", "u", "d"]) if deletes else st.just("u"),
        }
    )

    @st.composite
    def streams(draw: st.DrawFn) -> list[list[dict[str, Any]]]:
        stream: list[list[dict[str, Any]]] = []
        for _ in range(draw(st.integers(1, max_batches))):
            seen = [row for batch in stream for row in batch]
            rows = draw(st.lists(change, max_size=max_rows))
            again = st.sampled_from(seen + rows) if seen + rows else st.nothing()
            repeated = draw(st.lists(again, max_size=2)) if seen + rows else []
            stream.append(draw(st.permutations(rows + [dict(row) for row in repeated])))
        return stream

    return streams()
