"""The job ``shadow_table``: ``incload shadow`` from the Dagster UI."""

from collections.abc import Iterable

import dagster as dg
from pydantic import Field

from incload_assets.change_log.context import LoadContext
from incload_assets.declaration.table import Table
from incload_assets.progress.confirmed import named
from incload_assets.progress.run_tags import UPKEEP
from incload_assets.what_if.shadow import drop, shadow


class ShadowConfig(dg.Config):
    """The table to make a shadow of."""

    table: str = Field(description="Name of the table.")
    drop: bool = Field(default=False, description="Only remove the shadow.")


def shadow_job(tables: Iterable[Table]) -> dg.JobDefinition:
    """The job that makes and compares a shadow; what it does is described in :mod:`incload_assets.what_if.shadow`.

    Args:
        tables: All incremental tables.
    """
    by_name = {table.name: table for table in tables}

    @dg.op(required_resource_keys={"spark", "lake"})
    def shadow_one(context: dg.OpExecutionContext, config: ShadowConfig) -> None:
        [table] = named(by_name, config.table)
        with context.resources.spark.session(table.name) as spark:
            lake = context.resources.lake.followed()
            load = LoadContext(spark, table, lake, context.run.run_id, context.log.info)
            if config.drop:
                context.log.info(f"{table.name}: {'removed the shadow' if drop(load) else 'there is no shadow'}")
                return
            found = shadow(load)
        say = context.log.info if found.comparison.equal else context.log.warning
        for line in found.lines(table.name):
            say(line)

    @dg.job(
        name="shadow_table",
        description="Folds the log of a table by this code into a table beside it, and compares the two.",
        tags=UPKEEP,
    )
    def job() -> None:
        shadow_one()

    return job
