"""A plan of loads as lines for people."""

from collections.abc import Iterator

from incload_assets.platform.wording import several, size, some
from incload_assets.what_if.planned import CHANGES, NOTHING, Plan, Sample, WindowPlan

ALONE = "each planned alone, against the table as it is now"
_COUNTS = (
    *("inserted", "updated", "deleted", "unchanged", "stale", "duplicate", "waiting"),
    *("quarantined", "skipped", "erased"),
)


def counts_of(window: WindowPlan) -> str:
    """The effect of the load of a window, in one line.

    Example:
        >>> counts_of(WindowPlan("2026-01-03", again=True))
        'nothing to do'
    """
    if window.error:
        return f"the load would stop: {window.error}"
    counts = ", ".join(f"{getattr(window, name)} {name}" for name in _COUNTS if getattr(window, name))
    if window.outcome == NOTHING:
        return f"{NOTHING}{f' ({counts})' if counts else ''}"
    rewritten = f"; rewrites at most {several(window.files, 'file')}, {size(window.bytes)}" if window.files else ""
    return f"{window.rows_read} read: {counts or 'no row changes'}{rewritten}"


def notes_of(window: WindowPlan) -> Iterator[str]:
    """The consequences of the load of a window, one line each."""
    if window.moved:
        keys = "key has its row" if window.moved == 1 else "keys have their rows"
        yield f"{window.moved} {keys} in another partition of the table"
    if window.moved is None:
        yield "keys that change partition are not counted, because the table is large"
    for follower in window.followers:
        if follower.windows is None:
            yield f"{follower.table} follows: its partitions that refer to the changed rows"
        elif follower.windows:
            yield f"{follower.table} follows: {some(follower.windows)}"
    for sample in window.samples:
        yield _shown(sample)


def _shown(sample: Sample) -> str:
    key = ", ".join(f"{name} {value}" for name, value in sample.key.items())
    changed = ", ".join(
        name
        if old is None and new is None
        else f"{name} {'NULL' if old is None else old} → {'NULL' if new is None else new}"
        for name, (old, new) in sample.changed.items()
    )
    return f"{key or 'a row'}: {changed}"


def pace_of(plan: Plan) -> str:
    """How long the loads would take; empty if there is nothing to load, or no load in the past."""
    loads = sum(1 for window in plan.windows if window.outcome == CHANGES)
    if plan.pace is None or not loads:
        return ""
    pace = plan.pace
    past = several(pace.loads, "load")
    return (
        f"a load of {plan.table} took {pace.median:.1f} s ({pace.low:.1f} to {pace.high:.1f} s, {past}); "
        f"{'this one' if loads == 1 else f'these {loads}'}: about {loads * pace.median:.0f} s "
        f"({loads * pace.low:.0f} to {loads * pace.high:.0f} s)"
    )
