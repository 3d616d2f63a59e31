"""The check ``gaps``: due windows since the first loaded one that are not loaded."""

from datetime import timedelta

import dagster as dg

from incload_assets.checks.closed import late_for_closed
from incload_assets.checks.kinds import LightCheck, not_at_all
from incload_assets.checks.observation import Observation, records, result
from incload_assets.platform.wording import several, some
from incload_assets.progress.progress import WindowProgress

NAME = "gaps"
DESCRIPTION = (
    "Every due window since the first loaded one is loaded; failed windows are listed with their cause. Nothing came "
    "too late for a closed window of former partitions."
)

_WHY = {
    "missing": "the source holds it, but it was never loaded",
    "waiting": "it is over, and the source holds nothing for it",
}


def gaps(look: Observation) -> dg.AssetCheckResult:
    """The due windows that are not loaded; a window that a run is loading, or that is not due yet, is no gap."""
    first = next((place for place, w in enumerate(look.progress) if w.is_loaded or w.is_forgotten), None)
    failed = [w for w in look.progress if w.status == "failed"]
    holes = [] if first is None else [w for w in look.progress[first:] if _is_hole(look, w)]
    before = 0 if first is None else sum(w.status == "missing" for w in look.progress[:first])
    found = sorted([*failed, *holes], key=lambda window: window.window)
    late = late_for_closed(look.table, look.lake, look.records)
    metadata: dict[str, dg.MetadataValue] = {
        "gaps": dg.MetadataValue.int(len(holes)),
        "failed": dg.MetadataValue.int(len(failed)),
        "in_progress": dg.MetadataValue.int(sum(w.status == "in_progress" for w in look.progress)),
        "held_before_first_loaded": dg.MetadataValue.int(before),
    }
    if look.table.former_partitions:
        metadata["late_for_closed"] = dg.MetadataValue.int(len(late))
    if late:
        metadata["late"] = records(["window", "source"], late.items())
    if found:
        metadata["windows"] = records(
            ["window", "status", "why", "run"], ((w.key, w.status, _why(w), w.failed_run) for w in found)
        )
    described = _described(look, first, failed, holes, before)
    if late:
        described += (
            f" The source holds other data than was loaded for {several(len(late), 'closed window')} of the former "
            f"partitions: {some(list(late))}. What to do: deliver what is new in it again, for a present window; "
            "or, if it is in the table, remove it."
        )
    return result(look, NAME, not found and not late, described, metadata)


def _is_hole(look: Observation, window: WindowProgress) -> bool:
    within = look.table.freshness.within if look.table.freshness else timedelta(0)
    due = window.window.end + within <= look.now
    if window.is_forgotten:
        return True
    if window.status == "waiting":
        return due and look.table.source.absent == "wait" and look.trouble is None
    return due and window.status == "missing"


def _why(window: WindowProgress) -> str:
    if window.is_forgotten:
        return "the log has its load, and Dagster does not know it"
    return window.failure or "error" if window.status == "failed" else _WHY[window.status]


def _described(
    look: Observation, first: int | None, failed: list[WindowProgress], holes: list[WindowProgress], before: int
) -> str:
    parts = [f"The table is {look.pause}."] if look.pause and (failed or holes) else []
    if failed:
        causes = sorted({_why(w) for w in failed})
        parts.append(
            f"{several(len(failed), 'partition')} failed ({', '.join(causes)}): {some([w.key for w in failed])}. "
            "What to do: open the run, follow the remedy in its error, then materialize the partition again."
        )
    if holes:
        forgotten = [w.key for w in holes if w.is_forgotten]
        lost = [w.key for w in holes if w.status == "missing" and not w.is_forgotten]
        absent = [w.key for w in holes if w.status == "waiting" and not w.is_forgotten]
        if forgotten:
            count = several(len(forgotten), "window")
            parts.append(
                f"Dagster does not know the loads of {count} that the log has, as after a loss of its storage: "
                f"{some(forgotten)}. What to do: incload rebuild {look.table.name}."
            )
        if lost:
            count = several(len(lost), "window")
            parts.append(f"{count} at the source but not loaded: {some(lost)}. What to do: materialize them.")
        if absent:
            count = several(len(absent), "window")
            parts.append(
                f"{count} ended without data at the source: {some(absent)}. What to do: ask the provider of the data; "
                'if a window may be empty, declare absent="empty".'
            )
    if not parts:
        parts.append(
            "Nothing is loaded yet, so there are no gaps."
            if first is None
            else f"No gaps since {look.progress[first].key}, the first loaded partition."
        )
    if before:
        parts.append(f"The source also holds {several(before, 'window')} before the first loaded one.")
    if look.trouble is not None:
        parts.append(f"The source could not be checked: {look.trouble}")
    return " ".join(parts)


CHECK = LightCheck(
    name=NAME,
    description=DESCRIPTION,
    runbook="missed-updates",
    evaluate=gaps,
    rough={"in_progress": not_at_all},  # a load says itself what came of it
)
