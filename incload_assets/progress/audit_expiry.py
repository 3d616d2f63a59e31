"""Removal of entries of the audit at the end of their lifetime, so that the chain can still be verified.

Each entry carries the hash of the one before, so entries can only be removed from the beginning of the chain, and the
first one that is left refers to an entry that is gone. A removal therefore

1. appends an entry ``expire``, the anchor: number and hash of the last entry to be removed, and the instant before
   which all of them were written. It is an entry like any other, so altering it breaks the chain.
2. removes the entries up to that number, in one commit.

A removal that ends between the two steps leaves a whole chain, and the next one completes it. Whoever removes entries
without an anchor breaks the chain. Who writes an anchor to remove younger entries has to lie about their time: that
shows where a Dagster instance has seen one of them, because it remembers the time of the last entry.

Anchors alone are no reason for a removal: each one would leave another one for ever.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import takewhile

from deltalake.exceptions import CommitFailedError

from incload_assets.platform.errors import IncrementalLoadError
from incload_assets.platform.lake import Lake
from incload_assets.progress.audit import Anchor, AuditEntry, anchor_in, audit_uri, record
from incload_assets.progress.audit_chain import chain_of

FILES_KEPT = timedelta(days=7)
"""How long files with removed entries stay, for readers that have just opened the audit, and for a RESTORE."""


@dataclass(frozen=True)
class AuditExpired:
    """The counts of a removal of entries.

    Args:
        before: Number of entries before.
        after: Number of entries after it, including the anchor.
        removed: Number of entries removed.
        files: Number of files removed that held entries removed before.
    """

    before: int = 0
    after: int = 0
    removed: int = 0
    files: int = 0


def expire_audit(
    lake: Lake, older_than: datetime, *, run_id: str = "", files_kept: timedelta = FILES_KEPT
) -> AuditExpired:
    """Removes the entries of the audit that were written before an instant, from the first one on.

    Args:
        lake: The lake with the audit.
        older_than: The instant, aware.
        run_id: The run, recorded in the anchor.
        files_kept: How long files with removed entries stay.

    Raises:
        IncrementalLoadError: The audit was altered; nothing was removed, so that it can be examined.
        ConcurrentLoad: Others wrote first in every attempt.

    Example:
        >>> expire_audit(lake, now() - timedelta(days=400))  # doctest: +SKIP
        AuditExpired(before=812, after=807, removed=6, files=0)
    """
    found = chain_of(lake)
    if found.altered is not None:
        raise IncrementalLoadError(
            str(found.altered),
            rule="entries are removed only from an audit that nobody has altered",
            remedy="see incload audit; bring removed entries back with a RESTORE of that Delta table",
        )
    entries = found.entries
    anchor = _unfinished(entries)
    if anchor is None and (last := _last_before(entries, older_than)) is not None:
        anchor = _anchored(lake, last, older_than, run_id)
    removed = 0
    if anchor is not None and _removed(lake, anchor):
        removed = sum(entry.number <= anchor.through for entry in entries)
    after = len(chain_of(lake).entries) if anchor is not None else len(entries)
    return AuditExpired(len(entries), after, removed, _vacuum(lake, files_kept))


def _unfinished(entries: Sequence[AuditEntry]) -> Anchor | None:
    """The anchor of a removal that ended before its second step."""
    anchors = [anchor for entry in entries if (anchor := anchor_in(entry)) is not None]
    return anchors[-1] if anchors and anchors[-1].through >= entries[0].number else None


def _last_before(entries: Sequence[AuditEntry], older_than: datetime) -> AuditEntry | None:
    """The last of the entries at the beginning that were written before an instant; None if all are anchors."""
    old = list(takewhile(lambda entry: entry.at is not None and entry.at < older_than, entries))
    return old[-1] if any(anchor_in(entry) is None for entry in old) else None


def _anchored(lake: Lake, last: AuditEntry, older_than: datetime, run_id: str) -> Anchor:
    """Appends the anchor of a removal."""
    anchor = Anchor(last.number, last.hash, older_than.astimezone(UTC).isoformat())
    details = {name: str(value) for name, value in anchor._asdict().items()}
    record(lake, AuditEntry(action="expire", because="their lifetime is over", run_id=run_id, details=details))
    return anchor


def _removed(lake: Lake, anchor: Anchor) -> bool:
    """Removes the entries that an anchor covers; False if others wrote first: the next night does it."""
    delta = lake.delta(audit_uri(lake))
    assert delta is not None
    try:
        delta.delete(f"number <= {anchor.through}")
    except CommitFailedError:
        return False
    delta.create_checkpoint()
    return True


def _vacuum(lake: Lake, kept: timedelta) -> int:
    """Removes files and commits that are no longer part of the audit; returns the number of files."""
    if (delta := lake.delta(audit_uri(lake))) is None:
        return 0
    hours = round(kept / timedelta(hours=1))
    gone = delta.vacuum(hours, dry_run=False, enforce_retention_duration=False)
    delta.cleanup_metadata()
    return len(gone)
