"""Values of ranges in the words that all databases share.

A time is in microseconds since 1970.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def micros(instant: datetime) -> int:
    """An instant as a value of a range."""
    return (instant - _EPOCH) // timedelta(microseconds=1)


def moment(value: int) -> str:
    """The inverse of :func:`micros`, as text in UTC: ``2026-01-01 00:00:00.000000``."""
    return (_EPOCH + timedelta(microseconds=value)).replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")


def reached(value: str, bounds: Sequence[str]) -> str:
    """SQL of the number of ascending bounds that a value has reached, 0 for NULL: a tree of conditions."""

    def among(least: int, most: int) -> str:
        if least == most:
            return str(least)
        middle = (least + most) // 2
        below, above = among(least, middle), among(middle + 1, most)
        return f"CASE WHEN {value} < {bounds[middle]} THEN {below} ELSE {above} END"

    return f"CASE WHEN {value} IS NULL THEN 0 ELSE {among(0, len(bounds))} END"


def instant_of(epoch: float | None) -> datetime | None:
    """The instant of seconds since 1970; None of None."""
    return None if epoch is None else datetime.fromtimestamp(epoch, UTC)
