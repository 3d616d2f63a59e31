"""Entries of the audit about what people did in Dagster: runs that they started, and statuses that they changed.

They are found where loads are collected, off the path of any load.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import get_args

import dagster as dg

from incload_assets.history.load_row import LoadRow, Trigger
from incload_assets.platform.dagster_private import RUNLESS_RUN_ID
from incload_assets.progress.audit import FAILED, Action, AuditEntry
from incload_assets.progress.request import RunAction

BY_A_PERSON: Collection[Trigger] = ("person", "backfill", "terminal")
SOMEBODY = "somebody in Dagster"
_ACTIONS: Mapping[str, Action] = {action: action for action in get_args(RunAction)}


def runs_by_hand(rows: Sequence[LoadRow], reasons: Mapping[str, str]) -> list[AuditEntry]:
    """Entries about runs that people started: one for the partitions that a run did, one for those it failed to do.

    They are in the order in which the runs ended.

    Args:
        rows: Attempts to load windows, of any origin.
        reasons: The reasons given, by run.
    """

    def of_one_entry(row: LoadRow) -> tuple[str, str, bool]:
        return row.table, row.run_id, row.outcome != "loaded"

    chosen = sorted((row for row in rows if row.trigger in BY_A_PERSON), key=of_one_entry)
    found = list[tuple[datetime, AuditEntry]]()
    for (table, run_id, unfinished), group in groupby(chosen, key=of_one_entry):
        attempts = sorted(group, key=lambda row: row.window_start)
        ended = max(row.ended_at for row in attempts)
        errors = ", ".join(sorted({row.error_class or row.outcome for row in attempts}))
        entry = AuditEntry(
            action=_ACTIONS.get(attempts[0].why, "load"),
            table=table,
            partitions=list(dict.fromkeys(row.window for row in attempts)),
            actor=attempts[0].asked_by or SOMEBODY,
            because=reasons.get(run_id, ""),
            run_id=run_id,
            details={"by": attempts[0].trigger, "ended": ended.isoformat(timespec="seconds")}
            | ({FAILED: errors} if unfinished else {}),
        )
        found.append((ended, entry))
    return [entry for _, entry in sorted(found, key=lambda each: each[0])]


def marked(table_name: str, record: dg.EventLogRecord, instance: str) -> AuditEntry:
    """The entry for a partition that a person marked as materialized.

    Args:
        table_name: The table's name.
        record: The materialization's event.
        instance: The identity of the Dagster instance.
    """
    keys = [record.partition_key] if record.partition_key is not None else []
    return _status(table_name, keys, "marked as materialized", record, instance)


def wiped(instance: dg.DagsterInstance, names: Mapping[dg.AssetKey, str], identity: str) -> list[AuditEntry]:
    """An entry for each time that a person wiped the materializations of a table.

    Args:
        instance: The instance with the events.
        names: The tables' names by asset key.
        identity: The identity of the instance.
    """
    # they belong to no run, and are few; the default storage has no cursor over events of this type
    records = instance.get_records_for_run(RUNLESS_RUN_ID, of_type=dg.DagsterEventType.ASSET_WIPED).records
    found = []
    for record in records:
        event = record.event_log_entry.dagster_event
        name = names.get(event.asset_key) if event is not None and event.asset_key is not None else None
        if event is not None and name is not None:
            keys = list(getattr(event.event_specific_data, "partition_keys", None) or [])
            found.append(_status(name, keys, "wiped", record, identity))
    return found


def _status(table_name: str, keys: list[str], what: str, record: dg.EventLogRecord, instance: str) -> AuditEntry:
    return AuditEntry(
        action="status",
        table=table_name,
        partitions=keys,
        actor=SOMEBODY,
        because=f"{what} in Dagster, event {record.storage_id} of {instance[:8]}",
        details={"happened": datetime.fromtimestamp(record.timestamp, UTC).isoformat(timespec="seconds")},
    )
