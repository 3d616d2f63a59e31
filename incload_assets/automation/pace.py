"""How often a sensor checks its whole source: as often as takes a twentieth of its time.

New data is nearly always in the newest partitions, and only these are checked between two full checks. This makes no
difference to a source that is checked in less than a second; for one with a hundred thousand files, listed page by
page, a sensor would do nothing else.
"""

import time

SHARE = 20
"""The wait until the next full check, as a multiple of the time the last one took."""
NEWEST = 3
"""Number of newest partitions that every check includes."""


class Pace:
    """The schedule of the full checks of one of several tables, which share the time; starts over with each process."""

    def __init__(self, tables: int = 1) -> None:
        self._due, self._tables = time.monotonic(), tables

    def is_due(self) -> bool:
        """True if a full check is due."""
        return time.monotonic() >= self._due

    def took(self, seconds: float) -> None:
        """Records how long a full check took."""
        self._due = time.monotonic() + SHARE * seconds * self._tables
