"""Replays and fills from the Dagster UI; replays also by themselves after a change of the contract."""

from collections.abc import Iterable, Iterator, Mapping

import dagster as dg

from incload_assets.change_log.decisions import decided_at
from incload_assets.change_log.log import ChangeLog
from incload_assets.change_log.payloads import windows_with_payloads
from incload_assets.declaration import window as windows
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import known_windows
from incload_assets.load.faults import Faults
from incload_assets.load.fill import unfillable
from incload_assets.load.replay import unreplayable
from incload_assets.platform.dagster_private import UnresolvedAssetJobDefinition
from incload_assets.platform.lake import Lake
from incload_assets.progress.request import Request, RunAction, request_of

SENSOR = "replay_after_contract_change"
WINDOWS_PER_TICK = 32
"""Most windows of a table that one tick of the sensor requests."""
INTERVAL_SECONDS = 300
_CHANGED = "the contract has changed"
_ACCEPTED = "rows were accepted"


def replay_job_name(table: Table) -> str:
    """The name of the job that replays the quarantine of a table, for example ``replay_orders``."""
    return f"replay_{table.identifier}"


def replay_jobs(tables: Iterable[Table]) -> dict[Table, UnresolvedAssetJobDefinition]:
    """A job for each table whose rejected rows can be validated again.

    It is a load of the table's partitions with the tag of a replay, so a replay that fails or is killed leaves its
    partitions failed, and the table's sensor loads them.
    """
    about = "Validates the rejected rows of partitions of {} again, without their source."
    return {table: _job(table, replay_job_name(table), about, "replay") for table in tables if not unreplayable(table)}


def fill_jobs(tables: Iterable[Table]) -> list[UnresolvedAssetJobDefinition]:
    """A job for each table whose columns can be filled from its log; a load with the tag of a fill, as for replays."""
    about = "Gives columns of {} that were declared later the values that the log rescued, without the source."
    return [_job(table, f"fill_{table.identifier}", about, "fill") for table in tables if not unfillable(table)]


def _job(table: Table, name: str, about: str, action: RunAction) -> UnresolvedAssetJobDefinition:
    return dg.define_asset_job(
        name,
        selection=dg.AssetSelection.assets(table.key),
        description=about.format(table.name),
        tags=request_of(table, Request(action=action)).as_tags(),
    )


def replay_sensor(jobs: Mapping[Table, UnresolvedAssetJobDefinition]) -> dg.SensorDefinition:
    """The sensor that requests replays of windows whose rejected rows were validated by other code, or accepted since.

    It requests each window once for each version of the code. A replay that fails is not repeated: the table's own
    sensor loads its window.
    """

    @dg.sensor(
        name=SENSOR,
        jobs=list(jobs.values()),
        minimum_interval_seconds=INTERVAL_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Replays rejected rows after a change of a table's contract or function, and accepted rows.",
        required_resource_keys={"lake"},
    )
    def sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        requests: list[dg.RunRequest] = []
        faults = Faults(context.resources.lake, context.log.error)
        for table in jobs:
            with faults.of(table):
                requests += replay_requests(table, context.resources.lake)
        if not requests:
            told = [*faults.found.values(), "All rejected rows were validated by the present code."]
            return dg.SkipReason(" ".join(told))
        return dg.SensorResult(run_requests=requests)

    return sensor


def replay_requests(table: Table, lake: Lake) -> Iterator[dg.RunRequest]:
    """Requests for the newest windows with rows that other code rejected, or that people have accepted since then.

    Dagster drops repeated requests.
    """
    log = ChangeLog(table, lake)
    records, decided = log.records(), decided_at(lake, table)
    validatable = _validatable(table, log)
    behind: dict[str, str] = {}
    for key, record in records.items():
        if record.held is not None:
            continue
        if key in decided and decided[key][1] > record.landed_at:
            behind[key] = f"{table.code_version}:{decided[key][0]}"
        elif record.rejected and record.code_version != table.code_version and key in validatable:
            behind[key] = table.code_version
    for window in known_windows(table.partitions_def, list(behind))[-WINDOWS_PER_TICK:]:
        yield dg.RunRequest(
            run_key=f"replay:{table.name}:{window.key}:{behind[window.key]}",
            job_name=replay_job_name(table),
            partition_key=window.key,
            tags=Request(
                action="replay",
                because=_CHANGED if behind[window.key] == table.code_version else _ACCEPTED,
                table=table.name,
                first=window.key,
                last=window.key,
                code_version=table.code_version,
            ).as_tags(),
        )


def _validatable(table: Table, log: ChangeLog) -> set[str]:
    """The partition keys of windows whose rejected rows may keep records."""
    delta = log.lake.delta(log.uri)
    since = None if table.quarantine_retention is None else windows.now() - table.quarantine_retention
    return set() if delta is None else windows_with_payloads(delta, since)
