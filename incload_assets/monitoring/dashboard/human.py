"""Numbers as people read them: with their unit, and no more digits than matter."""

import math
from datetime import UTC, datetime, timedelta

from incload_assets.monitoring.panels import Unit

NARROW = "\N{NO-BREAK SPACE}"
LONG = 400
"""The number of characters of a record that are shown."""
_LENGTHS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
_SIZES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def shown(value: float, unit: Unit, at: datetime) -> str:
    """A value of a panel.

    Args:
        value: The number, in the unit.
        unit: As Grafana calls it; ``dateTimeFromNow`` is in milliseconds since 1970.
        at: The present instant, aware.

    Example:
        >>> now = datetime(2026, 1, 1, tzinfo=UTC)
        >>> values = (125, "s"), (1_234_567, "bytes"), (0.371, "percentunit")
        >>> [shown(*each, now).replace(NARROW, " ") for each in values]
        ['2 min 5 s', '1.2 MB', '37 %']
    """
    if not math.isfinite(value):
        return "unknown" if math.isnan(value) else "unlimited"
    if unit == "s":
        return length(value)
    if unit == "bytes":
        return size(value)
    if unit == "percentunit":
        return share(value)
    if unit == "dateTimeFromNow":
        return ago(datetime.fromtimestamp(value / 1000, UTC), at)
    return number(value)


def number(value: float) -> str:
    """A number, for example ``12,345``, ``1.2 M`` or ``0.037``."""
    if abs(value) >= 1e6:
        return _scaled(value)
    if value == int(value):
        return f"{int(value):,}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 0.001 else f"{value:.1e}"


def share(value: float) -> str:
    """A share in percent, for example ``37 %`` or ``0.42 %``."""
    percent = value * 100
    digits = 0 if percent == 0 or abs(percent) >= 10 else 1 if abs(percent) >= 1 else 2
    return f"{percent:,.{digits}f}{NARROW}%"


def size(value: float) -> str:
    """A size in bytes, for example ``1.2 MB``."""
    return f"{_scaled(value)}B" if abs(value) >= 1000 else f"{value:,.0f}{NARROW}B"


def length(seconds: float) -> str:
    """A length of time in its two largest units, for example ``2 min 5 s``; a fraction only below ten seconds."""
    if seconds < 0:
        return f"−{length(-seconds)}"
    if seconds < 9.95:
        rounded = round(seconds, 1)
        if 0 < seconds < 0.95:
            return f"{max(round(seconds * 1000), 1)}{NARROW}ms"
        return f"{rounded:g}{NARROW}s"
    parts: list[str] = []
    left = round(seconds)
    for name, whole in _LENGTHS:
        count, left = divmod(left, whole)
        if count or parts:
            parts.append(f"{count}{NARROW}{name}" if count else "")
        if len(parts) == 2:
            break
    return " ".join(filter(None, parts))


def ago(then: datetime, at: datetime) -> str:
    """How long ago an instant was, in its largest unit, for example ``5 min ago``."""
    seconds = (at - then).total_seconds()
    if seconds < 0:
        return f"in {_largest(-seconds)}" if seconds <= -1 else "now"
    return f"{_largest(seconds)} ago" if seconds >= 1 else "now"


def instant(then: datetime) -> str:
    """An instant in UTC to the second, for example ``2026-01-05 18:05:31``."""
    return f"{then.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def cut(text: str) -> str:
    """A text without what is beyond its first :data:`LONG` characters."""
    return text if len(text) <= LONG else f"{text[:LONG]}…"


def over(time: timedelta) -> str:
    """A length of time in words, for example ``the last 14 days``."""
    hours = round(time.total_seconds() / 3600)
    if hours >= 48 and hours % 24 == 0:
        return f"the last {hours // 24} days"
    return f"the last {hours} hours" if hours > 1 else f"the last {max(round(time.total_seconds() / 60), 1)} minutes"


def _scaled(value: float) -> str:
    for number, prefix in _SIZES:
        if abs(value) >= number:
            scaled = value / number
            return f"{scaled:.{0 if abs(scaled) >= 100 else 1}f}{NARROW}{prefix}"
    return f"{value:.0f}{NARROW}"


def _largest(seconds: float) -> str:
    for name, whole in _LENGTHS:
        if seconds >= 2 * whole or whole == 1:
            return f"{int(seconds // whole)}{NARROW}{name}"
    return f"0{NARROW}s"
