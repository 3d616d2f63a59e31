"""Entries of the audit that are found more than once, and are recorded once.

What a person's run did is recorded by the run itself as soon as it ends. The collection of loads finds it again, with
what a run that failed or was killed could not record.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import get_args

from incload_assets.platform.lake import Lake
from incload_assets.platform.lake_rows import rows_where
from incload_assets.progress.audit import ATTEMPTS, AuditEntry, append_after, audit_uri, last_entry, written_by_others
from incload_assets.progress.request import RunAction


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
    columns = ["action", "table", "run_id", "partitions", "because"]
    known = rows_where(delta, {"action": [*get_args(RunAction), "status"]}, columns=columns).to_pylist()
    return {
        of_one
        for row in known
        for of_one in (
            [(row["action"], row["because"])]
            if row["action"] == "status"
            else [(row["action"], row["table"], row["run_id"], key) for key in row["partitions"]]
        )
    }


def _lacking(entry: AuditEntry, known: set[tuple[str, ...]]) -> AuditEntry | None:
    """The part of an entry that the audit lacks; None if it has all of it."""
    if entry.action == "status":
        return None if (entry.action, entry.because) in known else entry
    keys = [key for key in entry.partitions if (entry.action, entry.table, entry.run_id, key) not in known]
    return replace(entry, partitions=keys) if keys else None
