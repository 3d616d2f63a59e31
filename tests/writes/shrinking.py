"""Delta debugging: leave out of something that fails all that it fails without, within limits."""

from collections.abc import Callable, Sequence
from time import monotonic
from typing import TypeVar

Part = TypeVar("Part")


class Trials:
    """Trials of candidates, as long as there is time for them.

    Args:
        most: How many.
        seconds: How long.
    """

    def __init__(self, most: int, seconds: float) -> None:
        self.made, self._most, self._seconds, self._start = 0, most, seconds, monotonic()

    @property
    def seconds(self) -> float:
        """How long it has been."""
        return monotonic() - self._start

    @property
    def are_over(self) -> bool:
        """Whether there is no time for another one."""
        return self.made >= self._most or self.seconds >= self._seconds

    def fails(self, trial: Callable[[], bool]) -> bool:
        """What a trial says, or False if there is no time for it."""
        if self.are_over:
            return False
        self.made += 1
        return trial()


def shrunk(parts: Sequence[Part], fails: Callable[[list[Part]], bool]) -> list[Part]:
    """A subset of parts that fails, too; if there was time enough, it fails without none of them.

    Args:
        parts: That fail.
        fails: Whether some of them do.

    Example:
        >>> shrunk(range(9), lambda some: {2, 7} <= set(some))
        [2, 7]
    """
    left, size = list(parts), max(1, len(parts) // 2)
    while True:
        before, place = len(left), 0
        while place < len(left):
            fewer = left[:place] + left[place + size :]
            if fails(fewer):
                left = fewer
            else:
                place += size
        if size == 1 and len(left) == before:
            return left
        if size > 1:
            size //= 2
