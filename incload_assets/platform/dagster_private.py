"""Names of Dagster that have no public one, in one place. What imports slowly is imported where it is used."""

from collections.abc import Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any

from dagster import AssetKey, DagsterInstance, TimeWindow, TimeWindowPartitionsDefinition
from dagster._check import CheckError as CheckError
from dagster._core.code_pointer import CodePointer as CodePointer
from dagster._core.code_pointer import ModuleCodePointer as ModuleCodePointer
from dagster._core.definitions.assets.graph.asset_graph_subset import AssetGraphSubset
from dagster._core.definitions.partitions.subset import PartitionsSubset as PartitionsSubset
from dagster._core.definitions.partitions.subset import TimeWindowPartitionsSubset as TimeWindowPartitionsSubset
from dagster._core.definitions.reconstruct import ReconstructableRepository as ReconstructableRepository
from dagster._core.definitions.run_request import InstigatorType as InstigatorType
from dagster._core.definitions.unresolved_asset_job_definition import (
    UnresolvedAssetJobDefinition as UnresolvedAssetJobDefinition,
)
from dagster._core.errors import DagsterExecutionInterruptedError as DagsterExecutionInterruptedError
from dagster._core.events import StepMaterializationData as StepMaterializationData
from dagster._core.events.log import EventLogEntry as EventLogEntry
from dagster._core.execution.backfill import BulkActionsFilter as BulkActionsFilter
from dagster._core.execution.backfill import BulkActionStatus as BulkActionStatus
from dagster._core.execution.backfill import PartitionBackfill as PartitionBackfill
from dagster._core.instance.utils import RUNLESS_JOB_NAME as RUNLESS_JOB_NAME
from dagster._core.instance.utils import RUNLESS_RUN_ID as RUNLESS_RUN_ID
from dagster._core.launcher import CheckRunHealthResult as CheckRunHealthResult
from dagster._core.launcher import DefaultRunLauncher as DefaultRunLauncher
from dagster._core.launcher import LaunchRunContext as LaunchRunContext
from dagster._core.launcher import WorkerStatus as WorkerStatus
from dagster._core.loader import LoadingContext as LoadingContext
from dagster._core.remote_origin import GrpcServerCodeLocationOrigin as GrpcServerCodeLocationOrigin
from dagster._core.remote_origin import ManagedGrpcPythonEnvCodeLocationOrigin as ManagedGrpcPythonEnvCodeLocationOrigin
from dagster._core.scheduler.instigation import InstigatorState as InstigatorState
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecord as AssetCheckExecutionRecord
from dagster._core.storage.asset_check_execution_record import (
    AssetCheckExecutionRecordStatus as AssetCheckExecutionRecordStatus,
)
from dagster._core.storage.dagster_run import IN_PROGRESS_RUN_STATUSES as IN_PROGRESS_RUN_STATUSES
from dagster._core.storage.dagster_run import RunsFilter as RunsFilter  # the public one has no time of update
from dagster._core.storage.partition_status_cache import AssetPartitionStatus as AssetPartitionStatus
from dagster._core.storage.partition_status_cache import (
    get_and_update_asset_status_cache_value as get_and_update_asset_status_cache_value,
)
from dagster._core.storage.tags import BACKFILL_ID_TAG as BACKFILL_ID_TAG
from dagster._core.storage.tags import CODE_LOCATION_TAG as CODE_LOCATION_TAG
from dagster._core.storage.tags import GRPC_INFO_TAG as GRPC_INFO_TAG
from dagster._core.storage.tags import RUN_KEY_TAG as RUN_KEY_TAG
from dagster._core.storage.tags import SCHEDULE_NAME_TAG as SCHEDULE_NAME_TAG
from dagster._core.storage.tags import SENSOR_NAME_TAG as SENSOR_NAME_TAG
from dagster._core.storage.tags import USER_TAG as USER_TAG
from dagster._core.utils import make_new_backfill_id
from dagster._grpc.types import ExecuteRunArgs as ExecuteRunArgs
from dagster._serdes import deserialize_value as deserialize_value
from dagster._serdes import serialize_value as serialize_value
from dagster._time import dst_safe_strftime, get_current_timestamp
from dagster._utils import get_run_crash_explanation as get_run_crash_explanation
from dagster._utils.interrupts import check_captured_interrupt as check_captured_interrupt


