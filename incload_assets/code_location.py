"""The definitions of a code location: checks, a sensor and a job for every table, with one policy for all."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import dagster as dg

from incload_assets.assets.incremental import table_of
from incload_assets.assets.wrapped import wrapping
from incload_assets.automation import orphaned_runs, source_sensor
from incload_assets.automation.check_jobs import CHECK_JOBS, CHECK_RECONCILIATION
from incload_assets.automation.reconciliation_schedules import reconciliation_schedules
from incload_assets.checks import checks_for
from incload_assets.declaration.table import Table
from incload_assets.erasure.erase_job import erase_job
from incload_assets.history.expire_runs import EXPIRY_CRON, expire_history_job
from incload_assets.load.undo_plan import LAST
from incload_assets.maintenance import JOBS
from incload_assets.maintenance.jobs import schedule_of
from incload_assets.monitoring.channels import channels
from incload_assets.monitoring.notify_sensor import notify_sensor
from incload_assets.monitoring.telemetry.sensor import loads_sensor
from incload_assets.platform.dagster_private import UnresolvedAssetJobDefinition
from incload_assets.platform.errors import DeclarationError, IncrementalLoadError
from incload_assets.platform.lake import Lake
from incload_assets.platform.settings import Settings
from incload_assets.platform.spark.resource import SparkResource
from incload_assets.progress.observed import source_sensor_name
from incload_assets.progress.request import Request, request_of
from incload_assets.progress.run_tags import BECAUSE_TAG
from incload_assets.quarantine.decision_jobs import decision_jobs
from incload_assets.quarantine.replay_jobs import fill_jobs, replay_jobs, replay_sensor
from incload_assets.restore.adopt_job import adopt_job
from incload_assets.restore.jobs import BACKUP_CRON, backup_job, rebuild_job
from incload_assets.restore.jobs_doctor import care_jobs
from incload_assets.what_if.plan_job import plan_job
from incload_assets.what_if.shadow_job import shadow_job

BY_HAND = {
    "undo": (
        "Returns the chosen partitions to what they held before their last load, and holds them.",
        Request(action="undo", before=LAST),
    ),
    "release": ("Loads the chosen partitions from their source although they are held.", Request(action="release")),
}
"""Jobs that a person runs over partitions of a table, one for each table: description, and the runs' request."""


def incremental_definitions(
    assets: Iterable[dg.AssetsDefinition], settings: Settings, resources: Mapping[str, Any] | None = None
) -> dg.Definitions:
    """All definitions for the assets of a code location.

    Each incremental table gets its checks, a sensor on its source and a job that loads it. All tables together get
    schedules for checks, compaction of files and logs, and vacuum, and a sensor for runs whose process is gone. Other
    assets are included unchanged. Each run is one process: a load is one step, and every further process would import
    everything again.

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
    jobs = {table.name: _load_job(table) for table in tables.values()}
    every_night = (*CHECK_JOBS, *JOBS)
    maintenance = [(done, each.cron) for each in every_night if (done := each.definition(tables.values())) is not None]
    backup, expiry = backup_job(), expire_history_job(tables.values())
    replays, told = replay_jobs(tables.values()), channels(settings)
    return dg.Definitions(
        assets=assets,
        asset_checks=[check for table in tables.values() for check in checks_for(table)],
        jobs=[
            *jobs.values(),
            *(_job_by_hand(name, table) for table in tables.values() for name in BY_HAND),
            *(job for job, _ in maintenance),
            *(make(tables.values()) for make in (rebuild_job, adopt_job, shadow_job, plan_job) if tables),
            *(care_jobs(tables.values()) if tables else []),
            *(decision_jobs(tables.values()) if tables else []),
            *([backup, expiry] if tables else []),
            *([erase_job(tables.values())] if any(table.subject for table in tables.values()) else []),
            *replays.values(),
            *fill_jobs(tables.values()),
        ],
        schedules=[
            *(
                each
                for job, _ in maintenance
                if job.name == CHECK_RECONCILIATION.name
                for each in reconciliation_schedules(tables.values(), job)
            ),
            *(schedule_of(job, cron) for job, cron in maintenance),
            *([schedule_of(backup, BACKUP_CRON), schedule_of(expiry, EXPIRY_CRON)] if tables else []),
        ],
        sensors=[
            *(_sensor(asset, table, jobs[table.name]) for asset, table in tables.items()),
            *([loads_sensor(list(tables.values()))] if tables else []),
            *([replay_sensor(replays)] if replays else []),
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


def load_job_name(table: Table) -> str:
    """The name of the job that loads a table, for example ``load_orders``."""
    return f"load_{table.identifier}"


def _load_job(table: Table) -> UnresolvedAssetJobDefinition:
    return dg.define_asset_job(
        load_job_name(table),
        selection=dg.AssetSelection.assets(table.key),
        description=f"Loads partitions of {table.name}, then checks the table.",
        tags=request_of(table).as_tags(),
    )


def _job_by_hand(name: str, table: Table) -> UnresolvedAssetJobDefinition:
    about, request = BY_HAND[name]
    return dg.define_asset_job(
        f"{name}_{table.identifier}",
        selection=dg.AssetSelection.assets(table.key),
        description=f"{about} The tag {BECAUSE_TAG} says why.",
        tags=request_of(table, request).as_tags(),
    )


def _sensor(asset: dg.AssetsDefinition, table: Table, job: UnresolvedAssetJobDefinition) -> dg.SensorDefinition:
    policy = asset.backfill_policy
    return source_sensor(
        table,
        name=source_sensor_name(table),
        job_name=job.name,
        partitions_per_run=policy.max_partitions_per_run or 1 if policy else 1,
    )


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
                rule="jobs and sensors are named after their table's asset key, with its parts joined by '__'",
                remedy="give one of them another name or key_prefix",
            )


def _described(table: Table) -> str:
    return f"{table.name} ({table.function.__module__}.{table.function.__qualname__})"
