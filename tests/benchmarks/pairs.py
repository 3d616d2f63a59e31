"""Two ways of doing the same, side by side: a ratio and its spread, never a bare time.

The two run in turn, A B A B …, so that a machine that becomes slower becomes slower for both.
"""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Comparison:
    """How two ways compared.

    Args:
        name: What is compared, A / B.
        ratios: A/B of each pair, in the order in which they ran; at least one.
        bound: What the median should not exceed; None: nothing is asked.
        sizes: Rows, files and so on that were used.
        note: What else there is to tell.
        measured: When, as ISO 8601 has it; empty: just now.
        share: Share of the ratios that the bound is asked of: half of them for a median.
        busy: Whether others kept the machine busy when the row began.
    """

    name: str
    ratios: tuple[float, ...]
    bound: float | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    note: str = ""
    measured: str = ""
    share: float = 0.5
    busy: bool = False

    @property
    def median(self) -> float:
        """The ratio in the middle."""
        return statistics.median(self.ratios)

    @property
    def low(self) -> float:
        """The smallest ratio."""
        return min(self.ratios)

    @property
    def high(self) -> float:
        """The largest ratio."""
        return max(self.ratios)

    @property
    def met(self) -> bool | None:
        """Whether the median, or the share that is asked for, keeps the bound; None if there is none."""
        if self.bound is None:
            return None
        if self.share == 0.5:
            return self.median <= self.bound
        return sum(ratio <= self.bound for ratio in self.ratios) >= self.share * len(self.ratios)

    def __str__(self) -> str:
        spread = f"{self.median:.2f} (from {self.low:.2f} to {self.high:.2f}, {len(self.ratios)} pairs)"
        return f"{self.name}: {spread}" + (f"; {self.note}" if self.note else "")


def compare(
    name: str,
    a: Callable[[int], object],
    b: Callable[[int], object],
    *,
    pairs: int,
    warm_up: int = 2,
    prepare: Callable[[int], object] = lambda _: None,
    between: Callable[[int], object] = lambda _: None,
    bound: float | None = None,
    sizes: Mapping[str, int] | None = None,
    weight: float = 1,
) -> Comparison:
    """Run both in turn and print the ratio A/B.

    Args:
        name: What is compared.
        a: Called with the number of the round, from 0.
        b: The same for the other way.
        pairs: Rounds that count.
        warm_up: Rounds before that do not.
        prepare: Called before each round, which does not count.
        between: Called between the two ways, which does not count.
        bound: As in :class:`Comparison`.
        sizes: Likewise.
        weight: Share of its job that b does.
    """
    ratios = []
    for number in range(warm_up + pairs):
        prepare(number)
        first = _seconds(a, number)
        between(number)
        second = _seconds(b, number)
        if number >= warm_up:
            ratios.append(weight * first / second)
    found = Comparison(name, tuple(ratios), bound, sizes or {})
    print(found, flush=True)
    return found


def _seconds(function: Callable[[int], object], number: int) -> float:
    start = time.perf_counter()
    function(number)
    return time.perf_counter() - start
