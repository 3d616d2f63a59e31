"""Compaction of the logs of tables that declare a retention, in Dagster: a job, and its schedule."""

from collections.abc import Sequence

import dagster as dg
from pydantic import Field

from incload_assets.loading import window as windows
from incload_assets.loading.checkpoint import LOADS_NOTHING, at_rest
from incload_assets.loading.compaction import Compaction, compact
from incload_assets.loading.context import Context
from incload_assets.loading.declaration import Table
from incload_assets.loading.load import ensure_log
from incload_assets.operations.schedules import schedule_of
from resources.failures import translate

JOB_NAME, STEP_NAME = "compact_logs", "compact_each_log"
CRON = "20 3 * * *"


class Chosen(dg.Config):
    """Which logs to compact."""

    tables: list[str] = Field(default=[], description="Names of tables; none: all that declare a log_retention.")


def compaction_job(tables: Sequence[Table]) -> dg.JobDefinition:
    """The job ``compact_logs``.

    Args:
        tables: Those that declare a ``log_retention``.
    """
    by_name = {table.name: table for table in tables}

    @dg.op(name=STEP_NAME, required_resource_keys={"spark", "lake"})
    def compact_each(context: dg.OpExecutionContext, config: Chosen) -> None:
        """Keep of old windows only the changes that may still decide; a table that fails does not stop the others."""
        if unknown := sorted(set(config.tables) - by_name.keys()):
            raise dg.Failure(
                f"{', '.join(unknown)}: not among the tables with a log_retention ({', '.join(sorted(by_name))})",
                allow_retries=False,
            )
        failures = {}
        for name in config.tables or sorted(by_name):
            try:
                done = _compact(context, by_name[name])
            except Exception as error:
                failures[name] = str(translate(error, name))
                context.log.error(failures[name])
            else:
                context.log_event(dg.AssetObservation(by_name[name].key, metadata=_metadata(by_name[name], done)))
        if failures:
            raise dg.Failure(f"logs not compacted: {', '.join(failures)}", metadata=failures, allow_retries=False)

    @dg.job(
        name=JOB_NAME,
        description="Removes from the logs of tables with a log_retention what no longer decides.",
        tags=LOADS_NOTHING,
    )
    def job() -> None:
        compact_each()

    return job


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
            lambda keys: at_rest(context.instance, table.key, keys, context.run.run_id),
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
