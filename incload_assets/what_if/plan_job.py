"""The job ``plan_loads``: ``incload plan`` in the Dagster UI."""

from collections.abc import Iterable

import dagster as dg
from pydantic import Field

from incload_assets.declaration.table import Table
from incload_assets.platform.wording import several
from incload_assets.progress.forms import PARTITIONS, SomePartitions, table_job
from incload_assets.what_if.plan_text import ALONE, counts_of, notes_of, pace_of
from incload_assets.what_if.planned import STOPS
from incload_assets.what_if.planning import pending_untouched, plan_loads


class PlanConfig(SomePartitions):
    """The loads to plan."""

    partitions: list[str] = Field(default=[], description=f"{PARTITIONS}; empty: all that are missing or drifted.")


def plan_job(tables: Iterable[Table]) -> dg.JobDefinition:
    """The job ``plan_loads``, which shows what loads would change, commits nothing, and fails if a load would stop."""
    every = list(tables)

    @table_job("plan_loads", "plan_each")
    def plan(context: dg.OpExecutionContext, table: Table, config: PlanConfig) -> None:
        """Shows what loads of partitions would change, and commits nothing."""
        lake, instance = context.resources.lake, context.instance
        keys = config.keys(table) or pending_untouched(instance, table, lake)
        with context.resources.spark.session(table.name) as spark:
            made = plan_loads(spark, instance, table, lake, keys, tables=every)
        context.log.info(f"{table.name}: {several(len(keys), 'partition')}, {ALONE}; nothing was written")
        for window in made.windows:
            for line in (counts_of(window), *notes_of(window)):
                context.log.info(f"{table.name} {window.partition}: {line}")
        if pace := pace_of(made):
            context.log.info(pace)
        if stops := {window.partition: window.error for window in made.windows if window.outcome == STOPS}:
            raise dg.Failure(
                f"{table.name}: the loads of {len(stops)} of {several(len(keys), 'partition')} would stop",
                metadata=stops,
                allow_retries=False,
            )

    return plan(every)
