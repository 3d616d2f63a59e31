"""Maintenance jobs, which process all tables at night."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import dagster as dg

from incload_assets.change_log.context import LoadContext
from incload_assets.declaration.table import Table, every_table
from incload_assets.load.faults import Faults
from incload_assets.maintenance.through import Through
from incload_assets.platform.dagster_private import UnresolvedAssetJobDefinition
from incload_assets.platform.failures import translate
from incload_assets.progress.confirmed import confirm_field, expect_confirmed, is_by_hand
from incload_assets.progress.forms import Chosen, form_of
from incload_assets.progress.run_tags import UPKEEP

ALL = "all tables"
"""The confirmation of a job for all tables."""


class ChosenByHand(Chosen):
    """The configuration of a maintenance job: the tables to process, and a person's confirmation."""

    confirm: str = confirm_field(
        f"the tables' names once more, with a comma and a space between, or {ALL!r}; not by a schedule, nor where the "
        "job removes nothing for good"
    )


@contextmanager
def load_in(context: dg.OpExecutionContext, table: Table) -> Iterator[LoadContext]:
    """The load context of a step about a table."""
    with context.resources.spark.session(table.name) as spark:
        yield LoadContext(spark, table, context.resources.lake, context.run.run_id, context.log.info)


@dataclass(frozen=True, kw_only=True)
class MaintenanceJob:
    """A job that processes each table in turn, and its schedule, in UTC.

    The job records an observation of each table with the metadata that ``work`` returns, if any. A failure for one
    table does not stop the others, and an attempt after a killed one goes on where that stopped. Messages say ``whose``
    tables it applies to, and what is ``undone`` for a table that failed.

    Args:
        cron: When it runs; empty: when a person launches it.
        config: What a person can choose; ``work`` finds it in its context.
        removes: What the job removes for good; a person who launches it has to confirm. Empty: nothing.
        of_lake: Processes what all tables share, after them, unless some are chosen; returns metadata for the output.
    """

    name: str
    step_name: str
    cron: str
    about: str
    whose: str = "tables"
    undone: str
    removes: str = ""
    applies_to: Callable[[Table], bool] = every_table
    config: type[Chosen] = ChosenByHand
    work: Callable[[dg.OpExecutionContext, Table], dict[str, dg.MetadataValue] | None]
    of_lake: Callable[[dg.OpExecutionContext], dict[str, dg.MetadataValue]] | None = None

    def definition(self, tables: Iterable[Table]) -> dg.JobDefinition | None:
        """The Dagster job over the tables that it applies to; None if there are none."""
        by_name = {table.name: table for table in tables if self.applies_to(table)}
        if not by_name:
            return None

        @dg.op(
            name=self.step_name,
            description=self.about,
            config_schema=form_of(self.config, by_name, self.whose),
            required_resource_keys={"spark", "lake"},
        )
        def each(context: dg.OpExecutionContext) -> Iterator[dg.AssetObservation | dg.Output[None]]:
            config = self.config(**context.op_config)
            if self.removes and isinstance(config, ChosenByHand) and is_by_hand(context.run):
                wanted = ", ".join(config.tables) or ALL
                expect_confirmed(self.name, config.confirm, wanted, f"removes {self.removes}")
            faults = Faults(context.resources.lake, context.log.error, kinds=(Exception,))
            through = Through(context, config.tables or sorted(by_name))
            for name in through.left:
                metadata, began = None, time.monotonic()
                with faults.of(by_name[name]):
                    metadata = self.work(context, by_name[name])
                    through.did(name, time.monotonic() - began)
                if metadata is not None:  # at once: Dagster drops what a step that fails has logged as events
                    yield dg.AssetObservation(by_name[name].key, metadata=metadata)
            failures = faults.found
            if self.of_lake is not None and not config.tables:
                try:
                    context.add_output_metadata(self.of_lake(context))
                except Exception as error:
                    failures["the lake"] = str(translate(error, "the lake"))
                    context.log.error(failures["the lake"])
            through.end(complete=not failures)
            if failures:
                raise dg.Failure(f"{self.undone}: {', '.join(failures)}", metadata=failures, allow_retries=False)
            yield dg.Output(None)

        @dg.job(name=self.name, description=self.about, tags=UPKEEP)
        def job() -> None:
            each()

        return job


def schedule_of(job: dg.JobDefinition | UnresolvedAssetJobDefinition, cron: str) -> dg.ScheduleDefinition:
    """The schedule ``<job>_schedule``, in UTC."""
    return dg.ScheduleDefinition(
        name=f"{job.name}_schedule",
        job=job,
        cron_schedule=cron,
        execution_timezone="UTC",
        default_status=dg.DefaultScheduleStatus.RUNNING,
    )
