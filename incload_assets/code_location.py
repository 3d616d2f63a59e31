"""The definitions of a code location: checks and a sensor for every table, and jobs for all, with one policy."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import dagster as dg

from incload_assets.assets.incremental import table_of
from incload_assets.assets.wrapped import wrapping
from incload_assets.automation import orphaned_runs, watch_sensor
from incload_assets.automation.check_jobs import CHECK_JOBS, CHECK_RECONCILIATION
from incload_assets.automation.reconciliation_schedules import reconciliation_schedules
from incload_assets.checks import checks_for
from incload_assets.declaration.table import Table
from incload_assets.erasure.erase_job import erase_job
from incload_assets.history.expire_runs import EXPIRY_CRON, expire_history_job
from incload_assets.load.replay import unreplayable
from incload_assets.maintenance import JOBS
from incload_assets.maintenance.jobs import schedule_of
from incload_assets.maintenance.request_jobs import REQUEST_JOBS
from incload_assets.monitoring.channels import channels
from incload_assets.monitoring.notify_sensor import notify_sensor
from incload_assets.monitoring.telemetry.sensor import loads_sensor
from incload_assets.platform.errors import DeclarationError, IncrementalLoadError
from incload_assets.platform.lake import Lake
from incload_assets.platform.memory import unsearched
from incload_assets.platform.settings import Settings
from incload_assets.platform.spark.resource import SparkResource
from incload_assets.quarantine.decision_jobs import accept_job, discard_job
from incload_assets.quarantine.replay_sensor import replay_sensor
from incload_assets.restore.adopt_job import adopt_job
from incload_assets.restore.jobs import BACKUP_CRON, backup_job, rebuild_job
from incload_assets.restore.jobs_doctor import doctor_job, pause_job, resume_job
from incload_assets.what_if.plan_job import plan_job
from incload_assets.what_if.shadow_job import shadow_job

BY_HAND = (
    *REQUEST_JOBS, accept_job, discard_job, pause_job, resume_job, plan_job, shadow_job, adopt_job, rebuild_job,
    doctor_job,
)  # fmt: skip
"""Makers of the jobs for people, each over all tables."""


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
    every_night = (*CHECK_JOBS, *JOBS)
    maintenance = [(done, each.cron) for each in every_night if (done := each.definition(tables.values())) is not None]
    replayable = [table for table in tables.values() if not unreplayable(table)]
    backup, expiry, told = backup_job(), expire_history_job(tables.values()), channels(settings)
    return dg.Definitions(
        assets=assets,
        asset_checks=[check for table in tables.values() for check in checks_for(table)],
        jobs=[
            *(job for job, _ in maintenance),
            *(make(tables.values()) for make in BY_HAND if tables),
            *([backup, expiry] if tables else []),
            *([erase_job(tables.values())] if any(table.subject for table in tables.values()) else []),
        ],
        schedules=[
            *(
                each
                for job, _ in maintenance
                if job.name == CHECK_RECONCILIATION.name
                for each in reconciliation_schedules(tables.values(), job)
            ),
            *(schedule_of(job, cron) for job, cron in maintenance if cron),
            *([schedule_of(backup, BACKUP_CRON), schedule_of(expiry, EXPIRY_CRON)] if tables else []),
        ],
        sensors=[
            *([watch_sensor({table: _partitions_per_run(asset) for asset, table in tables.items()})] if tables else []),
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
    with unsearched(stays=True):
        return _definitions_of(Path(file).parent, resources, settings or Settings(), leave_out)


def _definitions_of(
    folder: Path, resources: Mapping[str, Any] | None, settings: Settings, leave_out: str | None
) -> dg.Definitions:
    try:
        with wrapping():
            found = dg.load_from_defs_folder(path_within_project=folder)
    except Exception as error:  # of Dagster, which shows the folder's tree in place of what is wrong
        raise next((cause for cause in _causes(error) if isinstance(cause, IncrementalLoadError)), error) from None
    assets = {id(each): each for each in found.assets or ()}.values()  # a module may import the table of another
    tables = [each for each in assets if isinstance(each, dg.AssetsDefinition) and not _in_package(each, leave_out)]
    return dg.Definitions.merge(
        incremental_definitions(tables, settings, resources),
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


def _partitions_per_run(asset: dg.AssetsDefinition) -> int:
    policy = asset.backfill_policy
    return policy.max_partitions_per_run or 1 if policy else 1


def _expect_distinct_targets(tables: Sequence[Table], lake: Lake) -> None:
    """Refuses two tables in the same folder, or in nested ones, where a vacuum of the outer would destroy the inner.

    The comparison ignores case, because some file systems do. It also refuses two keys that are the same with
    their parts joined.
    """
    places = sorted((f"{lake.table_uri(table.key.path).casefold()}/", place) for place, table in enumerate(tables))
    for (outer, one), (inner, other) in pairwise(places):  # what begins with a text stands right behind it
        if inner.startswith(outer):
            pair = [tables[place] for place in sorted((one, other))]
            uris = [lake.table_uri(table.key.path) for table in pair]
            raise DeclarationError(
                f"{' and '.join(map(_described, pair))} would be written to {uris[0]}"
                + (f" and {uris[1]}" if uris[0] != uris[1] else ""),
                rule="each table has a folder of its own in the lake, named after its asset key",
                remedy="give one of them another name or key_prefix",
            )
    named: dict[str, Table] = {}
    for table in tables:
        if (other_table := named.setdefault(table.identifier, table)) is not table:
            raise DeclarationError(
                f"{_described(other_table)} and {_described(table)} would both have the checks' step "
                f"{table.identifier}",
                rule="steps of checks are named after their table's asset key, with its parts joined by '__'",
                remedy="give one of them another name or key_prefix",
            )


def _described(table: Table) -> str:
    return f"{table.name} ({table.function.__module__}.{table.function.__qualname__})"
