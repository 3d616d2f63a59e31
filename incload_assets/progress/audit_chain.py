"""The audit as it is read: its entries, and whether anybody has altered them since they were written.

An entry's hash covers its fields and the hash of the entry before, and the fence of the Delta table holds the number of
the last entry. So an entry that was edited, removed or added shows. Who rewrites all hashes and the fence as well is
found by the last entry that this Dagster instance has seen.

Entries whose lifetime is over are removed from the beginning of the chain, see
:mod:`incload_assets.progress.audit_expiry`. An entry of its own, the anchor, tells the number and the hash of the last
one removed, and the instant before which all of them were written. So the chain begins either with its first entry, or
with the one that follows an anchor's.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import dagster as dg
import pyarrow as pa

from incload_assets.platform.lake import Lake
from incload_assets.platform.unreadable import unreadable
from incload_assets.progress.audit import BEGINNING, SCHEMA, WRITER, Anchor, AuditEntry, anchor_in, audit_uri

_SEEN = "incload/audit"


@dataclass(frozen=True)
class Altered:
    """The place from which the audit can no longer be trusted.

    Args:
        number: The first entry that was altered.
        why: What is wrong there.
    """

    number: int
    why: str

    def __str__(self) -> str:
        return f"the audit was altered from entry {self.number} on: {self.why}"


@dataclass(frozen=True)
class Chain:
    """The entries of the audit, and whether they are as they were written.

    Args:
        entries: All entries, oldest first.
        altered: From where on they were altered; None if they were not.
    """

    entries: Sequence[AuditEntry]
    altered: Altered | None


def chain_of(lake: Lake, instance: dg.DagsterInstance | None = None) -> Chain:
    """Reads and verifies the audit; an audit that is found in order is remembered by the instance.

    Args:
        lake: The lake with the audit.
        instance: The instance that remembers the last entry seen; None: only the chain itself is verified.

    Raises:
        LakeUnreadable, StoredFileLost: A commit or a file of it is damaged or gone.

    Example:
        >>> chain_of(lake).altered  # doctest: +SKIP
        Altered(number=3, why='its fields are not what its hash was made of')
    """
    stored, fence = _stored(lake)
    entries, hashes = [_entry(row) for row in stored], [str(row["hash"]) for row in stored]
    altered = _altered(entries, hashes, fence)
    if instance is not None:
        altered = altered or _unlike_seen(entries, hashes, _seen(instance, lake))
        if altered is None and entries:
            at = entries[-1].at
            seen = {"number": entries[-1].number, "hash": hashes[-1], "at": at.isoformat() if at else ""}
            last = json.dumps(seen)
            instance.daemon_cursor_storage.set_cursor_values({_key(lake): last})
    return Chain(entries, altered)


def _stored(lake: Lake) -> tuple[list[dict[str, Any]], int]:
    """The stored rows in the order of their numbers, and the number in the fence."""
    delta = lake.delta(audit_uri(lake))
    if delta is None:
        return [], 0
    try:
        rows = delta.to_pyarrow_table(columns=SCHEMA.names).to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise unreadable(error, audit_uri(lake)) or error from None
    return sorted(rows, key=lambda row: row["number"]), delta.transaction_version(WRITER) or 0


def _entry(row: Mapping[str, Any]) -> AuditEntry:
    fields = {name: value for name, value in row.items() if name != "hash"}
    return AuditEntry(**fields | {"details": json.loads(row["details"])})


def _altered(entries: Sequence[AuditEntry], hashes: Sequence[str], fence: int) -> Altered | None:
    """The first place where the chain is broken."""
    anchor = _anchor_of(entries)
    first, before = anchor.through + 1, anchor.hash
    for expected, (entry, stored) in enumerate(zip(entries, hashes, strict=True), start=first):
        if entry.number < expected:
            return Altered(entry.number, "there are two entries with this number")
        if entry.number > expected:
            return Altered(expected, _missing(expected, entry.number - 1))
        if entry.hash != stored:
            return Altered(expected, "its fields are not what its hash was made of")
        if entry.before != before:
            return Altered(max(expected - 1, 1), f"entry {expected} was written after another one")
        before = stored
    last = first - 1 + len(entries)
    if fence > last:
        return Altered(last + 1, _missing(last + 1, fence))
    if fence < last:
        return Altered(fence + 1, "it was not written by incload")
    return None


def _anchor_of(entries: Sequence[AuditEntry]) -> Anchor:
    """The last anchor before the first entry; the beginning, if the chain begins with entry 1 or lacks an anchor."""
    if not entries or entries[0].number == 1:
        return BEGINNING
    found = [anchor for entry in entries if (anchor := anchor_in(entry)) and anchor.through < entries[0].number]
    return found[-1] if found else BEGINNING


def _missing(first: int, last: int) -> str:
    return "it is missing" if first == last else f"it and the entries up to {last} are missing"


def _seen(instance: dg.DagsterInstance, lake: Lake) -> dict[str, Any]:
    """Number and hash of the last entry that was found in order."""
    key = _key(lake)
    found = instance.daemon_cursor_storage.get_cursor_values({key}).get(key)
    return json.loads(found) if found else {"number": 0, "hash": ""}


def _key(lake: Lake) -> str:
    """The name under which an instance remembers: of the lake, not of its place, where another one may be."""
    return f"{_SEEN} {lake.identity() or lake.root}"


def _unlike_seen(entries: Sequence[AuditEntry], hashes: Sequence[str], seen: Mapping[str, Any]) -> Altered | None:
    number, anchor = seen["number"], _anchor_of(entries)
    last = anchor.through + len(entries)
    if number > last:
        return Altered(last + 1, f"Dagster has seen entries up to {number}, which are missing")
    if number <= anchor.through:
        if seen.get("at", "") >= anchor.older_than > "":
            return Altered(number, "it was removed before its time: Dagster has seen it as a younger one")
        return None
    if number and hashes[number - anchor.through - 1] != seen["hash"]:
        return Altered(number, "it or one before it was written anew, with all hashes: Dagster has seen another one")
    return None


def chosen(chain: Chain, table: str | None = None, since: datetime | None = None) -> list[AuditEntry]:
    """Some entries of the audit, oldest first.

    Args:
        chain: The audit.
        table: Only entries of this table and those that concern all tables; None: of every table.
        since: Only entries from this instant on, aware; None: from the first on.
    """
    return [
        entry
        for entry in chain.entries
        if (table is None or entry.table in ("", table)) and (since is None or (entry.at and entry.at >= since))
    ]
