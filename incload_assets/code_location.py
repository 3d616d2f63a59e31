"""The definitions of a code location: checks and a sensor for every table, and jobs for all, with one policy."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import dagster as dg

from incload_assets.assets.incremental import table_of
from incload_assets.assets.wrapped import wrapping
from incload_assets.automation import orphaned_runs, source_sensor
from incload_assets.checks import LIGHT_CHECKS, TABLE_CHECKS, check_names, checks_for
from incload_assets.checks.reconciliation_schedules import reconciliation_schedules
from incload_assets.declaration.table import Table
from incload_assets.erasure.erase_job import erase_job
from incload_assets.load.replay import unreplayable
from incload_assets.maintenance import JOBS
from incload_assets.maintenance.jobs import schedule_of
from incload_assets.maintenance.request_jobs import REQUEST_JOBS
from incload_assets.monitoring.channels import channels
from incload_assets.monitoring.notify_sensor import notify_sensor
from incload_assets.monitoring.telemetry.sensor import loads_sensor
from incload_assets.platform.dagster_private import UnresolvedAssetJobDefinition
from incload_assets.platform.errors import DeclarationError, IncrementalLoadError
from incload_assets.platform.lake import Lake
from incload_assets.platform.settings import Settings
from incload_assets.platform.spark.resource import SparkResource
from incload_assets.progress.observed import source_sensor_name
from incload_assets.progress.run_tags import UPKEEP
from incload_assets.quarantine.decision_jobs import accept_job, discard_job
from incload_assets.quarantine.replay_sensor import replay_sensor
from incload_assets.restore.adopt_job import adopt_job
from incload_assets.restore.jobs import BACKUP_CRON, backup_job, rebuild_job
from incload_assets.restore.jobs_doctor import doctor_job, pause_job, resume_job
from incload_assets.what_if.plan_job import plan_job
from incload_assets.what_if.shadow_job import shadow_job

RECONCILIATION = "check_reconciliation"
BY_HAND = (
    *REQUEST_JOBS, accept_job, discard_job, pause_job, resume_job, plan_job, shadow_job, adopt_job, rebuild_job,
    doctor_job,
)  # fmt: skip
"""Makers of the jobs for people, each over all tables."""
CHECK_SCHEDULES = {
    "check_tables": (
        "*/10 * * * *",
        tuple(LIGHT_CHECKS),
        "Runs the checks without Spark: freshness, gaps, volume and so on",
    ),
    "check_uniqueness": (
        "10 4 * * *",
        tuple(TABLE_CHECKS),
        "Reads the keys of every table, and the logs of tables with several sources",
    ),
    RECONCILIATION: ("40 4 * * *", ("reconciliation",), "Reads the sources again and compares"),
}
"""Jobs over the checks of all tables, by name: cron schedule (UTC), checks, and description."""


def incremental_definitions(
    assets: Iterable[dg.AssetsDefinition], settings: Settings, resources: Mapping[str, Any] | None = None
) -> dg.Definitions:
    """All definitions for the assets of a code location.

    Each incremental table gets its checks and a sensor on its source. All tables together get jobs for people,
    schedules for checks, compaction of files and logs, and vacuum, and a sensor for runs whose process is gone. A load
    is a run of Dagster's own job of all assets. Other assets are included unchanged. Each run is one process: a load is
    one step, and every further process would import everything again.

    Args:
        assets: Assets of any kind.
        settings: Settings with the location of the tables.
        resources: Dagster resources of the assets by name, beside the tables' own ``spark`` and ``lake``.

    Raises:
        DeclarationError: Two tables would share one folder in the lake, or the name of their sensors.
    """
    assets = list(assets)
    lake = Lake.of(settings)
    tables = {asset: table for asset in assets if (table := table_of(asset)) is not None}
    _expect_distinct_targets(list(tables.values()), lake)
    check_jobs = [job for name in CHECK_SCHEDULES if (job := _check_job(name, list(tables.values()))) is not None]
    maintenance = [(done, each.cron) for each in JOBS if (done := each.definition(tables.values())) is not None]
    replayable = [table for table in tables.values() if not unreplayable(table)]
    backup, told = backup_job(), channels(settings)
    return dg.Definitions(
        assets=assets,
        asset_checks=[check for table in tables.values() for check in checks_for(table)],
        jobs=[
            *check_jobs,
            *(job for job, _ in maintenance),
            *(make(tables.values()) for make in BY_HAND if tables),
            *([backup] if tables else []),
            *([erase_job(tables.values())] if any(table.subject for table in tables.values()) else []),
        ],
        schedules=[
            *map(_check_schedule, check_jobs),
            *(
                each
                for job in check_jobs
                if job.name == RECONCILIATION
                for each in reconciliation_schedules(tables.values(), job)
            ),
            *(schedule_of(job, cron) for job, cron in maintenance),
            *([schedule_of(backup, BACKUP_CRON)] if tables else []),
        ],
        sensors=[
            *(_sensor(asset, table) for asset, table in tables.items()),
            *([loads_sensor(list(tables.values()))] if tables else []),
            *([replay_sensor(replayable)] if replayable else []),
            *([notify_sensor([*tables.values()], told, settings.dashboard_url)] if tables and told else []),
            orphaned_runs,
        ],
        resources={"spark": SparkResource(), "lake": lake, **(resources or {})},
        executor=dg.in_process_executor,
    )


def project_definitions(
    file: str | Path,
    resources: Mapping[str, Any] | None = None,
    settings: Settings | None = None,
    *,
    leave_out: str | None = None,
) -> dg.Definitions:
    """All definitions of a project: of what its folder of tables declares in Python and YAML, as ``dg`` finds it.

    Args:
        file: A file of the project, for example the ``__file__`` of its ``definitions.py``.
        resources: Dagster resources of the assets by name, beside the tables' own ``spark`` and ``lake``.
        settings: Settings with the location of the tables; by default read from the environment.
        leave_out: Full name of a package whose tables are left out.

    Raises:
        DeclarationError: A table's declaration is wrong, or two tables have the same asset key.

    Example:
        ``defs = project_definitions(__file__)``
    """
    try:
        with wrapping():
            found = dg.load_from_defs_folder(path_within_project=Path(file).parent)
    except Exception as error:  # of Dagster, which shows the folder's tree in place of what is wrong
        raise next((cause for cause in _causes(error) if isinstance(cause, IncrementalLoadError)), error) from None
    assets = {id(each): each for each in found.assets or ()}.values()  # a module may import the table of another
    tables = [each for each in assets if isinstance(each, dg.AssetsDefinition) and not _in_package(each, leave_out)]
    return dg.Definitions.merge(
        incremental_definitions(tables, settings or Settings(), resources),
        dg.Definitions(
            assets=[each for each in assets if not isinstance(each, dg.AssetsDefinition)],
            asset_checks=found.asset_checks,
            jobs=found.jobs,
            schedules=found.schedules,
            sensors=found.sensors,
            resources=found.resources,
            metadata=found.metadata,
            component_tree=found.component_tree,
        ),
    )


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _in_package(asset: dg.AssetsDefinition, package: str | None) -> bool:
    table = table_of(asset)
    return table is not None and package is not None and f"{table.function.__module__}.".startswith(f"{package}.")


def _sensor(asset: dg.AssetsDefinition, table: Table) -> dg.SensorDefinition:
    policy = asset.backfill_policy
    return source_sensor(
        table,
        name=source_sensor_name(table),
        partitions_per_run=policy.max_partitions_per_run or 1 if policy else 1,
    )


def _check_job(name: str, tables: Sequence[Table]) -> UnresolvedAssetJobDefinition | None:
    """The job over some checks of all tables; None if no table has any of these checks."""
    _, checks, about = CHECK_SCHEDULES[name]
    keys = [dg.AssetCheckKey(table.key, check) for table in tables for check in check_names(table) if check in checks]
    if not keys:
        return None
    return dg.define_asset_job(
        name, selection=dg.AssetSelection.checks(*keys), description=f"{about}, for all tables.", tags=UPKEEP
    )


def _check_schedule(job: UnresolvedAssetJobDefinition) -> dg.ScheduleDefinition:
    return schedule_of(job, CHECK_SCHEDULES[job.name][0])


def _expect_distinct_targets(tables: Sequence[Table], lake: Lake) -> None:
    """Refuses two tables in the same folder, or in nested ones, where a vacuum of the outer would destroy the inner.

    The comparison ignores case, because some file systems do. It also refuses two sensors of the same name.
    """
    for one, other in combinations(tables, 2):
        uris = [lake.table_uri(table.key.path) for table in (one, other)]
        inner, outer = sorted((f"{uri.casefold()}/" for uri in uris), key=len, reverse=True)
        if inner.startswith(outer):
            raise DeclarationError(
                f"{_described(one)} and {_described(other)} would be written to {uris[0]}"
                + (f" and {uris[1]}" if uris[0] != uris[1] else ""),
                rule="each table has a folder of its own in the lake, named after its asset key",
                remedy="give one of them another name or key_prefix",
            )
        if one.identifier == other.identifier:
            raise DeclarationError(
                f"{_described(one)} and {_described(other)} would both have the sensor {source_sensor_name(one)}",
                rule="sensors are named after their table's asset key, with its parts joined by '__'",
                remedy="give one of them another name or key_prefix",
            )


def _described(table: Table) -> str:
    return f"{table.name} ({table.function.__module__}.{table.function.__qualname__})"
