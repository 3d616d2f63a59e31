"""Random change streams, to hold a table against the oracle."""

from typing import Any

from hypothesis import strategies as st


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
