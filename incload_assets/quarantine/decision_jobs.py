"""The jobs ``accept_rows`` and ``discard_rows``: decisions about rejected rows, from the Dagster UI.

A decision is recorded; the sensor ``replay_after_contract_change`` then requests the replays of its partitions.
"""

from collections.abc import Iterable

import dagster as dg
from pydantic import Field

from incload_assets.change_log.decisions import Kind
from incload_assets.declaration.table import Table
from incload_assets.platform.wording import several
from incload_assets.progress.audit import actor_of
from incload_assets.progress.confirmed import confirm_field, expect_confirmed, named
from incload_assets.progress.run_tags import LOADS_NOTHING
from incload_assets.quarantine.decide import decide_where, take_back

_JOBS: dict[Kind, tuple[str, str]] = {
    "accept": ("accept_rows", "Accepts rejected rows although they break checks; their partitions are then replayed."),
    "discard": ("discard_rows", "Says that rejected rows need no correction."),
}


class DecisionConfig(dg.Config):
    """The rejected rows that are decided about."""

    table: str = Field(description="Name of the table.")
    because: str = Field(description="Why, for the audit.")
    partitions: list[str] = Field(default=[], description="Partition keys; empty: all with rejected rows.")
    reason: str = Field(default="", description="Only rows with a reason that contains this.")
    undo: int = Field(default=0, description="Only undo the decision that has this number in the audit.")
    confirm: str = confirm_field("for a discard, the table's name once more")


def decision_jobs(tables: Iterable[Table]) -> list[dg.JobDefinition]:
    """The jobs ``accept_rows`` and ``discard_rows``, over all incremental tables."""
    by_name = {table.name: table for table in tables}
    return [_job(kind, by_name) for kind in _JOBS]


def _job(kind: Kind, tables: dict[str, Table]) -> dg.JobDefinition:
    name, about = _JOBS[kind]

    @dg.op(name=kind, required_resource_keys={"spark", "lake"})
    def decide(context: dg.OpExecutionContext, config: DecisionConfig) -> None:
        [table] = named(tables, config.table)
        lake, who, only = context.resources.lake, actor_of(context.run), config.partitions or None
        if config.undo:
            entry = take_back(table, lake, kind, config.undo, config.because, actor=who)
            context.log.info(f"{table.name}: {several(int(entry.details['rows']), 'row')} open again")
            return
        if kind == "discard":
            expect_confirmed(name, config.confirm, table.name, f"takes rejected rows of {table.name} out of view")
        with context.resources.spark.session(table.name) as spark:
            decided, rows = decide_where(
                spark, table, lake, kind, config.because, only=only, text=config.reason, actor=who
            )
            if decided is None:
                context.log.info(f"{table.name}: no open rejected row matches")
                return
        context.log.info(
            f"{table.name}: {kind}: {several(rows, 'row')}; to take it back, run this job with undo={decided.number}"
        )

    @dg.job(name=name, description=about, tags=LOADS_NOTHING)
    def job() -> None:
        decide()

    return job
