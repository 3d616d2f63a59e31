"""Values of ranges, and texts, in the words that all databases share.

A time is in microseconds since 1970.
"""

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def micros(instant: datetime) -> int:
    """An instant as a value of a range."""
    return (instant - _EPOCH) // timedelta(microseconds=1)


def moment(value: int) -> str:
    """The inverse of :func:`micros`, as text in UTC: ``2026-01-01 00:00:00.000000``."""
    return (_EPOCH + timedelta(microseconds=value)).replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")


def string(text: str) -> str:
    """SQL of a text where a backslash is a character as any other."""
    return "'" + text.replace("'", "''") + "'"
