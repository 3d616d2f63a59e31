"""Entries of the audit that are found more than once, and are recorded once.

What a person's run did is recorded by the run itself as soon as it ends. The collection of loads finds it again, with
what a run that failed or was killed could not record.
"""

from collections.abc import Iterable
from dataclasses import replace

import pyarrow.compute as pc

from incload_assets.progress.audit import ATTEMPTS, AuditEntry, append_after, audit_uri, last_entry, written_by_others
from resources.lake import Lake


def record_once(lake: Lake, entries: Iterable[AuditEntry]) -> int:
    """Records what the audit lacks of some entries; returns how many these were.

    Entries about the partitions of a run are known by action, table, run and partition, changed statuses by the event
    that is their reason.

    Args:
        lake: The lake with the audit.
        entries: What was done.

    Raises:
        ConcurrentLoad: Others wrote first in every attempt.
    """
    entries = list(entries)
    if not entries:
        return 0
    known = _known(lake)
    return sum(_recorded(lake, entry) for entry in entries if _lacking(entry, known) is not None)


def _recorded(lake: Lake, entry: AuditEntry) -> bool:
    """Whether the entry had to be written; two writers that find it at once write it once."""
    for _ in range(ATTEMPTS):
        last = last_entry(lake)  # before what is known: what is written in between moves the fence
        missing = _lacking(entry, _known(lake))
        if missing is None:
            return False
        if append_after(lake, last, missing) is not None:
            return True
    raise written_by_others(lake)


def _known(lake: Lake) -> set[tuple[str, ...]]:
    """The partitions by action, table and run, and the statuses by event, that the audit has."""
    delta = lake.delta(audit_uri(lake))
    if delta is None:
        return set()
    columns = ["action", "table", "run_id", "partitions"]
    of_runs = (pc.field("run_id") != "") & (pc.field("action") != "status")
    runs = delta.to_pyarrow_dataset().to_table(columns=columns, filter=of_runs).to_pylist()
    found = {(row["action"], row["table"], row["run_id"], key) for row in runs for key in row["partitions"]}
    rows = delta.to_pyarrow_dataset().to_table(columns=["because"], filter=pc.field("action") == "status").to_pylist()
    return {*found, *(("status", row["because"]) for row in rows)}


def _lacking(entry: AuditEntry, known: set[tuple[str, ...]]) -> AuditEntry | None:
    """The part of an entry that the audit lacks; None if it has all of it."""
    if entry.action == "status":
        return None if (entry.action, entry.because) in known else entry
    keys = [key for key in entry.partitions if (entry.action, entry.table, entry.run_id, key) not in known]
    return replace(entry, partitions=keys) if keys else None
