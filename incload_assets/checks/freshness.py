"""The check ``freshness``: whether the latest due window is loaded; see :mod:`incload_assets.progress.lateness`."""

import dagster as dg

from incload_assets.checks.kinds import LightCheck, not_at_all
from incload_assets.checks.observation import Observation, result
from incload_assets.platform.wording import spoken
from incload_assets.progress.lateness import Lateness, lateness_of
from incload_assets.progress.progress import WindowProgress

NAME = "freshness"
DESCRIPTION = "The latest due partition is loaded; an old backfill does not count, an idle source does."

_REMEDIES = {
    "failed": "its last load failed{cause}: see run {run}, then materialize it again",
    "in_progress": "a run is loading it now",
    "waiting": "the source holds nothing for it: ask its provider",
    "missing": "the source holds it, but no run has loaded it: check that the sensors are on, or materialize it",
    "drifted": "it was loaded before it ended, and the source has more of it now: materialize it again",
    "loaded": "materialize it again",
}


def freshness(look: Observation) -> dg.AssetCheckResult:
    """The check that the latest due window is loaded; ERROR if it is late, WARN if its loads are paused."""
    table = look.table
    late = lateness_of(look.instance, table, look.progress, look.now)
    metadata: dict[str, dg.MetadataValue] = {
        "overdue_seconds": dg.MetadataValue.float(late.overdue.total_seconds()),
        "verdict": dg.MetadataValue.text(late.verdict),
    }
    if late.window is not None and late.verdict == "late":
        why = (late.window.status, late.window.failure, late.window.failed_run)
        metadata["why"] = dg.MetadataValue.text(" ".join(filter(None, why)))
    if late.window is not None:
        metadata["latest_due_partition"] = dg.MetadataValue.text(late.window.key)
    if late.newest is not None:
        metadata["newest_loaded_partition"] = dg.MetadataValue.text(late.newest.key)
    if table.freshness is not None:
        metadata["within_seconds"] = dg.MetadataValue.float(table.freshness.within.total_seconds())
    severity, about = dg.AssetCheckSeverity.ERROR, _described(look, late)
    if look.pause is not None:
        severity, about = dg.AssetCheckSeverity.WARN, f"The table is {look.pause}. {about}"
    return result(look, NAME, late.verdict != "late", about, metadata, severity)


def _described(look: Observation, late: Lateness) -> str:
    assert look.table.freshness is not None
    within = spoken(look.table.freshness.within)
    if late.window is None:
        return f"No partition is due yet: the first one is due {within} after its end."
    if late.verdict == "fresh":
        return f"The latest due partition, {late.window.key}, is loaded."
    if late.verdict == "idle":
        return f"The source holds nothing for the latest due partition, {late.window.key}, which this table allows."
    newest = f"The newest loaded partition is {late.newest.key}." if late.newest else "Nothing was ever loaded."
    due = f"due {within} after its end, at {(look.now - late.overdue):%Y-%m-%d %H:%M} UTC"
    return (
        f"Partition {late.window.key} is overdue by {spoken(late.overdue)} ({due}). {newest} "
        f"What to do: {_todo(look, late.window)}."
    )


def _todo(look: Observation, window: WindowProgress) -> str:
    if look.pause is not None:
        return f"wait for the end of the pause, or end it with incload resume {look.table.name}"
    if look.trouble is not None and window.status == "waiting":
        return f"fix the source, which could not be checked ({look.trouble})"
    if window.is_forgotten:
        return f"the log has its load, and Dagster does not know it: incload rebuild {look.table.name}"
    cause = f" ({window.failure})" if window.failure else ""
    return _REMEDIES[window.status].format(cause=cause, run=window.failed_run or "history")


CHECK = LightCheck(
    name=NAME,
    description=DESCRIPTION,
    runbook="missed-updates",
    evaluate=freshness,
    applies_to=lambda table: table.freshness is not None,
    rough={"overdue_seconds": not_at_all, "latest_due_partition": not_at_all},  # the clock moves both
)
