"""The jobs ``accept_rows`` and ``discard_rows``: decisions about rejected rows, from the Dagster UI.

A decision is recorded; the sensor ``replay_after_contract_change`` then requests the replays of its partitions.
"""

import dagster as dg
from pydantic import Field

from incload_assets.change_log.decisions import Kind
from incload_assets.declaration.table import Table
from incload_assets.platform.wording import several
from incload_assets.progress.audit import actor_of
from incload_assets.progress.confirmed import confirm_field, expect_confirmed
from incload_assets.progress.forms import PARTITIONS, SomePartitions, table_job
from incload_assets.progress.run_tags import LOADS_NOTHING
from incload_assets.quarantine.decide import decide_where, take_back


class DecisionConfig(SomePartitions):
    """The rejected rows that are decided about."""

    because: str = Field(description="Why, for the audit.")
    partitions: list[str] = Field(default=[], description=f"{PARTITIONS}; empty: all with rejected rows.")
    reason: str = Field(default="", description="Only rows with a reason that contains this.")
    undo: int = Field(default=0, description="Only undo the decision that has this number in the audit.")
    confirm: str = confirm_field("for a discard, the table's name once more")


def _expect_confirmed(table: Table, config: DecisionConfig) -> None:
    if not config.undo:
        gone = f"takes rejected rows of {table.name} out of view"
        expect_confirmed("discard_rows", config.confirm, table.name, gone)


@table_job("accept_rows", "accept", LOADS_NOTHING)
def accept_job(context: dg.OpExecutionContext, table: Table, config: DecisionConfig) -> None:
    """Accepts rejected rows although they break checks; their partitions are then replayed."""
    _decide("accept", context, table, config)


@table_job("discard_rows", "discard", LOADS_NOTHING, expect=_expect_confirmed)
def discard_job(context: dg.OpExecutionContext, table: Table, config: DecisionConfig) -> None:
    """Says that rejected rows need no correction."""
    _decide("discard", context, table, config)


def _decide(kind: Kind, context: dg.OpExecutionContext, table: Table, config: DecisionConfig) -> None:
    lake, who, only = context.resources.lake, actor_of(context.run), config.keys(table) or None
    if config.undo:
        entry = take_back(table, lake, kind, config.undo, config.because, actor=who)
        context.log.info(f"{table.name}: {several(int(entry.details['rows']), 'row')} open again")
        return
    with context.resources.spark.session(table.name) as spark:
        decided, rows = decide_where(spark, table, lake, kind, config.because, only=only, text=config.reason, actor=who)
        if decided is None:
            context.log.info(f"{table.name}: no open rejected row matches")
            return
    context.log.info(
        f"{table.name}: {kind}: {several(rows, 'row')}; to take it back, run this job with undo={decided.number}"
    )
