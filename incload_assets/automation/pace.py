"""How often a sensor looks at all of a source: so often that this takes a twentieth of its time.

News are in the newest partitions, nearly always; an older one has some where files come late or are written anew. So
between two looks at everything a sensor looks at the newest partitions alone. At an interval of 15 seconds this makes
no difference to a source that is looked at in less than one; where it has a hundred thousand files, to be listed page
by page, it is the difference between a sensor that does nothing else and one that costs little.
"""

import time

SHARE = 20
"""How many times as long as a look at everything took, the next one waits."""
NEWEST = 3
"""Partitions that each look is at."""


class Pace:
    """When one sensor is to look at everything; begins anew with its process."""

    def __init__(self) -> None:
        self._due = time.monotonic()

    def is_due(self) -> bool:
        """Whether a look at everything is due."""
        return time.monotonic() >= self._due

    def took(self, seconds: float) -> None:
        """Tell how long it took."""
        self._due = time.monotonic() + SHARE * seconds
