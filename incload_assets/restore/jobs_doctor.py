"""The jobs ``doctor``, ``pause_table`` and ``resume_table``: the commands of the same words, from the Dagster UI."""

from collections.abc import Iterable

import dagster as dg
from pydantic import Field

from incload_assets.declaration.table import Table
from incload_assets.declaration.window import now
from incload_assets.platform.wording import several
from incload_assets.progress.audit import actor_of
from incload_assets.progress.forms import Chosen, OneTable, form_of, table_job
from incload_assets.progress.pause import parse_until, pause, resume
from incload_assets.progress.run_tags import LOADS_NOTHING, UPKEEP
from incload_assets.restore.doctor import examine


class PauseConfig(OneTable):
    """The table to pause, until when and why."""

    until: str = Field(description="A time such as 2026-01-06T12:00, in UTC, or a duration such as 2h.")
    because: str = Field(description="Why; everybody sees it.")


class ResumeConfig(OneTable):
    """The table to resume."""

    because: str = Field(default="", description="Why.")


# this and the next wait for no place of upkeep, which a nightly job may have for hours
@table_job("pause_table", "pause_one", LOADS_NOTHING)
def pause_job(context: dg.OpExecutionContext, table: Table, config: PauseConfig) -> None:
    """Stops the loads of a table for a time; detection and checks go on."""
    until, who = parse_until(config.until, now()), actor_of(context.run)
    made = pause(context.resources.lake, table.name, until, config.because, actor=who, run_id=context.run_id)
    context.log.info(f"{table.name} is {made}")


@table_job("resume_table", "resume_one", LOADS_NOTHING)
def resume_job(context: dg.OpExecutionContext, table: Table, config: ResumeConfig) -> None:
    """Ends the pause of a table."""
    who = actor_of(context.run)
    ended = resume(context.resources.lake, table.name, config.because, actor=who, run_id=context.run_id)
    context.log.info(f"{table.name} is loaded again; it was {ended}")


def doctor_job(tables: Iterable[Table]) -> dg.JobDefinition:
    """The job ``doctor``, over all incremental tables."""
    by_name = {table.name: table for table in tables}

    @dg.op(config_schema=form_of(Chosen, by_name), required_resource_keys={"lake"})
    def examine_each(context: dg.OpExecutionContext) -> None:
        instance, lake, at = context.instance, context.resources.lake, now()
        chosen = [by_name[name] for name in context.op_config["tables"] or sorted(by_name)]
        found = examine(instance, chosen, lake, at)
        for one in found:
            where = " ".join(filter(None, [one.table, ", ".join(one.partitions)]))
            context.log.warning(f"{where}: {one.what}. Remedy: {one.remedy}")
        context.log.info(f"{several(len(chosen), 'table')} examined, {several(len(found), 'disagreement')}")
        if found:
            raise dg.Failure(f"{several(len(found), 'disagreement')}, see the log", allow_retries=False)

    @dg.job(description="Finds where Dagster, logs, tables and lake contradict each other.", tags=UPKEEP)
    def doctor() -> None:
        examine_each()

    return doctor