def time_windows_of(partitions_def: TimeWindowPartitionsDefinition) -> Iterator[tuple[str, TimeWindow]]:
    """The keys of a definition with their windows, oldest first and without end, as its ``get_partition_keys`` does.

    To ask for the keys, and then for the windows of the keys, parses each key, which takes three times as long.
    """
    timezone, fmt, cron = partitions_def.timezone, partitions_def.fmt, partitions_def.cron_schedule
    for window in partitions_def._iterate_time_windows(partitions_def.start_timestamp):
        yield dst_safe_strftime(window.start, timezone, fmt, cron), window


def asset_records(context: LoadingContext, keys: Iterable[AssetKey]) -> dict[AssetKey, Any]:
    """The records of assets, asked for with one question; the context keeps them for others that are given it."""
    from dagster._core.storage.event_log.base import AssetRecord  # SQLAlchemy, which only storage needs

    chosen = list(keys)
    found = zip(chosen, AssetRecord.blocking_get_many(context, chosen), strict=True)
    return {key: record for key, record in found if record is not None}


def execute_run(serialized_args: str) -> None:
    """Executes a run in this process, as ``dagster api execute_run`` does."""
    from dagster._cli.api import execute_run_command  # half a second that only processes of runs need

    execute_run_command.main([serialized_args], standalone_mode=False)


def sqlite_storages() -> tuple[ModuleType, list[ModuleType]]:
    """The module with the statements of Dagster's SQL storages, and its three modules for SQLite."""
    from dagster._core.storage import (
        sql,  # SQLAlchemy and Alembic: half a second, which only processes with an instance need
    )
    from dagster._core.storage.event_log.sqlite import sqlite_event_log  # as above
    from dagster._core.storage.runs.sqlite import sqlite_run_storage  # as above
    from dagster._core.storage.schedules.sqlite import sqlite_schedule_storage  # as above

    return sql, [sqlite_event_log, sqlite_run_storage, sqlite_schedule_storage]


def keep_connection(instance: DagsterInstance) -> None:
    """Keeps a connection to a database of Dagster open, as its webserver does; else each question opens one."""
    if not is_sqlite_event_log(instance.event_log_storage):
        instance.optimize_for_webserver(statement_timeout=0, pool_recycle=3600, max_overflow=20)


def check_tables() -> tuple[Any, Any]:
    """The tables of the results of checks, and of events, in Dagster's SQL storages."""
    from dagster._core.storage.event_log import schema  # as above

    return schema.AssetCheckExecutionsTable, schema.SqlEventLogStorageTable


def is_sqlite_event_log(storage: Any) -> bool:
    """True if Dagster's events are in SQLite files."""
    from dagster._core.storage.event_log.sqlite import SqliteEventLogStorage  # as above

    return isinstance(storage, SqliteEventLogStorage)


def add_backfill(
    instance: DagsterInstance,
    key: AssetKey,
    partitions: PartitionsSubset,
    *,
    tags: Mapping[str, str],
    title: str,
    description: str,
) -> str:
    """Asks for a backfill of partitions of an asset, as its page does; returns the id of the backfill."""
    backfill = PartitionBackfill.from_asset_graph_subset(
        backfill_id=make_new_backfill_id(),
        backfill_timestamp=get_current_timestamp(),
        tags=tags,
        dynamic_partitions_store=instance,
        asset_graph_subset=AssetGraphSubset({key: partitions}, set()),  # type: ignore[call-arg]  # as it is decorated
        title=title,
        description=description,
        run_config=None,
    )
    instance.add_backfill(backfill)
    return str(backfill.backfill_id)
