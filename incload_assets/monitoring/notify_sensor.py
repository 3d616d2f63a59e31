"""The sensor that reports tables that are late, have failed for good or are repaired; see :mod:`.notices`.

A channel that is down delays its messages and no others: what it has not taken is in the sensor's cursor, and is sent
with the next tick, as one message. It may get a message twice if the daemon is killed between the post and the cursor.
"""

from collections.abc import Mapping, Sequence

import dagster as dg

from incload_assets.checks import freshness
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import now
from incload_assets.monitoring.channels import Notice, Send, described
from incload_assets.monitoring.facts import Watch, backfills, checks_now, watches
from incload_assets.monitoring.notices import Notified, Seen
from incload_assets.platform.lake import Lake
from incload_assets.platform.page_addresses import address_of
from incload_assets.platform.wording import several
from incload_assets.progress.pause import pauses
from incload_assets.progress.silence import silence_of, silences

NAME = "notify"
INTERVAL_SECONDS = 60


def notify_sensor(tables: Sequence[Table], channels: Mapping[str, Send], dashboard: str | None) -> dg.SensorDefinition:
    """A sensor that sends one message for the states of tables that have changed since the last one; it starts no runs.

    Tables of low criticality, paused and silenced ones are left out. ``dashboard`` is the address of
    ``incload dashboard``; None: no links.
    """
    told_about = [table for table in tables if table.criticality != "low"]

    @dg.sensor(
        name=NAME,
        minimum_interval_seconds=INTERVAL_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Notifies {', '.join(channels)} when a table becomes late, fails for good or is repaired",
        required_resource_keys={"lake"},
    )
    def sensor(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        told, at = Notified.of(context.cursor), now()
        seen = _seen(context.instance, context.resources.lake, told_about, dashboard)
        told.keep(told.changes(seen, at), channels)
        parts, open_tables = [], {one.table for one in seen}
        for channel, send in channels.items():
            waiting = told.waiting[channel]
            due = [notice for notice in waiting if notice["table"] in open_tables]
            if not due:
                continue
            try:
                send([Notice(**notice) for notice in due])  # type: ignore[arg-type]
            except Exception as error:  # whatever it is, other channels and the next tick go on
                parts.append(f"{channel}: {several(len(due), 'notice')} not sent yet: {described(error)}")
                context.log.warning(parts[-1])
            else:
                told.waiting[channel] = [notice for notice in waiting if notice not in due]
                parts.append(f"{channel}: {several(len(due), 'notice')} sent")
        context.update_cursor(told.as_text())
        return dg.SkipReason("; ".join(parts) or "nothing new")

    return sensor


def _seen(instance: dg.DagsterInstance, lake: Lake, tables: Sequence[Table], dashboard: str | None) -> list[Seen]:
    """The state of the tables that are neither paused nor silenced, and whose sensors run."""
    at, sensors, under_backfill = now(), watches(instance, tables), backfills(instance)
    paused, silenced = pauses(lake, at), silences(lake, at)
    checks = checks_now(instance, tables, wanted=lambda name: name == freshness.NAME)
    found = []
    for table in tables:
        watch = sensors.get(table.name, Watch(running=False))
        if watch.running and table.name not in paused and silence_of(silenced, table.name) is None:
            found.append(
                Seen(
                    table=table.name,
                    watch=watch,
                    freshness=checks.get(table.name, {}).get(freshness.NAME),
                    backfill=under_backfill[table.key] > 0,
                    link=address_of(table.name, dashboard) if dashboard else "",
                )
            )
    return found
