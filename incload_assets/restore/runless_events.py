"""Materializations that no run made, recorded in batches: Dagster records them one by one, each with its own commits.

For 10,000 partitions these commits take longer than all the rest of a rebuild. Dagster's Postgres storage has a batch
for this. Its SQLite storage has none, so the same statements are executed here in one transaction.
"""

import logging
import time
from collections.abc import Sequence
from typing import Any

import dagster as dg
from dagster import DagsterEvent, DagsterEventType

from incload_assets.platform.dagster_private import (
    RUNLESS_JOB_NAME,
    RUNLESS_RUN_ID,
    EventLogEntry,
    StepMaterializationData,
    is_sqlite_event_log,
)


def report_materializations(instance: dg.DagsterInstance, events: Sequence[dg.AssetMaterialization]) -> None:
    """Records materializations of one asset all at once, as Dagster's ``report_runless_asset_event`` records each."""
    if not events:
        return
    entries, storage = [_entry(event) for event in events], instance.event_log_storage
    if is_sqlite_event_log(storage):
        _store(storage, entries)
    else:
        storage.store_event_batch(entries)


def _entry(event: dg.AssetMaterialization) -> EventLogEntry:
    happened = DagsterEvent(
        event_type_value=DagsterEventType.ASSET_MATERIALIZATION.value,
        event_specific_data=StepMaterializationData(event),
        job_name=RUNLESS_JOB_NAME,
    )
    make: Any = EventLogEntry  # its constructor has no types
    entry: EventLogEntry = make(
        error_info=None,
        level=logging.INFO,
        user_message="",
        run_id=RUNLESS_RUN_ID,
        timestamp=time.time(),
        job_name=RUNLESS_JOB_NAME,
        dagster_event=happened,
    )
    return entry


def _store(storage: Any, entries: Sequence[EventLogEntry]) -> None:
    """Stores entries as the storage's ``store_event`` does, in one transaction for each of its two files."""
    statements, numbers = [storage.prepare_insert_event(entry) for entry in entries], []
    with storage.run_connection(RUNLESS_RUN_ID) as connection:
        for statement in statements:
            connection.execute(statement)
    with storage.index_transaction() as connection:
        for statement in statements:
            key = connection.execute(statement).inserted_primary_key
            assert key is not None
            numbers.append(int(key[0]))
        storage._store_asset_event_tags(connection, entries, numbers)
        storage._store_asset_event(connection, entries[-1], numbers[-1])
