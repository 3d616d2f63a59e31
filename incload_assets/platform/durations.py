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
