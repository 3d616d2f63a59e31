"""The job ``shadow_table``: ``incload shadow`` from the Dagster UI."""

import dagster as dg
from pydantic import Field

from incload_assets.declaration.table import Table
from incload_assets.maintenance.jobs import OneTable, TableJob, load_in
from incload_assets.recovery.shadow import drop, shadow


class ShadowConfig(OneTable):
    """The table to make a shadow of."""

    drop: bool = Field(default=False, description="Only remove the shadow.")


def _shadow(context: dg.OpExecutionContext, table: Table, config: ShadowConfig) -> None:
    with load_in(context, table) as load:
        if config.drop:
            context.log.info(f"{table.name}: {'removed the shadow' if drop(load.anew()) else 'there is no shadow'}")
            return
        found = shadow(load.anew())
    say = context.log.info if found.comparison.equal else context.log.warning
    for line in found.lines(table.name):
        say(line)


SHADOW = TableJob(
    name="shadow_table",
    step_name="shadow_one",
    about="Folds the log of a table by this code into a table beside it, and compares the two.",
    config=ShadowConfig,
    work=_shadow,
)
