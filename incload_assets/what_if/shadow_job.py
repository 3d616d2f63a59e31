"""The job ``shadow_table``: ``incload shadow`` from the Dagster UI."""

import dagster as dg
from pydantic import Field

from incload_assets.declaration.table import Table
from incload_assets.maintenance.jobs import load_in
from incload_assets.progress.forms import OneTable, table_job
from incload_assets.what_if.shadow import drop, shadow


class ShadowConfig(OneTable):
    """The table to make a shadow of."""

    drop: bool = Field(default=False, description="Only remove the shadow.")


@table_job("shadow_table", "shadow_one")
def shadow_job(context: dg.OpExecutionContext, table: Table, config: ShadowConfig) -> None:
    """Folds the log of a table by this code into a table beside it, and compares the two."""
    with load_in(context, table) as load:
        if config.drop:
            context.log.info(f"{table.name}: {'removed the shadow' if drop(load.renewed()) else 'there is no shadow'}")
            return
        found = shadow(load.renewed())
    say = context.log.info if found.comparison.equal else context.log.warning
    for line in found.lines(table.name):
        say(line)
