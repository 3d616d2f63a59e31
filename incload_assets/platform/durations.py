"""Lengths of time as people write them: ``30s``, ``30min``, ``2h``, ``3d`` or ``1w``."""

import re
from datetime import timedelta

_UNITS = {"s": "seconds", "min": "minutes", "h": "hours", "d": "days", "w": "weeks"}
PATTERN = rf"(\d+)\s*({'|'.join(_UNITS)})"
"""A regular expression of a length of time, in Python, JSON Schema and Java."""


def duration_of(text: str) -> timedelta | None:
    """The length of time that a text says; None if it says none. A length that is too long raises OverflowError.

    Example:
        >>> duration_of("2h")
        datetime.timedelta(seconds=7200)
    """
    found = re.fullmatch(PATTERN, text.strip())
    return None if found is None else timedelta(**{_UNITS[found[2]]: int(found[1])})


def text_of_duration(length: timedelta) -> str:
    """The text that says a length of whole seconds, in the largest unit that divides it.

    Example:
        >>> text_of_duration(timedelta(hours=36))
        '36h'
    """
    units = sorted(_UNITS, key=lambda unit: timedelta(**{_UNITS[unit]: 1}), reverse=True)
    unit = next((one for one in units if not length % timedelta(**{_UNITS[one]: 1})), "s")
    return f"{length // timedelta(**{_UNITS[unit]: 1})}{unit}"
