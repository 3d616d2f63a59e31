"""Schedules that are on by default."""

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition  # has no public name


def schedule_of(job: dg.JobDefinition | UnresolvedAssetJobDefinition, cron: str) -> dg.ScheduleDefinition:
    """The schedule ``<job>_schedule``, in UTC.

    Args:
        job: What to run.
        cron: When.
    """
    return dg.ScheduleDefinition(
        name=f"{job.name}_schedule",
        job=job,
        cron_schedule=cron,
        execution_timezone="UTC",
        default_status=dg.DefaultScheduleStatus.RUNNING,
    )
