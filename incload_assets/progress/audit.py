"""The audit: what people did to tables, as a chain in which each entry carries the hash of the entry before it.

An entry is appended to the Delta table ``_audit`` under a fence that holds the number of the last entry: of two people
who act at once one writes after the other, and an entry that was edited, removed or added shows.

Old entries are removed from the beginning of the chain, after an entry ``expire``, the anchor, was appended with number
and hash of the last one to be removed. The next removal completes one that was interrupted. The chain begins with entry
1, or with the one that follows an anchor's.
"""

import getpass
import hashlib
import json
import os
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import Literal, NamedTuple, get_args

import dagster as dg
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError

from incload_assets.declaration import window as windows
from incload_assets.platform.attempts import in_attempts
from incload_assets.platform.errors import ConcurrentLoad, IncrementalLoadError, LakeUnreadable, StoredFileLost
from incload_assets.platform.lake import AUDIT_FOLDER, Lake
from incload_assets.platform.lake_rows import rows_where
from incload_assets.platform.unreadable import unreadable
from incload_assets.progress.request import RunAction

Action = Literal[
    "load", "plan", "undo", "hold", "release", "pause", "resume", "silence", "unsilence", "replay", "fill", "accept",
    "discard", "fix", "rebuild", "backup", "restore", "adopt", "contract", "read", "status", "expire", "erase",
    "rebucket",
]  # fmt: skip
DAMAGED = (LakeUnreadable, StoredFileLost, OSError, pa.ArrowException)
"""The errors of reading an audit if a commit or a file of it is damaged or gone."""
WRITER = "incload/audit"  # the identifier of the fence of entries
FAILED = "failed"
"""The detail with the errors' classes, in an entry about what was not finished; former versions counted loads in it."""
ATTEMPTS, FILES = 20, 100
"""The attempts to write an entry, and the number of entries after which their files are put together."""
FILES_KEPT = timedelta(days=7)
"""How long files with removed entries stay, for readers that have just opened the audit, and for a RESTORE."""
_CI = ("GITHUB_ACTOR", "GITLAB_USER_LOGIN", "BUILD_USER")
_TEXTS = ("actor", "host", "because", "run_id", "details", "before", "hash")
SCHEMA = pa.schema(
    [("number", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("action", pa.string()), ("table", pa.string()),
     ("partitions", pa.list_(pa.string())), *((name, pa.string()) for name in _TEXTS)]
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class AuditEntry:
    """One thing that a person did, or a change of a contract that a load has applied.

    Without a table it concerns all tables, without partitions the whole table. The actor is known by the operating
    system, CI or Dagster's user tag. Details never hold values of rows. Numbers begin with 1.
    """

    action: Action
    table: str = ""
    partitions: Sequence[str] = ()
    actor: str = ""
    host: str = ""
    because: str = ""
    run_id: str = ""
    details: Mapping[str, str] = field(default_factory=dict)
    number: int = 0
    at: datetime | None = None
    before: str = ""

    @property
    def hash(self) -> str:
        """The hash of the entry, which covers all fields and so the hash of the entry before."""
        fields = asdict(self) | {"partitions": list(self.partitions), "at": self.at.isoformat() if self.at else ""}
        return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


class Altered(NamedTuple):
    """The first entry from which on the audit can no longer be trusted, and what is wrong there."""

    number: int
    why: str

    def __str__(self) -> str:
        return f"the audit was altered from entry {self.number} on: {self.why}"


class Chain(NamedTuple):
    """All entries of the audit, oldest first, and from where on they were altered; None if they were not."""

    entries: Sequence[AuditEntry]
    altered: Altered | None


class AuditExpired(NamedTuple):
    """The numbers of entries before and after a removal, of removed ones, and of files of those removed before."""

    before: int = 0
    after: int = 0
    removed: int = 0
    files: int = 0


def actor_of(run: dg.DagsterRun | None = None) -> str:
    """The person who acts: the user whom Dagster knows, who started the CI, or the operating system's user."""
    named = run.tags.get("user") if run is not None else None
    return named or next((os.environ[name] for name in _CI if os.environ.get(name)), "") or getpass.getuser()


def record(lake: Lake, entry: AuditEntry) -> AuditEntry:
    """Appends an entry to the audit; actor, host, time, number and hash of the entry before are filled in."""
    written = record_if(lake, lambda: entry)
    assert written is not None
    return written


def record_if(lake: Lake, entry: Callable[[], AuditEntry | None]) -> AuditEntry | None:
    """Appends an entry that depends on the audit, if there is one; asked again each time that others wrote first."""

    def written() -> tuple[AuditEntry | None] | None:
        last = _last(lake)  # before what the entry depends on: what is written in between moves the fence
        if (wanted := entry()) is None:
            return (None,)
        made = _append_after(lake, *last, wanted)
        return None if made is None else (made,)

    lost = ConcurrentLoad(
        f"the audit in {audit_uri(lake)} was written by others in each of {ATTEMPTS} attempts",
        rule="entries of the audit are written one after another",
        remedy="try again",
    )
    return in_attempts(ATTEMPTS, written, lost)[0]


def record_once(lake: Lake, entries: Iterable[AuditEntry]) -> int:
    """Records the entries that the audit lacks; returns their number.

    A run records what it did as it ends. The collection of loads finds it again, and what a killed run did. Partitions
    of a run are known by action, table, run and key, changed statuses by the event that is their reason.
    """
    if not (entries := list(entries)):
        return 0
    known = _known(lake)
    lacking = [entry for entry in entries if _lacking(entry, known) is not None]
    written = (record_if(lake, lambda one=one: _lacking(one, _known(lake))) for one in lacking)  # type: ignore[misc]
    return sum(one is not None for one in written)


def audit_uri(lake: Lake) -> str:
    """The URI of the lake's audit."""
    return f"{lake.root}/{AUDIT_FOLDER}"


def _append_after(lake: Lake, number: int, before: str, entry: AuditEntry) -> AuditEntry | None:
    """Appends an entry if no other was appended since the last one was read."""
    actor, host = entry.actor or actor_of(), entry.host or socket.gethostname()
    whole = replace(entry, actor=actor, host=host, at=windows.now(), number=number + 1, before=before)
    if not lake.append(audit_uri(lake), _as_arrow(whole), WRITER, whole.number):
        return None
    if whole.number % FILES == 0 and (delta := lake.delta(audit_uri(lake))) is not None:
        with suppress(DeltaError):  # others write at this moment: the next hundred entries are put together, too
            delta.optimize.compact()
            delta.create_checkpoint()
    return whole


def _last(lake: Lake) -> tuple[int, str]:
    """Number and hash of the last entry; 0 if there is none."""
    delta = lake.delta(audit_uri(lake))
    number = (delta.transaction_version(WRITER) or 0) if delta is not None else 0
    if delta is None or not number:
        return 0, ""
    found = rows_where(delta, {"number": [number]}, columns=["hash"])
    if not found.num_rows:
        raise IncrementalLoadError(
            f"the audit in {delta.table_uri} lacks its last entry, {number}",
            rule="an entry carries the hash of the entry before, so none is written after one that was removed",
            remedy="see incload audit; bring the removed entry back with a RESTORE of that Delta table",
        )
    return number, found["hash"][0].as_py()


def _known(lake: Lake) -> set[tuple[str, ...]]:
    """The partitions by action, table and run, and the statuses by event, that the audit has."""
    if (delta := lake.delta(audit_uri(lake))) is None:
        return set()
    columns = ["action", "table", "run_id", "partitions", "because"]
    rows = rows_where(delta, {"action": [*get_args(RunAction), "status"]}, columns=columns).to_pylist()
    events = {(row["action"], row["because"]) for row in rows if row["action"] == "status"}
    return events | {(row["action"], row["table"], row["run_id"], key) for row in rows for key in row["partitions"]}


def _lacking(entry: AuditEntry, known: set[tuple[str, ...]]) -> AuditEntry | None:
    """The part of an entry that the audit lacks; None if it has all of it."""
    if entry.action == "status":
        return None if (entry.action, entry.because) in known else entry
    keys = [key for key in entry.partitions if (entry.action, entry.table, entry.run_id, key) not in known]
    return replace(entry, partitions=keys) if keys else None


def _as_arrow(entry: AuditEntry) -> pa.Table:
    details = json.dumps(dict(entry.details), sort_keys=True)
    row = asdict(entry) | {"partitions": list(entry.partitions), "details": details, "hash": entry.hash}
    return pa.Table.from_pylist([row], SCHEMA)


def chain_of(lake: Lake) -> Chain:
    """Reads and verifies the audit; of :data:`DAMAGED`, the errors name the commit or file."""
    if (delta := lake.delta(audit_uri(lake))) is None:
        return Chain([], None)
    try:
        rows = delta.to_pyarrow_table(columns=SCHEMA.names).sort_by("number").to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise unreadable(error, audit_uri(lake)) or error from None
    hashes = [str(row.pop("hash")) for row in rows]
    entries = [AuditEntry(**row | {"details": json.loads(row["details"])}) for row in rows]
    return Chain(entries, _altered(entries, hashes, delta.transaction_version(WRITER) or 0))


def _altered(entries: Sequence[AuditEntry], hashes: Sequence[str], fence: int) -> Altered | None:
    """The first place where the chain is broken."""
    through, before = _anchor_of(entries)
    for expected, (entry, stored) in enumerate(zip(entries, hashes, strict=True), start=through + 1):
        if entry.number < expected:
            return Altered(entry.number, "there are two entries with this number")
        if entry.number > expected:
            return Altered(expected, _missing(expected, entry.number - 1))
        if entry.hash != stored:
            return Altered(expected, "its fields are not what its hash was made of")
        if entry.before != before:
            return Altered(max(expected - 1, 1), f"entry {expected} was written after another one")
        before = stored
    last = through + len(entries)
    if fence > last:
        return Altered(last + 1, _missing(last + 1, fence))
    return Altered(fence + 1, "it was not written by incload") if fence < last else None


def _anchor_of(entries: Sequence[AuditEntry]) -> tuple[int, str]:
    """Number and hash of the entry before the first one, by the last anchor; none if the chain begins with entry 1."""
    if not entries or entries[0].number == 1:
        return 0, ""
    return next((a for a in reversed(_anchors(entries)) if a[0] < entries[0].number), (0, ""))


def _anchors(entries: Sequence[AuditEntry]) -> list[tuple[int, str]]:
    return [(int(one.details["through"]), one.details["hash"]) for one in entries if one.action == "expire"]


def _missing(first: int, last: int) -> str:
    return "it is missing" if first == last else f"it and the entries up to {last} are missing"


def chosen(chain: Chain, table: str | None = None, since: datetime | None = None) -> list[AuditEntry]:
    """The entries of a table, and those that concern all tables, from an instant on; None: of every table, or all."""
    concerned = [entry for entry in chain.entries if table is None or entry.table in ("", table)]
    return [entry for entry in concerned if since is None or (entry.at and entry.at >= since)]


def expire_audit(
    lake: Lake, older_than: datetime, *, run_id: str = "", files_kept: timedelta = FILES_KEPT
) -> AuditExpired:
    """Removes entries that were written before an instant, from the first one on; of an altered audit none."""
    found, delta = chain_of(lake), lake.delta(audit_uri(lake))
    if delta is None:
        return AuditExpired()
    if found.altered is not None:
        raise IncrementalLoadError(
            str(found.altered),
            rule="entries are removed only from an audit that nobody has altered",
            remedy="see incload audit; bring removed entries back with a RESTORE of that Delta table",
        )
    entries = found.entries
    old = list(takewhile(lambda entry: entry.at is not None and entry.at < older_than, entries))
    through = max((number for number, _ in _anchors(entries)), default=0)
    unfinished = bool(entries) and through >= entries[0].number
    if not unfinished and any(entry.action != "expire" for entry in old):
        through, until = old[-1].number, older_than.astimezone(UTC).isoformat()
        details = {"through": str(through), "hash": old[-1].hash, "older_than": until}
        record(lake, AuditEntry(action="expire", because="their lifetime is over", run_id=run_id, details=details))
        delta.update_incremental()
        unfinished = True
    removed = sum(entry.number <= through for entry in entries) if unfinished and _removed(delta, through) else 0
    after = len(chain_of(lake).entries) if unfinished else len(entries)
    gone = delta.vacuum(round(files_kept / timedelta(hours=1)), dry_run=False, enforce_retention_duration=False)
    delta.cleanup_metadata()
    return AuditExpired(len(entries), after, removed, len(gone))


def _removed(delta: DeltaTable, through: int) -> bool:
    """Removes the entries that an anchor covers; False if others wrote first: the next night does it."""
    try:
        delta.delete(f"number <= {through}")
    except CommitFailedError:
        return False
    delta.create_checkpoint()
    return True
