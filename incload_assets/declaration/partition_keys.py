"""Expressions that choose partitions: ``2026-01-01..2026-01-07,2026-01-10``."""

from collections.abc import Iterator, Sequence

from incload_assets.declaration.table import Table
from incload_assets.declaration.window import now
from incload_assets.platform.errors import IncrementalLoadError

RANGE = ".."


def chosen(table: Table, expression: str) -> list[str]:
    """The partition keys in an expression, oldest first, each once.

    The expression has keys and ranges (``A..B``, both included; ``A..`` and ``..B`` are open), separated by commas.

    Raises:
        IncrementalLoadError: The table lacks a key, or a range is empty.
    """
    keys = table.keys_at(now())
    if not keys:
        raise IncrementalLoadError(
            f"{table.name} has no partition yet", rule="a partition exists once it is due", remedy="wait for it"
        )
    places = {key: place for place, key in enumerate(keys)}
    found: set[int] = set()
    for part in filter(None, (part.strip() for part in expression.split(","))):
        first, is_range, last = part.partition(RANGE)
        start = _place(table, places, first.strip() or (keys[0] if is_range else ""))
        end = _place(table, places, last.strip() or keys[-1]) if is_range else start
        if end < start:
            raise IncrementalLoadError(
                f"{table.name}: the range {part} ends before it begins",
                rule="a range is OLDEST..NEWEST, both included",
                remedy=f"write {last.strip()}{RANGE}{first.strip()}",
            )
        found.update(range(start, end + 1))
    if not found:
        raise IncrementalLoadError(
            f"{table.name}: {expression!r} names no partition",
            rule="partitions are keys or ranges, separated by commas",
            remedy=f"write for example {keys[0]}{RANGE}{keys[-1]}",
        )
    return [keys[place] for place in sorted(found)]


def _place(table: Table, places: dict[str, int], key: str) -> int:
    if key in places:
        return places[key]
    if key in table.closed:
        raise table.is_closed([key])
    first, last = next(iter(places)), next(reversed(places))
    raise IncrementalLoadError(
        f"{table.name} has no partition {key!r}",
        rule=f"its partitions go from {first} to {last}",
        remedy="name one of these, or a range of them",
    )


def stretches(keys: Sequence[str], all_keys: Sequence[str], most: int) -> Iterator[list[str]]:
    """Partition keys grouped into stretches of at most so many adjacent keys; all given keys are oldest first.

    Example:
        >>> list(stretches(["a", "b", "d"], ["a", "b", "c", "d"], 32))
        [['a', 'b'], ['d']]
    """
    places = {key: place for place, key in enumerate(all_keys)}
    stretch: list[str] = []
    for key in keys:
        if stretch and (len(stretch) == most or places.get(key, -1) != places.get(stretch[-1], -3) + 1):
            yield stretch
            stretch = []
        stretch.append(key)
    if stretch:
        yield stretch


def shown(keys: Sequence[str], all_keys: Sequence[str]) -> str:
    """Partition keys in short form, with stretches of adjacent keys as ranges: ``a..b, d``."""
    places = {key: place for place, key in enumerate(all_keys)}
    ordered = sorted(keys, key=lambda key: places.get(key, -1))
    found = stretches(ordered, all_keys, len(ordered))
    return ", ".join(run[0] if len(run) == 1 else f"{run[0]}{RANGE}{run[-1]}" for run in found)
