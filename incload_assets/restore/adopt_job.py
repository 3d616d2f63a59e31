"""The job ``adopt_table``: ``incload adopt`` from the Dagster UI."""

from collections.abc import Iterable

import dagster as dg
from pydantic import Field

from incload_assets.change_log.context import LoadContext
from incload_assets.declaration.table import Table
from incload_assets.progress.audit import actor_of
from incload_assets.progress.confirmed import named
from incload_assets.progress.run_tags import UPKEEP
from incload_assets.restore.adopt import adopt


class AdoptConfig(dg.Config):
    """The table to adopt."""

    table: str = Field(description="Name of the table.")
    dry_run: bool = Field(default=False, description="Only examine the table.")
    again: bool = Field(default=False, description="Begin anew if the table has changed since an interrupted adoption.")
    because: str = Field(default="", description="The reason, for the audit.")


def adopt_job(tables: Iterable[Table]) -> dg.JobDefinition:
    """The job that adopts a table; what it does is described in :mod:`incload_assets.restore.adopt`.

    Args:
        tables: All incremental tables.
    """
    by_name = {table.name: table for table in tables}

    @dg.op(required_resource_keys={"spark", "lake"})
    def adopt_one(context: dg.OpExecutionContext, config: AdoptConfig) -> None:
        [table] = named(by_name, config.table)
        with context.resources.spark.session(table.name) as spark:
            lake = context.resources.lake.followed()
            load = LoadContext(spark, table, lake, context.run.run_id, context.log.info)
            done = adopt(
                load,
                dry_run=config.dry_run,
                again=config.again,
                because=config.because,
                actor=actor_of(context.run),
            )
        context.log.info(done.summary(table.name))
        for note in done.notes:
            context.log.warning(f"{table.name}: {note}")

    @dg.job(
        name="adopt_table",
        description="Adopts a Delta table that no load has made: its rows become the oldest changes of its log.",
        tags=UPKEEP,
    )
    def job() -> None:
        adopt_one()

    return job
