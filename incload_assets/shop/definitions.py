"""The shop's Dagster definitions: a job that advances it, and a schedule that keeps it up to the present."""

from collections import Counter
from collections.abc import Mapping
from datetime import timedelta

import dagster as dg
from pydantic import Field

from incload_assets.platform.settings import Settings
from incload_assets.progress.run_tags import LOADS_NOTHING, PRIORITY_TAG
from incload_assets.shop.drift import drift_schedule, edit_prices_by_hand
from incload_assets.shop.shop import Advance, Shop
from incload_assets.shop.stream import TOPIC

_DAY = timedelta(days=1)
_UNFINISHED = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


class Trade(dg.Config):
    """The time to trade; the shop never trades beyond the present."""

    days: int = Field(default=1, ge=0, description="Days to trade.")
    minutes: int = Field(default=0, ge=0, description="Minutes to trade, in addition to the days.")


@dg.op
def trade(context: dg.OpExecutionContext, config: Trade) -> None:
    """Advances the shop's clock, writes the files that become due, sets prices and sends web events."""
    advance = Shop(Settings()).advance(days=config.days, minutes=config.minutes)
    for file in advance.files:
        verb = "rewrote" if file.rewritten else "wrote"
        context.log.debug(f"{verb} {file.path}: {file.rows} rows, {file.size} bytes")
    if advance.database_failure:
        context.log.warning(f"no prices were set; the next advance tries again: {advance.database_failure}")
    if advance.kafka_failure:
        context.log.warning(f"no web events were sent; the next advance tries again: {advance.kafka_failure}")
    context.log.info(f"traded to {advance.now:%Y-%m-%d %H:%M} UTC: {len(advance.files)} files, {advance.rows}")
    context.add_output_metadata(
        {
            "traded": dg.MetadataValue.md(summary(advance)),
            "files": len(advance.files),
            "rows": sum(advance.rows.values()),
            "clock": dg.MetadataValue.timestamp(advance.now),
        }
    )


@dg.job(executor_def=dg.in_process_executor, tags={**LOADS_NOTHING, PRIORITY_TAG: "2"})
def advance_shop() -> None:
    """Lets the sample shop trade for a day, or for the time in the run's configuration."""
    trade()


@dg.schedule(
    cron_schedule="* * * * *",
    job=advance_shop,
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Keeps the sample shop trading: one day per tick until it has caught up, then in real time.",
)
def shop_schedule(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
    """Requests the next advance, unless one is under way or nothing is due yet."""
    if context.instance.get_run_records(dg.RunsFilter(job_name=advance_shop.name, statuses=_UNFINISHED), limit=1):
        return dg.SkipReason("The shop is being advanced by another run.")
    shop = Shop(Settings())
    behind = shop.behind()
    if behind > _DAY:
        return _request(days=1, minutes=0)
    due = shop.next_due()
    if due > shop.now + behind:
        return dg.SkipReason(f"The next file is due at {due:%Y-%m-%d %H:%M} UTC.")
    return _request(days=0, minutes=-(behind // timedelta(minutes=-1)))


def summary(advance: Advance) -> str:
    """A Markdown summary of an advance, with one row per table of the shop."""
    lines = [
        f"{advance.since:%Y-%m-%d %H:%M} to {advance.now:%Y-%m-%d %H:%M} UTC",
        "",
        "| table | files | rows | rewritten | unusual records |",
        "|---|---:|---:|---:|---|",
    ]
    elsewhere = {
        "prices": "the database is not available" if advance.database_failure else "-",
        TOPIC: "Kafka is not available" if advance.kafka_failure else _listed(advance.message_troubles),
    }
    for table, rows in advance.rows.items():
        if table in elsewhere:
            lines.append(f"| {table} | - | {rows} | - | {elsewhere[table]} |")
            continue
        files = [file for file in advance.files if file.table == table]
        unusual = _listed(sum((file.troubles for file in files), start=Counter()))
        rewritten = sum(file.rewritten for file in files)
        lines.append(f"| {table} | {len(files)} | {rows} | {rewritten} | {unusual} |")
    return "\n".join(lines)


def _listed(troubles: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in sorted(troubles.items())) or "-"


def shop_definitions() -> dg.Definitions:
    """The jobs ``advance_shop`` and ``edit_prices_by_hand``, each with a schedule that is on by default."""
    return dg.Definitions(jobs=[advance_shop, edit_prices_by_hand], schedules=[shop_schedule, drift_schedule])


def _request(*, days: int, minutes: int) -> dg.RunRequest:
    return dg.RunRequest(run_config=dg.RunConfig(ops={trade.name: Trade(days=days, minutes=minutes)}))
