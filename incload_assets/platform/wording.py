"""Words of messages: counts with their nouns, lists cut short, lengths of time."""

from collections.abc import Sequence
from datetime import timedelta


def spoken(length: timedelta) -> str:
    """A length of time in words, in its two largest units.

    Example:
        >>> spoken(timedelta(days=1, hours=2, minutes=3))
        '1 day 2 hours'
    """
    seconds = int(length.total_seconds())
    parts = []
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1)):
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(several(count, unit))
    return " ".join(parts[:2]) or "0 seconds"


def several(count: int, noun: str, plural: str = "") -> str:
    """A count with its noun.

    Args:
        count: The count.
        noun: The noun of one; a noun of several words ends with the one that gets the plural.
        plural: The noun of several; default: with an ``s``.

    Example:
        >>> several(1, "rejected row"), several(1200, "window"), several(2, "entry", "entries")
        ('1 rejected row', '1,200 windows', '2 entries')
    """
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def some(keys: Sequence[str], limit: int = 5) -> str:
    """The first keys, and how many more there are, as text."""
    more = f" and {len(keys) - limit} more" if len(keys) > limit else ""
    return ", ".join(keys[:limit]) + more


def place_of(file: str | None, block: int | None, row: int | None) -> str:
    """The place of a record at its source: a file's row, a topic's offset, or a table that was read as a whole.

    Args:
        file: The file, the topic partition, or the version of a table; None: unknown.
        block: The number of the topic partition, or the byte at which a block of the file begins.
        row: The number of the row or the offset; None: the source numbers no rows.

    Example:
        >>> place_of("a.csv", 0, 7), place_of("shop/orders/2", 2, 15), place_of("events@1", None, None)
        ('a.csv row 7', 'shop/orders/2 offset 15', 'events@1')
    """
    if file is None or row is None:
        return file or ""
    if block is not None and file.endswith(f"/{block}"):
        return f"{file} offset {row}"
    return f"{file} row {row}" + (f" in the block at byte {block}" if block else "")
