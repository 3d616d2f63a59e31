"""Results of checks that say the same as the one before: of such, Dagster keeps the first and the last.

Dagster stores a result two or three times and has no way to remove one. A thousand tables that repeat theirs every six
hours would write 150 MB a day.
"""

from datetime import UTC, datetime
from typing import Any

import dagster as dg

from incload_assets.platform.dagster_private import (
    RUNLESS_RUN_ID,
    AssetCheckExecutionRecord,
    check_tables,
    is_sqlite_event_log,
)
from incload_assets.progress.verdicts import Verdict, evaluation_of, verdicts_before

SINCE = "unchanged_since"
"""Metadata of a repeated result: when the first that says so was observed, ISO 8601."""


def record_repeat(
    instance: dg.DagsterInstance, key: dg.AssetCheckKey, result: dg.AssetCheckResult, last: Verdict
) -> None:
    """Records a result that says the same as the last one, in its place if that was a repeat, too."""
    since = (last[1].metadata or {}).get(SINCE, dg.MetadataValue.text(last[0].isoformat()))
    told = result._replace(metadata={**(result.metadata or {}), SINCE: since})
    instance.report_runless_asset_event(evaluation_of(key, told))
    for record in verdicts_before(instance, key):
        if record.run_id == RUNLESS_RUN_ID and record.evaluation and SINCE in record.evaluation.metadata:
            _remove(instance, record)


def _remove(instance: dg.DagsterInstance, record: AssetCheckExecutionRecord) -> None:
    """Removes a result that no run made."""
    storage: Any = instance.event_log_storage  # each SQL storage has connections to its tables
    (results, events), evaluation = check_tables(), dg.DagsterEventType.ASSET_CHECK_EVALUATION.value
    said = (events.c.run_id == RUNLESS_RUN_ID) & (events.c.dagster_event_type == evaluation)
    with storage.index_connection() as connection:
        row = connection.execute(results.select().where(results.c.id == record.id)).mappings().one()
        connection.execute(events.delete().where(said, events.c.id == row["evaluation_event_storage_id"]))
        connection.execute(results.delete().where(results.c.id == record.id))
    if is_sqlite_event_log(storage):  # which has runless events in a file of their own, too, with other numbers
        assert record.event is not None
        at = datetime.fromtimestamp(record.event.timestamp, UTC).replace(tzinfo=None)
        with storage.run_connection(RUNLESS_RUN_ID) as connection:
            connection.execute(events.delete().where(said, events.c.timestamp == at))
