"""The audit: what people did to tables, as a chain in which each entry carries the hash of the entry before it.

The lake's Delta table ``_audit`` only ever grows. An entry is appended under a fence, so that of two people who act at
once one writes after the other. Whoever changes or removes an entry breaks the chain from there on.
"""

import getpass
import hashlib
import json
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Literal

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc

from incload_assets.declaration import window as windows
from resources.errors import ConcurrentLoad
from resources.lake import AUDIT_FOLDER, Lake

Action = Literal[
    "load",
    "plan",
    "undo",
    "hold",
    "release",
    "pause",
    "resume",
    "replay",
    "accept",
    "discard",
    "fix",
    "rebuild",
    "restore",
    "adopt",
    "promote",
    "read",
    "status",
]
WRITER = "incload/audit"
"""The identifier of the fence of entries."""
ATTEMPTS = 20
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
    """One thing that a person did.

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


def actor_of(run: dg.DagsterRun | None = None) -> str:
    """Who acts: the user whom Dagster knows, the person who started the CI, or the operating system's user."""
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
        last = _last(lake)
        whole = replace(
            entry,
            actor=entry.actor or actor_of(),
            host=entry.host or socket.gethostname(),
            at=windows.now(),
            number=last[0] + 1,
            before=last[1],
        )
        if lake.append(audit_uri(lake), _as_arrow(whole), WRITER, whole.number):
            return whole
    raise ConcurrentLoad(
        f"the audit in {audit_uri(lake)} was written by others in each of {ATTEMPTS} attempts",
        rule="entries of the audit are written one after another",
        remedy="try again",
    )


def audit_uri(lake: Lake) -> str:
    """The URI of the lake's audit."""
    return f"{lake.root}/{AUDIT_FOLDER}"


def _last(lake: Lake) -> tuple[int, str]:
    """Number and hash of the last entry."""
    delta = lake.delta(audit_uri(lake))
    number = (delta.transaction_version(WRITER) or 0) if delta is not None else 0
    if delta is None or not number:
        return 0, ""
    found = delta.to_pyarrow_dataset().to_table(columns=["hash"], filter=pc.field("number") == number)
    return number, found["hash"][0].as_py()


def _as_arrow(entry: AuditEntry) -> pa.Table:
    details = json.dumps(dict(entry.details), sort_keys=True)
    row = asdict(entry) | {"partitions": list(entry.partitions), "details": details, "hash": entry.hash}
    return pa.Table.from_pylist([row], SCHEMA)
