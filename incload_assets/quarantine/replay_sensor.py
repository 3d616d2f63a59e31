"""Replays that are requested by themselves, after a change of the contract or a decision about rejected rows."""

from collections.abc import Iterator, Sequence

import dagster as dg

from incload_assets.change_log.decisions import decided_at
from incload_assets.change_log.log import ChangeLog
from incload_assets.change_log.payloads import windows_with_payloads
from incload_assets.declaration import window as windows
from incload_assets.declaration.table import Table
from incload_assets.declaration.window import known_windows
from incload_assets.load.faults import Faults
from incload_assets.platform.lake import Lake
from incload_assets.progress.request import Request, request_of

SENSOR = "replay_after_contract_change"
WINDOWS_PER_TICK = 32
"""Most windows of a table that one tick of the sensor requests."""
INTERVAL_SECONDS = 300
_CHANGED = "the contract has changed"
_ACCEPTED = "rows were accepted"


def replay_sensor(tables: Sequence[Table]) -> dg.SensorDefinition:
    """The sensor that requests replays of windows whose rejected rows were validated by other code, or accepted since.

    It requests each window once for each version of the code. A replay that fails is not repeated: the table's own
    sensor loads its window.
    """

    @dg.sensor(
        name=SENSOR,
        asset_selection=dg.AssetSelection.assets(*(table.key for table in tables)),
        minimum_interval_seconds=INTERVAL_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Replays rejected rows after a change of a table's contract or function, and accepted rows.",
        required_resource_keys={"lake"},
    )
    def sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        requests: list[dg.RunRequest] = []
        faults = Faults(context.resources.lake, context.log.error)
        for table in tables:
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
        request = Request(
            action="replay",
            because=_CHANGED if behind[window.key] == table.code_version else _ACCEPTED,
            first=window.key,
            last=window.key,
            code_version=table.code_version,
        )
        yield dg.RunRequest(
            run_key=f"replay:{table.name}:{window.key}:{behind[window.key]}",
            asset_selection=[table.key],
            partition_key=window.key,
            tags=request_of(table, request).as_tags(),
        )


def _validatable(table: Table, log: ChangeLog) -> set[str]:
    """The partition keys of windows whose rejected rows may keep records."""
    delta = log.lake.delta(log.uri)
    since = None if table.quarantine_retention is None else windows.now() - table.quarantine_retention
    return set() if delta is None else windows_with_payloads(delta, since)
