"""The check ``volume``: whether the latest windows have about as many rows as similar windows.

A window is compared with similar windows (same weekday, same time of day) by median and median absolute deviation,
which one odd day does not move. The limit of 3.5 modified z-scores is from B. Iglewicz and D. Hoaglin, *How to Detect
and Handle Outliers* (1993). A minimum tolerance prevents false alarms on small or very regular tables: half the median,
three standard deviations of a Poisson count, or ten rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from math import sqrt
from statistics import median

import dagster as dg

from incload_assets.checks.kinds import LightCheck
from incload_assets.checks.observation import Observation, records, result
from incload_assets.declaration.window import Window
from incload_assets.platform.wording import several

NAME = "volume"
DESCRIPTION = "The latest closed windows have about as many rows as similar windows (same weekday) before them."

COMPARED = 3
MIN_HISTORY = 7
MIN_ALIKE = 4
HISTORY = timedelta(weeks=8)
MAX_Z = 3.5
MAD_TO_SIGMA = 1.4826
MIN_SLACK = 10
DAY = timedelta(days=1)


@dataclass(frozen=True)
class Expected:
    """The number of rows that a window should have: inclusive bounds, the median, and a description of the history."""

    low: float
    high: float
    typical: float
    basis: str


def volume(look: Observation) -> dg.AssetCheckResult:
    """The check that the latest closed windows have the usual size; passes while there is too little history."""
    sizes = _sizes(look)
    compared, odd = [], []
    for number in range(max(MIN_HISTORY, len(sizes) - COMPARED), len(sizes)):
        window, rows = sizes[number]
        expected = expected_rows(window, sizes[:number])
        if expected is None:
            continue
        verdict = "too few" if rows < expected.low else "too many" if rows > expected.high else "usual"
        compared.append((window.key, rows, round(expected.low), round(expected.high), verdict, expected.basis))
        if verdict != "usual":
            odd.append((window, rows, expected))
    metadata: dict[str, dg.MetadataValue] = {
        "windows_known": dg.MetadataValue.int(len(sizes)),
        "windows_compared": dg.MetadataValue.int(len(compared)),
        "unusual": dg.MetadataValue.int(len(odd)),
    }
    if not compared:
        known = several(len(sizes), "closed window")
        note = f"Too little history for a comparison: {known} loaded, {MIN_HISTORY + 1} are needed."
        return result(look, NAME, True, note, metadata)
    metadata["latest_rows"] = dg.MetadataValue.int(sizes[-1][1])
    metadata["windows"] = records(["window", "rows", "at least", "at most", "verdict", "compared with"], compared)
    if not odd:
        return result(look, NAME, True, f"The latest {several(len(compared), 'window')} have the usual size.", metadata)
    lines = [
        f"{window.key} has {several(rows, 'row')}; usual are {round(e.low):,} to {round(e.high):,} "
        f"(typically {round(e.typical):,}, {e.basis})"
        for window, rows, e in odd
    ]
    remedy = "What to do: ask the source's owner whether this is real; replace a file that was truncated or sent twice."
    return result(look, NAME, False, f"{'. '.join(lines)}. {remedy}", metadata)


def expected_rows(window: Window, history: Sequence[tuple[Window, int]]) -> Expected | None:
    """The number of rows a window should have by similar earlier ones (oldest first); None if these are too few."""
    length = window.end - window.start
    recent = [(w, rows) for w, rows in history if w.start >= window.start - max(HISTORY, 24 * length)]
    if len(recent) < MIN_HISTORY:
        return None
    for basis, alike in _likenesses(window, recent, length):
        if len(alike) >= MIN_ALIKE:
            low, high, typical = _bounds(alike)
            return Expected(low, high, typical, basis)
    every = [rows for _, rows in recent]
    low, high, typical = _bounds(every)
    # Without enough similar windows, a usual low Sunday and an unusual low Monday cannot be distinguished: every size
    # that occurred before is usual.
    return Expected(min(low, min(every) / 2), max(high, max(every) * 2), typical, f"{len(every)} latest windows")


def _likenesses(window: Window, recent: Sequence[tuple[Window, int]], length: timedelta) -> list[tuple[str, list[int]]]:
    if length > DAY:
        return []
    weekday, time = window.local_start.weekday(), window.local_start.time()
    same_day = [(w, rows) for w, rows in recent if w.local_start.weekday() == weekday]
    name = f"{window.local_start:%A}s"
    if length == DAY:
        return [(f"{len(same_day)} {name} before", [rows for _, rows in same_day])]
    same_time = [rows for w, rows in same_day if w.local_start.time() == time]
    any_day = [rows for w, rows in recent if w.local_start.time() == time]
    return [(f"{len(same_time)} {name} at {time:%H:%M}", same_time), (f"{len(any_day)} days at {time:%H:%M}", any_day)]


def _bounds(sizes: Sequence[int]) -> tuple[float, float, float]:
    middle = median(sizes)
    spread = MAD_TO_SIGMA * median(abs(size - middle) for size in sizes)
    slack = max(MAX_Z * spread, middle / 2, 3 * sqrt(middle), MIN_SLACK)
    return max(0.0, middle - slack), middle + slack, middle


def _sizes(look: Observation) -> list[tuple[Window, int]]:
    """The closed windows whose whole content was ingested, with their numbers of rows, oldest first."""
    sizes = []
    for progress in look.progress:
        record = look.records.get(progress.key)
        if record is None or progress.window.end > look.now:
            continue
        if progress.position is not None and progress.position.fingerprint != record.fingerprint:
            continue  # will be loaded again; a window that was ingested while it was open looks small
        sizes.append((progress.window, record.rows_read))
    return sizes


CHECK = LightCheck(
    name=NAME,
    description=DESCRIPTION,
    runbook="missed-updates",
    evaluate=volume,
)
