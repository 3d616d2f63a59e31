"""Replays that are requested by themselves, after a change of the contract or a decision about rejected rows."""

import time
from collections.abc import Iterator, Sequence

import dagster as dg

from incload_assets.change_log.decisions import decided_at, decisions_uri
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
INTERVAL_SECONDS, BUDGET = 300, 25.0
"""How often the sensor looks, and for how many seconds at a time: Dagster ends a tick after 60."""
_CHANGED = "the contract has changed"
_ACCEPTED = "rows were accepted"


def replay_sensor(tables: Sequence[Table]) -> dg.SensorDefinition:
    """The sensor that requests replays of windows whose rejected rows were validated by other code, or accepted since.

    It requests each window once for each version of the code. A replay that fails is not repeated: the table's own
    sensor loads its window. A table without such windows is looked at again when its log, or the decisions, have got a
    commit. A tick that takes too long goes on with the next table in the following one.
    """
    quiet: dict[str, tuple[str | None, str | None]] = {}

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
        lake: Lake = context.resources.lake
        faults, began = Faults(lake, context.log.error), time.monotonic()
        decisions = lake.commits(decisions_uri(lake))
        first = next((place for place, table in enumerate(tables) if table.name == context.cursor), 0)
        goes_on_at = ""
        for table in (*tables[first:], *tables[:first]):
            if time.monotonic() - began > BUDGET:
                goes_on_at = table.name
                break
            with faults.of(table):
                state = (lake.commits(lake.log_uri(table.key.path)), decisions)
                if quiet.get(table.name) == state:
                    continue
                found = [*replay_requests(table, lake)]
                requests += found
                if not found:
                    quiet[table.name] = state
        context.update_cursor(goes_on_at)
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
