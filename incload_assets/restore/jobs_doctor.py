"""The jobs ``doctor``, ``pause_table`` and ``resume_table``: the commands of the same words, from the Dagster UI."""

from collections.abc import Iterable

import dagster as dg
from pydantic import Field

from incload_assets.declaration.table import Table
from incload_assets.declaration.window import now
from incload_assets.maintenance.jobs import Chosen
from incload_assets.platform.wording import several
from incload_assets.progress.audit import actor_of
from incload_assets.progress.confirmed import named
from incload_assets.progress.pause import parse_until, pause, resume
from incload_assets.progress.run_tags import LOADS_NOTHING, UPKEEP
from incload_assets.restore.doctor import examine


class PauseConfig(dg.Config):
    """The table to pause, until when and why."""

    table: str = Field(description="Name of the table.")
    until: str = Field(description="A time such as 2026-01-06T12:00, in UTC, or a duration such as 2h.")
    because: str = Field(description="Why; everybody sees it.")


class ResumeConfig(dg.Config):
    """The table to resume."""

    table: str = Field(description="Name of the table.")
    because: str = Field(default="", description="Why.")


def care_jobs(tables: Iterable[Table]) -> list[dg.JobDefinition]:
    """The jobs ``doctor``, ``pause_table`` and ``resume_table``.

    Args:
        tables: All incremental tables.
    """
    by_name = {table.name: table for table in tables}

    @dg.op(required_resource_keys={"lake"})
    def examine_each(context: dg.OpExecutionContext, config: Chosen) -> None:
        instance, lake, at = context.instance, context.resources.lake, now()
        chosen = named(by_name, *(config.tables or sorted(by_name)))
        found = examine(instance, chosen, lake, at)
        for one in found:
            where = " ".join(filter(None, [one.table, ", ".join(one.partitions)]))
            context.log.warning(f"{where}: {one.what}. Remedy: {one.remedy}")
        context.log.info(f"{several(len(chosen), 'table')} examined, {several(len(found), 'disagreement')}")
        if found:
            raise dg.Failure(f"{several(len(found), 'disagreement')}, see the log", allow_retries=False)

    @dg.op(required_resource_keys={"lake"})
    def pause_one(context: dg.OpExecutionContext, config: PauseConfig) -> None:
        [table] = named(by_name, config.table)
        until, who = parse_until(config.until, now()), actor_of(context.run)
        made = pause(context.resources.lake, table.name, until, config.because, actor=who, run_id=context.run_id)
        context.log.info(f"{table.name} is {made}")

    @dg.op(required_resource_keys={"lake"})
    def resume_one(context: dg.OpExecutionContext, config: ResumeConfig) -> None:
        [table] = named(by_name, config.table)
        who = actor_of(context.run)
        ended = resume(context.resources.lake, table.name, config.because, actor=who, run_id=context.run_id)
        context.log.info(f"{table.name} is loaded again; it was {ended}")

    @dg.job(description="Finds where Dagster, logs, tables and lake contradict each other.", tags=UPKEEP)
    def doctor() -> None:
        examine_each()

    # these wait for no place of upkeep, which a nightly job may have for hours
    @dg.job(description="Stops the loads of a table for a time; detection and checks go on.", tags=LOADS_NOTHING)
    def pause_table() -> None:
        pause_one()

    @dg.job(description="Ends the pause of a table.", tags=LOADS_NOTHING)
    def resume_table() -> None:
        resume_one()

    return [doctor, pause_table, resume_table]
