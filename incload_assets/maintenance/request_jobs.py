"""The jobs ``undo_loads``, ``release_partitions``, ``replay_rows`` and ``fill_columns``, for all tables.

A person names a table and partitions. The job asks Dagster for a backfill of exactly these, with the tags of the
request. So its runs are like all runs of the table: they wait for their turn, Dagster repeats one that is killed, the
audit has what they did, and a partition that fails is failed, and found by the sensor.
"""

from dataclasses import replace

import dagster as dg
from pydantic import Field

from incload_assets.declaration.partition_keys import chosen, shown
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import now
from incload_assets.load.fill import refuse_unfillable
from incload_assets.load.replay import refuse_unreplayable
from incload_assets.load.undo_plan import LAST
from incload_assets.platform.dagster_private import USER_TAG, add_backfill
from incload_assets.platform.wording import several
from incload_assets.progress.forms import PARTITIONS, SomePartitions, table_job
from incload_assets.progress.request import Request, request_of
from incload_assets.progress.run_tags import LOADS_NOTHING, MAX_RETRIES_TAG

_ONCE = {**LOADS_NOTHING, MAX_RETRIES_TAG: "0"}
"""The tags of runs that ask: one that died may have asked, and to ask again is up to a person."""


class RequestConfig(SomePartitions):
    """The partitions of a table, and why something is done with them."""

    partitions: list[str] = Field(description=f"{PARTITIONS}.")
    because: str = Field(default="", description="Why; shown wherever the partition is, and kept in the audit.")

    def keys(self, table: Table) -> list[str]:
        """The chosen partition keys, oldest first; raises IncrementalLoadError if there is none."""
        return chosen(table, ",".join(self.partitions))


class UndoConfig(RequestConfig):
    """The partitions whose loads are undone, how far, and why."""

    before: str = Field(
        default=LAST,
        description=f"Undo this and what came after: a run, an instant, or a landing's number; {LAST}: the last load.",
    )


@table_job("undo_loads", "undo", _ONCE)
def undo_job(context: dg.OpExecutionContext, table: Table, config: UndoConfig) -> None:
    """Returns the chosen partitions to what they held before their last load, or an earlier one, and holds them."""
    _ask(context, table, config, Request(action="undo", before=config.before))


@table_job("release_partitions", "release", _ONCE)
def release_job(context: dg.OpExecutionContext, table: Table, config: RequestConfig) -> None:
    """Loads the chosen partitions from their source although they are held."""
    _ask(context, table, config, Request(action="release"))


@table_job("replay_rows", "replay", _ONCE, expect=lambda table, _: refuse_unreplayable(table))
def replay_job(context: dg.OpExecutionContext, table: Table, config: RequestConfig) -> None:
    """Validates the rejected rows of the chosen partitions again, without their source."""
    _ask(context, table, config, Request(action="replay"))


@table_job("fill_columns", "fill", _ONCE, expect=lambda table, _: refuse_unfillable(table))
def fill_job(context: dg.OpExecutionContext, table: Table, config: RequestConfig) -> None:
    """Gives columns that were declared later the values that the log rescued, without the source."""
    _ask(context, table, config, Request(action="fill"))


REQUEST_JOBS = (undo_job, release_job, replay_job, fill_job)


def _ask(context: dg.OpExecutionContext, table: Table, config: RequestConfig, request: Request) -> None:
    """Asks for a backfill of the chosen partitions, and of no other between them."""
    keys, tags = config.keys(table), request_of(table, replace(request, because=config.because)).as_tags()
    if (person := context.run.tags.get(USER_TAG)) is not None:
        tags[USER_TAG] = person
    what = f"{request.action.capitalize()} of {table.name}, {several(len(keys), 'partition')}"
    which = shown(keys, table.keys_at(now()))
    backfill = add_backfill(
        context.instance,
        table.key,
        table.partitions_def.subset_with_partition_keys(keys),
        tags=tags,
        title=what,
        description="; ".join(filter(None, [config.because, which])),
    )
    where = f"/runs/b/{backfill}"
    context.add_output_metadata({"backfill": dg.MetadataValue.url(where), "partitions": which})
    context.log.info(f"{what} ({which}): asked Dagster for the backfill {backfill}; its runs are at {where}")
