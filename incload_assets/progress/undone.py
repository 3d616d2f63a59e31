"""Windows that a table has lost because it was restored to an older version, deleted or created again.

A checkpoint records the version at which the table held a window. Delta's history shows, without reading rows, which of
these versions were replaced by a restore. The last result of the check ``rollback`` stores what earlier runs found:
each run reads only the commits since, and nothing is lost when the history is cleaned up. A copy in the place of the
table's folder brings an older history, which reuses version numbers. It is detected by the commit that was read last:
the history lacks it, or has another with its number.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import dagster as dg
from deltalake import DeltaTable

from incload_assets.declaration.table import Table
from incload_assets.platform.lake import Lake
from incload_assets.progress.progress import WindowProgress
from incload_assets.progress.recorded import ROLLBACK, Recorded
from incload_assets.progress.verdicts import Verdict, finding_in

CHECK = ROLLBACK
SEEN = "seen"
"""Metadata of that check: the table's id, the last version read with its commit's timestamp, and the rollbacks."""

PAGE = 1000
REMEMBERED = timedelta(days=1)
"""How long a rollback is kept after its windows are loaded again: a load that began before it may end after it."""


@dataclass(frozen=True)
class Rollback:
    """A rollback of a table: loads between the versions ``to`` and ``at`` are undone.

    Args:
        at: The version that restored the older one; None: a copy was put in the table's place.
        last: For a copy, the storage id of the last load that it may have undone; later loads reuse version numbers.
    """

    to: int
    at: int | None
    found: str
    last: int = 0

    def undoes(self, load: "_Load") -> bool:
        """True if the version that a load left is gone."""
        if self.at is None:
            return self.to < load.version and load.storage_id <= self.last
        return self.to < load.version < self.at

    def __str__(self) -> str:
        if self.at is None:
            of = f"version {self.to}" if self.to >= 0 else "another table"
            return f"a copy of {of}, put in the table's place, was found at {self.found[:19].replace('T', ' ')} UTC"
        return f"version {self.at} restored version {self.to}"


class _Load(NamedTuple):
    key: str
    version: int
    storage_id: int


@dataclass(frozen=True)
class Undone:
    """Why each loaded window may no longer be in the table, and the state for the next run (see :data:`SEEN`).

    ``newest`` is the number of the table's newest load, 0 without one.
    """

    windows: dict[str, str]
    seen: dict[str, Any] | None
    newest: int = 0


def undone_windows(
    instance: dg.DagsterInstance,
    table: Table,
    lake: Lake,
    progress: Sequence[WindowProgress],
    now: datetime,
    last: Verdict | None = None,
    recorded: Recorded | None = None,
) -> Undone:
    """The windows whose last load is undone, by the last result of the check if it is known; needs no Spark."""
    # both are read before the table, so that concurrent loads and checks do not look newer than it
    known = recorded or Recorded(instance, [table])
    before, record = _seen(last or known.rollback(table)), known.last_materialization(table)
    newest = None if record is None else _load_of(record)
    delta = lake.delta(lake.table_uri(table.key.path))
    # a later load that failed has left the table unchanged
    loaded = [w.key for w in progress if w.is_loaded and w.status in ("loaded", "held", "failed")]
    if delta is None:
        return Undone(dict.fromkeys(loaded, "the table is gone"), None, newest.storage_id if newest else 0)
    again = _since_it_was_made(instance, table, delta)
    rollbacks = _rollbacks(delta, before, newest, now)
    lost = {
        **_undone_by(instance, table, rollbacks),
        **{key: again[1] for key in loaded if again and key not in again[0]},
    }
    windows = {key: lost[key] for key in loaded if key in lost}
    reasons, recent = set(windows.values()), (now - REMEMBERED).isoformat()
    seen = {
        "table": str(delta.metadata().id),
        "version": delta.version(),
        "stamp": _stamps(delta, 1).get(delta.version()),
        "rollbacks": [asdict(found) for found in rollbacks if str(found) in reasons or found.found > recent],
    }
    return Undone(windows, seen, newest.storage_id if newest else 0)


def with_undone(progress: Sequence[WindowProgress], lost: Mapping[str, str]) -> list[WindowProgress]:
    """The progress, with loaded windows that the table has lost marked as drifted and without checkpoint."""
    return [
        replace(w, status="drifted", checkpoint=None) if w.status in ("loaded", "held") and w.key in lost else w
        for w in progress
    ]


def _rollbacks(delta: DeltaTable, seen: dict[str, Any] | None, newest: _Load | None, at: datetime) -> list[Rollback]:
    """The stored rollbacks, and the ones found since the history was last read.

    A load recorded after a copy was put in place, but before it was found, is assumed to be undone, too: the mistake
    costs one comparison, while a missed rollback loses rows.
    """
    found, unread = list[Rollback](), None
    last, now = newest.storage_id if newest else 0, at.isoformat()
    if seen is not None and not _is_newer(delta, seen):
        there = _still_there(delta, seen)
        found = [r for kept in seen["rollbacks"] if (r := Rollback(**kept)).at is None or r.at <= there]
        unread = delta.version() - max(there, 0)
        if there < seen["version"]:
            found.append(Rollback(there, None, now, last))
    if newest and newest.version > delta.version() and all(r.at is not None or r.last < last for r in found):
        found.append(Rollback(delta.version(), None, now, last))
    for commit in delta.history(unread) if unread != 0 else ():
        if commit.get("operation") == "RESTORE":
            found.append(Rollback(_restored(delta, commit), commit["version"], now))
    return found


def _is_newer(delta: DeltaTable, seen: dict[str, Any]) -> bool:
    """True if the table is another one than before, and was created since."""
    metadata, stamp = delta.metadata(), seen.get("stamp")
    made = metadata.created_time
    return str(metadata.id) != seen["table"] and (made is None or stamp is None or made > stamp)


def _still_there(delta: DeltaTable, seen: dict[str, Any]) -> int:
    """The newest version read before that the table still has, -1 if it has none."""
    if str(delta.metadata().id) != seen["table"]:
        return -1
    version, stamp = seen["version"], seen.get("stamp")
    if version <= delta.version():
        if stamp is None or _stamps(delta, delta.version() - version + 1).get(version, stamp) == stamp:
            return int(version)
    elif stamp is None:
        return delta.version()
    return max((v for v, at in _stamps(delta).items() if v < version and at <= stamp), default=-1)


def _stamps(delta: DeltaTable, limit: int | None = None) -> dict[int, int]:
    """Timestamps of the newest commits, or of all, by version: milliseconds by the writer's clock."""
    return {commit["version"]: commit["timestamp"] for commit in delta.history(limit) if "timestamp" in commit}


