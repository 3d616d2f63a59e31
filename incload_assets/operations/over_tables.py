"""Jobs that go through tables, one after the other, to keep them in good order."""

from collections.abc import Callable, Sequence

import dagster as dg
from pydantic import Field

from incload_assets.loading.checkpoint import UPKEEP
from incload_assets.loading.declaration import Table
from resources.failures import translate

Work = Callable[[dg.OpExecutionContext, Table], dict[str, dg.MetadataValue]]
"""What is done to a table, and what there is to tell of it."""


class Chosen(dg.Config):
    """Which tables it is done to."""

    tables: list[str] = Field(default=[], description="Names of tables; none: all that it can be done to.")


def job_over_tables(
    tables: Sequence[Table], work: Work, *, job_name: str, step_name: str, about: str, whose: str, undone: str
) -> dg.JobDefinition:
    """A job that observes each table once more when its work is done; one that fails does not stop the others.

    Args:
        tables: All that it can be done to.
        work: What is done.
        job_name: Of the job.
        step_name: Of its only step.
        about: What it does, for people.
        whose: For messages, what kind of tables these are.
        undone: For messages, what is not done to a table that fails.
    """
    by_name = {table.name: table for table in tables}

    @dg.op(name=step_name, description=about, required_resource_keys={"spark", "lake"})
    def each(context: dg.OpExecutionContext, config: Chosen) -> None:
        if unknown := sorted(set(config.tables) - by_name.keys()):
            raise dg.Failure(
                f"{', '.join(unknown)}: not among the {whose} ({', '.join(sorted(by_name))})", allow_retries=False
            )
        failures = {}
        for name in config.tables or sorted(by_name):
            try:
                metadata = work(context, by_name[name])
            except Exception as error:
                failures[name] = str(translate(error, name))
                context.log.error(failures[name])
            else:
                context.log_event(dg.AssetObservation(by_name[name].key, metadata=metadata))
        if failures:
            raise dg.Failure(f"{undone}: {', '.join(failures)}", metadata=failures, allow_retries=False)

    @dg.job(name=job_name, description=about, tags=UPKEEP)
    def job() -> None:
        each()

    return job
