"""Words of messages and pages: counts with their nouns, lists cut short, lengths of time, sizes, shares."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import humanize

_LENGTHS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


def spoken(length: timedelta) -> str:
    """A length of time in words, in its two largest units: ``1 day 2 hours``."""
    seconds = int(length.total_seconds())
    parts = []
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1)):
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(several(count, unit))
    return " ".join(parts[:2]) or "0 seconds"


def several(count: int, noun: str, plural: str = "") -> str:
    """A count with its noun: ``1 rejected row``, ``1,200 windows``; the plural has an ``s`` unless it is given."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def some(keys: Sequence[str], limit: int = 5) -> str:
    """The first keys, and how many more there are, as text."""
    more = f" and {len(keys) - limit} more" if len(keys) > limit else ""
    return ", ".join(keys[:limit]) + more


def place_of(file: str | None, block: int | None, row: int | None) -> str:
    """The place of a record at its source: a file's row, a topic's offset, or a table that was read as a whole.

    ``file`` may be a topic partition, whose number is ``block``, or the version of a table. Without a ``row``, the
    source numbers no rows.
    """
    if file is None or row is None:
        return file or ""
    if block is not None and file.endswith(f"/{block}"):
        return f"{file} offset {row}"
    return f"{file} row {row}" + (f" in the block at byte {block}" if block else "")


def length(seconds: float) -> str:
    """A length of time in its two largest units, short; a fraction only below ten seconds.

    Example:
        >>> length(125), length(5.25), length(0.35), length(93_600)
        ('2 min 5 s', '5.2 s', '350 ms', '1 d 2 h')
    """
    if seconds < 0:
        return f"−{length(-seconds)}"
    if 0 < seconds < 0.95:
        return f"{max(round(seconds * 1000), 1)} ms"
    if seconds < 9.95:
        return f"{round(seconds, 1):g} s"
    counts, left = [], round(seconds)
    for name, whole in _LENGTHS:
        count, left = divmod(left, whole)
        counts.append((count, name))
    first = next(n for n, (count, _) in enumerate(counts) if count)
    return " ".join(f"{count} {name}" for count, name in counts[first : first + 2] if count)


def ago(then: datetime, at: datetime) -> str:
    """The time from an instant until another one, in its largest unit.

    Example:
        >>> noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
        >>> ago(noon - timedelta(minutes=5), noon), ago(noon, noon), ago(noon + timedelta(days=1), noon)
        ('5 min ago', 'now', 'in 24 h')
    """
    seconds = (at - then).total_seconds()
    if abs(seconds) < 1:
        return "now"
    text = largest(abs(seconds))
    return f"in {text}" if seconds < 0 else f"{text} ago"


def largest(seconds: float) -> str:
    """A length of time in the largest unit that it has two of, for example ``90 min`` or ``24 h``."""
    return next(f"{int(seconds // whole)} {name}" for name, whole in _LENGTHS if seconds >= 2 * whole or whole == 1)


def instant(then: datetime) -> str:
    """An instant in UTC to the second, for example ``2026-01-05 18:05:31``."""
    return f"{then.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def size(count: float) -> str:
    """A size in bytes in powers of ten, with three digits.

    Example:
        >>> size(1_234_567), size(999)
        ('1.23 MB', '999 Bytes')
    """
    return humanize.naturalsize(count, format="%.3g")


def number(value: float) -> str:
    """A number with no more digits than matter.

    Example:
        >>> number(12_345), number(1_234_567), number(0.0371)
        ('12,345', '1.23 M', '0.0371')
    """
    if not math.isfinite(value):
        return "unknown" if math.isnan(value) else "unlimited"
    if abs(value) >= 1e6:
        return humanize.metric(value)
    if value == int(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 0.001 else f"{value:.1e}"


def share(value: float) -> str:
    """A share in percent; near 0 and 100 % with more digits.

    Example:
        >>> share(0.37), share(0.9677), share(0.9995), share(0.0042)
        ('37 %', '96.8 %', '99.95 %', '0.42 %')
    """
    percent = 100 * value
    digits = 1 if 1 <= percent < 99.9 or percent in (0, 100) else 3
    return f"{f'{percent:,.{digits}f}'.rstrip('0').rstrip('.')} %"
