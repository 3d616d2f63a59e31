"""The job ``adopt_table``: ``incload adopt`` from the Dagster UI."""

import dagster as dg
from pydantic import Field

from incload_assets.declaration.table import Table
from incload_assets.maintenance.jobs import load_in
from incload_assets.progress.audit import actor_of
from incload_assets.progress.forms import OneTable, table_job
from incload_assets.restore.adopt import adopt


class AdoptConfig(OneTable):
    """The table to adopt."""

    dry_run: bool = Field(default=False, description="Only examine the table.")
    again: bool = Field(
        default=False, description="Begin again if the table has changed since an interrupted adoption."
    )
    because: str = Field(default="", description="The reason, for the audit.")


@table_job("adopt_table", "adopt_one")
def adopt_job(context: dg.OpExecutionContext, table: Table, config: AdoptConfig) -> None:
    """Adopts a Delta table that no load has made: its rows become the oldest changes of its log."""
    with load_in(context, table) as load:
        who = actor_of(context.run)
        done = adopt(load.renewed(), dry_run=config.dry_run, again=config.again, because=config.because, actor=who)
    context.log.info(done.summary(table.name))
    for note in done.notes:
        context.log.warning(f"{table.name}: {note}")
