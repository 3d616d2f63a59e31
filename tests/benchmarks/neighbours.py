"""Tables that Dagster knows of beside the one that is looked at."""

import sqlite3
from collections.abc import Iterable
from contextlib import closing

import dagster as dg
from dagster._core.storage.event_log import SqliteEventLogStorage
from dagster._core.storage.event_log.sqlite.sqlite_event_log import INDEX_SHARD_NAME

COPIES = (
    "INSERT INTO event_logs (run_id, event, dagster_event_type, timestamp, asset_key, partition) "
    "SELECT run_id, replace(event, :was, :name), dagster_event_type, timestamp, replace(asset_key, :was, :name), "
    "partition FROM event_logs WHERE asset_key = :key",
    "INSERT INTO asset_event_tags (event_id, asset_key, key, value, event_timestamp) "
    "SELECT copy.id, copy.asset_key, tag.key, tag.value, tag.event_timestamp FROM asset_event_tags AS tag "
    "JOIN event_logs AS event ON event.id = tag.event_id JOIN event_logs AS copy "
    "ON copy.partition = event.partition AND copy.asset_key = replace(tag.asset_key, :was, :name) "
    "WHERE tag.asset_key = :key",
    "INSERT INTO asset_keys (asset_key, last_materialization, last_run_id, last_materialization_timestamp) "
    "SELECT replace(asset_key, :was, :name), replace(last_materialization, :was, :name), last_run_id, "
    "last_materialization_timestamp FROM asset_keys WHERE asset_key = :key",
)
"""Statements that write a table's history once more, under another name."""


def multiply(instance: dg.DagsterInstance, table: str, names: Iterable[str]) -> None:
    """Give Dagster tables with the history of another one: one by one, their events would take hours.

    Args:
        instance: With its events in SQLite.
        table: Asset that was materialized; its name occurs nowhere else in its events.
        names: Of the others.
    """
    storage = instance.event_log_storage
    assert isinstance(storage, SqliteEventLogStorage)
    with closing(sqlite3.connect(storage.path_for_shard(INDEX_SHARD_NAME))) as connection, connection:
        for name in names:
            for statement in COPIES:
                connection.execute(statement, {"was": table, "name": name, "key": dg.AssetKey(table).to_string()})
