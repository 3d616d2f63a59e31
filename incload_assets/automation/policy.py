"""The decision which partitions a sensor requests now, and which are retried later or wait for a person."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import inf

from incload_assets.automation.attempts import Attempt, Outcome
from incload_assets.automation.repairs import is_repair
from incload_assets.load.pending import is_pending
from incload_assets.load.range_fences import WINDOWS_AT_ONCE
from incload_assets.progress.progress import WindowProgress

DELAYS = (timedelta(minutes=1), timedelta(minutes=5), timedelta(minutes=15), timedelta(hours=1))
"""Delays from the end of a failed attempt to the next; the last delay applies to all further attempts."""

MOST_ATTEMPTS: Mapping[Outcome, int] = {"contract": 1, "error": 5, "loaded": 2}
"""Most attempts at one position with one code version before a person is needed; other outcomes have no limit."""

RIGHT_AFTER = timedelta(days=1)
"""A window that differs again this soon after a load was not fixed by it; later, something else has happened."""


@dataclass(frozen=True, kw_only=True)
class Ask:
    """One partition to load, at the source's present position."""

    partition: str
    fingerprint: str
    number: int = 1
    after: str = ""


@dataclass(frozen=True)
class Decision:
    """The decision about pending windows: what to load now (oldest first), when to retry, why others are stopped."""

    asks: list[Ask] = field(default_factory=list)
    later: dict[str, datetime] = field(default_factory=dict)
    stopped: dict[str, str] = field(default_factory=dict)


def plan(
    progress: Sequence[WindowProgress],
    attempt_at: Callable[[WindowProgress], Attempt | None],
    code_version: str,
    now: datetime,
    limit: int = WINDOWS_AT_ONCE,
) -> Decision:
    """Decides about each window that is not loaded.

    - A window that was not tried at its present position with the present code is requested at once.
    - A failed attempt is repeated after a growing delay, unless only a person can help. If the source has changed, the
      first retry is immediate (the change may be the fix), and only this one (the source may change all the time).
    - A window that was repaired and is found wrong again waits for a person.
    - A window that was loaded and differs at the same position is loaded again, twice in a day; then it waits.
    - A cancelled load is repeated after the longest delay, so that it leaves no gap.
    """
    result = Decision()
    for window in progress:
        if len(result.asks) == limit:
            break
        if not is_pending(window) or window.position is None:
            continue
        attempt, fingerprint = attempt_at(window), window.position.fingerprint
        if attempt is None:
            result.asks.append(Ask(partition=window.key, fingerprint=fingerprint))
            continue
        repaired = is_repair(attempt.fingerprint)
        if repaired and is_repair(fingerprint) and attempt.fingerprint != fingerprint:
            result.stopped[window.key] = f"wrong again after a repair, run {attempt.run_id[:8]}"
            continue
        known = (None, fingerprint, attempt.fingerprint if repaired and attempt.outcome != "loaded" else None)
        moved, other_code = attempt.fingerprint not in known, attempt.code_version not in (None, code_version)
        if other_code or (moved and not _goes_on(attempt)):
            result.asks.append(Ask(partition=window.key, fingerprint=fingerprint, after=attempt.run_id))
            continue
        if attempt.outcome == "loaded" and attempt.fingerprint is None:
            # Loaded by hand: the position of that load is its checkpoint, and the window has drifted from it.
            result.asks.append(Ask(partition=window.key, fingerprint=fingerprint, after=attempt.run_id))
            continue
        is_new = attempt.outcome == "loaded" and now >= attempt.ended + RIGHT_AFTER
        number = 1 if is_new else attempt.number + 1
        if number > MOST_ATTEMPTS.get(attempt.outcome, number):
            result.stopped[window.key] = f"{_REASONS[attempt.outcome]}, run {attempt.run_id[:8]}"
        elif now < (due := attempt.ended + _delay(attempt, moved=moved)):
            result.later[window.key] = due
        else:
            result.asks.append(Ask(partition=window.key, fingerprint=fingerprint, number=number, after=attempt.run_id))
    return result


def _goes_on(attempt: Attempt) -> bool:
    """True if attempts at later positions continue the count of this one."""
    return attempt.outcome in ("transient", "error") and 0 < attempt.number < MOST_ATTEMPTS.get(attempt.outcome, inf)


def _delay(attempt: Attempt, *, moved: bool) -> timedelta:
    if attempt.outcome == "cancelled":
        return DELAYS[-1]
    delays = (timedelta(0), *DELAYS) if moved else DELAYS
    return delays[min(max(attempt.number, 1), len(delays)) - 1]


_REASONS: Mapping[Outcome, str] = {
    "contract": "too many rows break the contract",
    "error": f"failed {MOST_ATTEMPTS['error']} times",
    "loaded": "differs from its source again after it was loaded twice",
}
