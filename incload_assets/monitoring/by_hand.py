"""What people did in Dagster's UI, recorded in the audit: loads by hand and backfills, and statuses that they changed.

It is found where loads are collected, off the path of any load. Each is recorded once, however often it is found.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import groupby

import dagster as dg
from dagster._core.instance.utils import RUNLESS_RUN_ID  # has no public name

from incload_assets.monitoring.load_row import LoadRow, Trigger
from incload_assets.progress.audit import ATTEMPTS, AuditEntry, append_after, audit_uri, last_entry, written_by_others
from resources.lake import Lake
from resources.lake_rows import rows_where

BY_A_PERSON: Collection[Trigger] = ("person", "backfill", "terminal")
SOMEBODY = "somebody in Dagster"


def loads_by_hand(rows: Sequence[LoadRow]) -> list[AuditEntry]:
    """An entry for each run that a person started, with the partitions it tried; in the order in which they ended.

    Args:
        rows: Attempts to load windows, of any origin.
    """
    chosen = sorted((row for row in rows if row.trigger in BY_A_PERSON), key=lambda row: (row.table, row.run_id))
    found = list[tuple[datetime, AuditEntry]]()
    for (table, run_id), group in groupby(chosen, key=lambda row: (row.table, row.run_id)):
        attempts = sorted(group, key=lambda row: row.window_start)
        loaded = sum(row.outcome == "loaded" for row in attempts)
        ended = max(row.ended_at for row in attempts)
        entry = AuditEntry(
            action="load",
            table=table,
            partitions=list(dict.fromkeys(row.window for row in attempts)),
            actor=attempts[0].asked_by or SOMEBODY,
            run_id=run_id,
            details={
                "by": attempts[0].trigger,
                "ended": ended.isoformat(timespec="seconds"),
                "loaded": str(loaded),
                "failed": str(len(attempts) - loaded),
            },
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


def record_by_hand(lake: Lake, entries: Iterable[AuditEntry]) -> int:
    """Records what the audit lacks of some entries; returns how many these were.

    Args:
        lake: The lake with the audit.
        entries: By :func:`loads_by_hand`, :func:`marked` and :func:`wiped`.

    Raises:
        ConcurrentLoad: Others wrote first in every attempt.
    """
    entries = list(entries)
    if not entries:
        return 0
    known = _known(lake)
    return sum(_recorded(lake, entry) for entry in entries if _lacking(entry, known) is not None)


def _recorded(lake: Lake, entry: AuditEntry) -> bool:
    """Whether the entry had to be written; two collectors that find it at once write it once."""
    for _ in range(ATTEMPTS):
        last = last_entry(lake)  # before what is known: what is written in between moves the fence
        missing = _lacking(entry, _known(lake))
        if missing is None:
            return False
        if append_after(lake, last, missing) is not None:
            return True
    raise written_by_others(lake)


def _known(lake: Lake) -> set[tuple[str, ...]]:
    """The loaded partitions by table and run, and the events, that the audit has."""
    delta = lake.delta(audit_uri(lake))
    if delta is None:
        return set()
    columns = ["action", "table", "run_id", "partitions"]
    loads = rows_where(delta, {"action": ["load"]}, columns=columns).to_pylist()
    found: set[tuple[str, ...]] = {(row["table"], row["run_id"], key) for row in loads for key in row["partitions"]}
    rows = rows_where(delta, {"action": ["status"]}, columns=["because"]).to_pylist()
    return found | {(row["because"],) for row in rows}


def _lacking(entry: AuditEntry, known: set[tuple[str, ...]]) -> AuditEntry | None:
    """The part of an entry that the audit lacks; None if it has all of it."""
    if entry.action == "status":
        return None if (entry.because,) in known else entry
    keys = [key for key in entry.partitions if (entry.table, entry.run_id, key) not in known]
    return replace(entry, partitions=keys) if keys else None


def _status(table_name: str, keys: list[str], what: str, record: dg.EventLogRecord, instance: str) -> AuditEntry:
    return AuditEntry(
        action="status",
        table=table_name,
        partitions=keys,
        actor=SOMEBODY,
        because=f"{what} in Dagster, event {record.storage_id} of {instance[:8]}",
        details={"happened": datetime.fromtimestamp(record.timestamp, UTC).isoformat(timespec="seconds")},
    )
