"""Compaction of the logs of tables that declare a retention, in Dagster: a job, and its schedule."""

from collections.abc import Sequence

import dagster as dg

from incload_assets.loading import window as windows
from incload_assets.loading.checkpoint import at_rest
from incload_assets.loading.compaction import Compaction, compact
from incload_assets.loading.context import Context
from incload_assets.loading.declaration import Table
from incload_assets.loading.load import ensure_log
from incload_assets.operations.over_tables import job_over_tables
from incload_assets.operations.schedules import schedule_of

JOB_NAME, STEP_NAME = "compact_logs", "compact_each_log"
CRON = "20 3 * * *"


def compaction_job(tables: Sequence[Table]) -> dg.JobDefinition:
    """The job ``compact_logs``.

    Args:
        tables: Those that declare a ``log_retention``.
    """
    return job_over_tables(
        tables,
        lambda context, table: _metadata(table, _compact(context, table)),
        job_name=JOB_NAME,
        step_name=STEP_NAME,
        about="Removes from the logs of tables with a log_retention what no longer decides.",
        whose="tables with a log_retention",
        undone="logs not compacted",
    )


def compaction_schedule(job: dg.JobDefinition) -> dg.ScheduleDefinition:
    """Every night."""
    return schedule_of(job, CRON)


def _compact(context: dg.OpExecutionContext, table: Table) -> Compaction:
    assert table.log_retention is not None
    older_than = windows.now() - table.log_retention
    with context.resources.spark.session(table.name) as spark:
        loads = Context(spark, table, context.resources.lake)
        if loads.log.version() is None:
            return Compaction()
        ensure_log(loads)
        return compact(
            loads,
            older_than,
            lambda keys: at_rest(context.instance, table.key, table.partitions_def, keys, context.run.run_id),
            run_id=context.run.run_id,
            say=context.log.info,
        )


def _metadata(table: Table, done: Compaction) -> dict[str, dg.MetadataValue]:
    return {
        "log_windows_compacted": dg.MetadataValue.int(done.windows),
        "log_windows_added": dg.MetadataValue.int(done.added),
        "log_changes_before": dg.MetadataValue.int(done.before),
        "log_changes_removed": dg.MetadataValue.int(done.removed),
        "log_windows_busy": dg.MetadataValue.text(", ".join(done.busy) or "none"),
        "log_retention": dg.MetadataValue.text(str(table.log_retention)),
    }
