"""Removal of files that are no longer part of tables and logs, in Dagster: a job, and its schedule."""

from collections.abc import Sequence

import dagster as dg

from incload_assets.loading import window as windows
from incload_assets.loading.context import Context
from incload_assets.loading.declaration import Table
from incload_assets.loading.vacuum import vacuum
from incload_assets.operations.over_tables import job_over_tables
from incload_assets.operations.schedules import schedule_of

JOB_NAME, STEP_NAME = "vacuum_tables", "vacuum_each_table"
CRON = "50 2 * * *"

_SUNDAY = 6
"""The day on which all files are listed."""


def vacuum_job(tables: Sequence[Table]) -> dg.JobDefinition:
    """The job ``vacuum_tables``.

    Args:
        tables: All incremental tables.
    """
    return job_over_tables(
        tables,
        _vacuum,
        job_name=JOB_NAME,
        step_name=STEP_NAME,
        about="Removes the files that loads have replaced longer ago than the table's retention, of its log, too.",
        whose="tables",
        undone="not vacuumed",
    )


def vacuum_schedule(job: dg.JobDefinition) -> dg.ScheduleDefinition:
    """Every night, when small files have been put together."""
    return schedule_of(job, CRON)


def _vacuum(context: dg.OpExecutionContext, table: Table) -> dict[str, dg.MetadataValue]:
    everything = windows.now().weekday() == _SUNDAY
    with context.resources.spark.session(table.name) as spark:
        done = vacuum(Context(spark, table, context.resources.lake), everything=everything, say=context.log.info)
    return {
        "vacuum_files_removed": dg.MetadataValue.int(done.files),
        "vacuum_bytes_removed": dg.MetadataValue.int(done.size),
    }
