"""Runs whose process is gone.

Dagster's default launcher notices a run that dies while its code server is alive. When both die at once (the machine
restarts, the server is killed), the run stays STARTED forever: it keeps its pool's slot, and its partitions stay in
progress.
"""

from typing import Any

import dagster as dg

from incload_assets.platform.dagster_private import DefaultRunLauncher
from incload_assets.progress.process import gone, lives
from incload_assets.progress.run_tags import PROCESS_TAG, own_tag

INTERVAL_SECONDS = 30
LOCATION_TAG = "dagster/code_location"


def fail_orphans(instance: dg.DagsterInstance, location: str | None = None) -> list[str]:
    """Reports runs as failed if their process on this machine is gone, and frees their pools' slots.

    Runs on other machines are left to Dagster's ``max_runtime_seconds``, runs that never started to its
    ``start_timeout_seconds``.

    Args:
        instance: The instance with the runs.
        location: Name of a code location. Its runs that died before they could record their process are checked by the
            process id in their log; pass it only on the machine where they are launched.

    Returns:
        The ids of the runs.
    """
    statuses = [dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING]
    failed = []
    for run in instance.get_runs(dg.RunsFilter(statuses=statuses)):
        why = gone(mark) if (mark := own_tag(run, PROCESS_TAG)) else _gone_by_log(instance, run, location)
        current = instance.get_run_by_id(run.run_id)
        if why is None or current is None or current.is_finished:  # it may have ended in the meantime
            continue
        instance.report_run_failed(current, f"{why} The run is over; its partitions will be requested again.")
        instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
        failed.append(run.run_id)
    return failed


@dg.sensor(
    name="orphaned_runs",
    minimum_interval_seconds=INTERVAL_SECONDS,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Fails runs whose process is gone, so that their partitions are requested again and pools are freed.",
)
def orphaned_runs(context: dg.SensorEvaluationContext) -> dg.SkipReason:
    """Fails runs that can no longer end by themselves."""
    location = None
    if context.code_location_origin and isinstance(context.instance.run_launcher, DefaultRunLauncher):
        location = context.code_location_origin.location_name
    failed = fail_orphans(context.instance, location)
    if failed:
        return dg.SkipReason(f"Failed because their process is gone: {', '.join(failed)}")
    return dg.SkipReason("The process of every run under way is alive.")


def _gone_by_log(instance: dg.DagsterInstance, run: dg.DagsterRun, location: str | None) -> str | None:
    if location is None or run.tags.get(LOCATION_TAG) != location:
        return None
    for entry in instance.all_logs(run.run_id, of_type=dg.DagsterEventType.ENGINE_EVENT):
        found: Any = entry.dagster_event.engine_event_data.metadata.get("pid") if entry.dagster_event else None
        if found is not None and not lives(int(found.value), before=entry.timestamp):
            return f"Process {found.value} is gone."
    return None
