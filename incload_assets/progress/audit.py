"""The audit: what people did to tables, as a chain in which each entry carries the hash of the entry before it.

The lake's Delta table ``_audit`` grows, and loses entries only at the end of their lifetime, see
:mod:`incload_assets.progress.audit_expiry`. An entry is appended under a fence, so that of two people who act at
once one writes after the other. Whoever changes or removes an entry breaks the chain from there on.
"""

import getpass
import hashlib
import json
import os
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Literal, NamedTuple

import dagster as dg
import pyarrow as pa
from deltalake.exceptions import DeltaError

from incload_assets.declaration import window as windows
from incload_assets.platform.errors import ConcurrentLoad, IncrementalLoadError, LakeUnreadable, StoredFileLost
from incload_assets.platform.lake import AUDIT_FOLDER, Lake
from incload_assets.platform.lake_rows import rows_where

Action = Literal[
    "load",
    "plan",
    "undo",
    "hold",
    "release",
    "pause",
    "resume",
    "silence",
    "unsilence",
    "replay",
    "fill",
    "accept",
    "discard",
    "fix",
    "rebuild",
    "backup",
    "restore",
    "adopt",
    "promote",
    "contract",
    "read",
    "status",
    "expire",
    "erase",
]
DAMAGED = (LakeUnreadable, StoredFileLost, OSError, pa.ArrowException)
"""The errors of a read of an audit of which a commit or a file is damaged or gone."""
WRITER = "incload/audit"
"""The identifier of the fence of entries."""
FAILED = "failed"
"""The detail with the errors' classes in an entry about what was begun and not finished; former versions also counted
the failed loads of a run in it."""
ATTEMPTS = 20
FILES = 100
"""After so many entries their files are put together."""
_USER_TAG = "user"
_CI = ("GITHUB_ACTOR", "GITLAB_USER_LOGIN", "BUILD_USER")

SCHEMA = pa.schema(
    [
        pa.field("number", pa.int64()),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("action", pa.string()),
        pa.field("table", pa.string()),
        pa.field("partitions", pa.list_(pa.string())),
        pa.field("actor", pa.string()),
        pa.field("host", pa.string()),
        pa.field("because", pa.string()),
        pa.field("run_id", pa.string()),
        pa.field("details", pa.string()),
        pa.field("before", pa.string()),
        pa.field("hash", pa.string()),
    ]
)


@dataclass(frozen=True, kw_only=True)
class AuditEntry:
    """One thing that a person did, or a change of a contract that a load has applied.

    Args:
        action: What was done.
        table: The table's name; empty for what concerns all tables.
        partitions: The partition keys concerned; empty for the whole table.
        actor: Who did it, by the operating system, CI or Dagster's user tag.
        host: Where.
        because: The reason given.
        run_id: The Dagster run that did it; empty if none.
        details: More, as names and values; never values of rows.
        number: The entry's place in the chain, from 1.
        at: When, aware.
        before: The hash of the entry before; empty for the first.
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


class Last(NamedTuple):
    """The last entry of the audit; number 0 if there is none."""

    number: int
    hash: str


class Anchor(NamedTuple):
    """The account in an entry ``expire`` of the entries that were removed at the beginning of the chain.

    Args:
        through: The number of the last one removed.
        hash: Its hash, which the first entry that is left carries.
        older_than: The instant, ISO 8601 in UTC, before which each of them was written.
    """

    through: int
    hash: str
    older_than: str


BEGINNING = Anchor(0, "", "")
"""The anchor of a chain from which nothing was removed."""


def anchor_in(entry: AuditEntry) -> Anchor | None:
    """The anchor in an entry; None in all entries but ``expire``."""
    if entry.action != "expire":
        return None
    return Anchor(int(entry.details["through"]), entry.details["hash"], entry.details["older_than"])


def actor_of(run: dg.DagsterRun | None = None) -> str:
    """The person who acts: the user whom Dagster knows, who started the CI, or the operating system's user."""
    tags = run.tags if run is not None else {}
    named = tags.get(_USER_TAG) or next((os.environ[name] for name in _CI if os.environ.get(name)), "")
    return named or getpass.getuser()


def record(lake: Lake, entry: AuditEntry) -> AuditEntry:
    """Appends an entry to the audit; actor, host, time, number and hash of the entry before are filled in.

    Args:
        lake: The lake with the audit.
        entry: What was done.

    Raises:
        ConcurrentLoad: Others wrote first in every attempt.
    """
    for _ in range(ATTEMPTS):
        if (written := append_after(lake, last_entry(lake), entry)) is not None:
            return written
    raise written_by_others(lake)


def append_after(lake: Lake, last: Last, entry: AuditEntry) -> AuditEntry | None:
    """Appends an entry if no other was appended since the last one was read.

    Args:
        lake: The lake with the audit.
        last: The last entry, by :func:`last_entry`.
        entry: What was done.

    Returns:
        The whole entry; None if others wrote first.
    """
    whole = replace(
        entry,
        actor=entry.actor or actor_of(),
        host=entry.host or socket.gethostname(),
        at=windows.now(),
        number=last.number + 1,
        before=last.hash,
    )
    if not lake.append(audit_uri(lake), _as_arrow(whole), WRITER, whole.number):
        return None
    if whole.number % FILES == 0:
        _compact(lake)
    return whole


def written_by_others(lake: Lake) -> ConcurrentLoad:
    """The error of a writer that lost every attempt."""
    return ConcurrentLoad(
        f"the audit in {audit_uri(lake)} was written by others in each of {ATTEMPTS} attempts",
        rule="entries of the audit are written one after another",
        remedy="try again",
    )


def audit_uri(lake: Lake) -> str:
    """The URI of the lake's audit."""
    return f"{lake.root}/{AUDIT_FOLDER}"


def last_entry(lake: Lake) -> Last:
    """Number and hash of the last entry."""
    delta = lake.delta(audit_uri(lake))
    number = (delta.transaction_version(WRITER) or 0) if delta is not None else 0
    if delta is None or not number:
        return Last(0, "")
    found = rows_where(delta, {"number": [number]}, columns=["hash"])
    if not found.num_rows:
        raise IncrementalLoadError(
            f"the audit in {delta.table_uri} lacks its last entry, {number}",
            rule="an entry carries the hash of the entry before, so none is written after one that was removed",
            remedy="see incload audit; bring the removed entry back with a RESTORE of that Delta table",
        )
    return Last(number, found["hash"][0].as_py())


def _compact(lake: Lake) -> None:
    """Puts the small files of entries together; the entries stay as they are."""
    delta = lake.delta(audit_uri(lake))
    with suppress(DeltaError):  # others write at this moment: the next hundred entries are put together, too
        if delta is not None:
            delta.optimize.compact()
            delta.create_checkpoint()


def _as_arrow(entry: AuditEntry) -> pa.Table:
    details = json.dumps(dict(entry.details), sort_keys=True)
    row = asdict(entry) | {"partitions": list(entry.partitions), "details": details, "hash": entry.hash}
    return pa.Table.from_pylist([row], SCHEMA)