def _restored(delta: DeltaTable, commit: dict[str, Any]) -> int:
    """The version that a commit restored: its recorded version, or the last one at its recorded timestamp."""
    parameters = commit["operationParameters"]
    if (version := parameters.get("version")) is not None:
        return int(version)
    instant = datetime.fromisoformat(parameters["timestamp"]).replace(tzinfo=UTC)
    earlier = (c["version"] for c in delta.history() if c["timestamp"] <= instant.timestamp() * 1000)
    return max(earlier, default=-1)


def _seen(last: Verdict | None) -> dict[str, Any] | None:
    finding = finding_in(last, SEEN)
    return finding[1] if finding else None


def _undone_by(instance: dg.DagsterInstance, table: Table, rollbacks: list[Rollback]) -> dict[str, str]:
    """The windows whose last load a rollback undid, with that rollback, by partition key."""
    if not rollbacks:
        return {}
    undone: dict[str, str] = {}
    oldest, known = min(r.to for r in rollbacks), set[str]()
    for loads in _loads(instance, table):
        for load in loads:
            by = next((r for r in rollbacks if r.undoes(load)), None)
            if load.key not in known and by is not None:
                undone[load.key] = str(by)
            known.add(load.key)
        if all(load.version <= oldest for load in loads):
            break
    return undone


def _loads(instance: dg.DagsterInstance, table: Table) -> Iterator[list[_Load]]:
    """All loads, newest first, in pages."""
    cursor, more = None, True
    while more:
        loads, cursor, more = _page(instance, table, PAGE, cursor)
        yield loads


def _page(
    instance: dg.DagsterInstance, table: Table, limit: int, cursor: str | None = None
) -> tuple[list[_Load], str, bool]:
    page = instance.fetch_materializations(table.key, limit=limit, cursor=cursor)
    return [*filter(None, map(_load_of, page.records))], page.cursor, page.has_more


def _load_of(record: dg.EventLogRecord) -> _Load | None:
    found = record.asset_materialization
    version = found.metadata.get("delta_version") if found else None
    if record.partition_key is None or version is None or not isinstance(version.value, int):
        return None
    return _Load(record.partition_key, version.value, record.storage_id)


def _since_it_was_made(instance: dg.DagsterInstance, table: Table, delta: DeltaTable) -> tuple[set[str], str] | None:
    """The windows loaded since the table was created, and the reason for losing the others; None if there are none."""
    created = delta.metadata().created_time
    if created is None:
        return None
    of_before = dg.AssetRecordsFilter(asset_key=table.key, before_timestamp=created / 1000)
    before = instance.fetch_materializations(of_before, limit=1).records
    if not before:
        return None
    since = instance.get_materialized_partitions(table.key, after_cursor=before[0].storage_id)
    made = datetime.fromtimestamp(created / 1000, UTC)
    return since, f"the table was created again at {made:%Y-%m-%d %H:%M:%S} UTC"
