"""The sensor that keeps ``_loads`` up, and sends traces and lineage of what it finds."""

from collections.abc import Sequence

import dagster as dg

from incload_assets.declaration.table import Table
from incload_assets.monitoring.telemetry.emitters import collect_and_send
from incload_assets.platform.wording import several

NAME = "collect_loads"
INTERVAL_SECONDS = 30


def loads_sensor(tables: Sequence[Table]) -> dg.SensorDefinition:
    """A sensor that collects the loads of all tables into ``_loads``; it starts no runs."""

    @dg.sensor(
        name=NAME,
        minimum_interval_seconds=INTERVAL_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Records finished loads in the lake's table _loads, for `incload slo`, metrics and dashboards",
        required_resource_keys={"lake"},
    )
    def sensor(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        count = collect_and_send(context.instance, tables, context.resources.lake, context.log.warning)
        return dg.SkipReason(f"{several(count, 'load')} recorded")

    return sensor
