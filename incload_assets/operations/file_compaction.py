"""Compaction of small files, in Dagster: a job, and its schedule."""

from collections.abc import Sequence

import dagster as dg

from incload_assets.loading.context import Context
from incload_assets.loading.declaration import Table
from incload_assets.loading.small_files import compact_files
from incload_assets.operations.over_tables import job_over_tables
from incload_assets.operations.schedules import schedule_of

JOB_NAME, STEP_NAME = "compact_files", "compact_files_of_each_table"
CRON = "20 2 * * *"


def file_compaction_job(tables: Sequence[Table]) -> dg.JobDefinition:
    """The job ``compact_files``.

    Args:
        tables: All incremental tables.
    """
    return job_over_tables(
        tables,
        _compact,
        job_name=JOB_NAME,
        step_name=STEP_NAME,
        about="Puts small files together in the partitions where loads have left many of them.",
        whose="tables",
        undone="files not compacted",
    )


def file_compaction_schedule(job: dg.JobDefinition) -> dg.ScheduleDefinition:
    """Every night."""
    return schedule_of(job, CRON)


def _compact(context: dg.OpExecutionContext, table: Table) -> dict[str, dg.MetadataValue]:
    with context.resources.spark.session(table.name) as spark:
        done = compact_files(Context(spark, table, context.resources.lake), say=context.log.info)
    return {
        "files_before": dg.MetadataValue.int(done.before),
        "files_after": dg.MetadataValue.int(done.after),
        "files_bytes": dg.MetadataValue.int(done.size),
        "files_partitions_compacted": dg.MetadataValue.int(done.partitions),
        "files_partitions_busy": dg.MetadataValue.int(done.busy),
    }
