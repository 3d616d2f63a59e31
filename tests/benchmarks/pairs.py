"""Two ways of doing the same, side by side: a ratio and its spread, never a bare time.

The two run in turn, A B A B …, so that a machine that becomes slower becomes slower for both.
"""

import statistics
import time
from collections.abc import Callable


def compare(name: str, a: Callable[[int], object], b: Callable[[int], object], *, pairs: int, warm_up: int = 2) -> None:
    """Run both in turn and print the ratio A/B.

    Args:
        name: What is compared.
        a: Called with the number of the round.
        b: The same for the other way.
        pairs: Rounds that count.
        warm_up: Rounds before that do not.
    """
    ratios = []
    for number in range(warm_up + pairs):
        first, second = _seconds(a, number), _seconds(b, number)
        if number >= warm_up:
            ratios.append(first / second)
    low, high = min(ratios), max(ratios)
    print(f"{name}: {statistics.median(ratios):.2f} (from {low:.2f} to {high:.2f}, {pairs} pairs)", flush=True)


def _seconds(function: Callable[[int], object], number: int) -> float:
    start = time.perf_counter()
    function(number)
    return time.perf_counter() - start
