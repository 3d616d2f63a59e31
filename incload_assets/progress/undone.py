"""Was the table rolled back behind the loads, deleted or made anew, and which windows did it lose by that?

A checkpoint says that the table held a window at some version. Delta's history tells, without reading a row, which of
these versions another one took the place of. What it told before is kept in the last result of the check ``rollback``,
so that each look reads the commits since, and nothing is forgotten when the history is cleaned up.

A copy of the table's folder that is put in its place brings an older history along, which knows nothing of that and
goes on with numbers that were given before. It is known by the commit that was seen last: it is not there, or another
one has its number.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import dagster as dg
from deltalake import DeltaTable

from incload_assets.declaration.table import Table
from incload_assets.progress.progress import WindowProgress
from incload_assets.progress.verdicts import last_finding
from resources.lake import Lake

CHECK = "rollback"
"""The check that keeps what was seen."""
SEEN = "seen"
"""Its metadata: which table it was, up to which version its history was read, the time by the table's clock of the
commit that made it, and the rollbacks until then."""

PAGE = 1000
REMEMBERED = timedelta(days=1)
"""How long a rollback is remembered whose windows are loaded again: a load that began before it may end after it."""


@dataclass(frozen=True)
class Rollback:
    """A restored version.

    Args:
        to: The version that was restored.
        at: The version that restored it: loads between the two are undone. None: a copy was put in the table's place.
        found: When it was seen, ISO 8601.
        last: Of a copy, the storage id of the last load that it may have undone; those after it have the same numbers.
    """

    to: int
    at: int | None
    found: str
    last: int = 0

    def undoes(self, load: "_Load") -> bool:
        """Whether what the load saw of the table is gone."""
        if self.at is None:
            return self.to < load.version and load.storage_id <= self.last
        return self.to < load.version < self.at

    def __str__(self) -> str:
        if self.at is None:
            of = f"version {self.to}" if self.to >= 0 else "another table"
            return f"a copy of {of}, put in the table's place, was found at {self.found[:19].replace('T', ' ')} UTC"
        return f"version {self.at} restored version {self.to}"


class _Load(NamedTuple):
    """A load, and the version of the table that it saw when it was done."""

    key: str
    version: int
    storage_id: int


@dataclass(frozen=True)
class Undone:
    """The windows whose rows a table has lost.

    Args:
        windows: Why each window that was loaded may no longer be in the table, by partition key.
        seen: What the next look has to know, None where there is no table.
    """

    windows: dict[str, str]
    seen: dict[str, Any] | None


def undone_windows(
    instance: dg.DagsterInstance, table: Table, lake: Lake, progress: Sequence[WindowProgress], now: datetime
) -> Undone:
    """The windows whose last load is undone; without Spark.

    Args:
        instance: Where checkpoints and verdicts are.
        table: The declaration.
        lake: Where the table is.
        progress: Of all windows.
        now: Aware.
    """
    # both before the table: what others load and see meanwhile is not to look newer than it
    before, newest = _seen(instance, table), next(iter(_page(instance, table, limit=1)[0]), None)
    delta = lake.delta(lake.table_uri(table.key.path))
    # a load that failed since has left in the table what was there
    loaded = [w.key for w in progress if w.is_loaded and w.status in ("loaded", "failed")]
    if delta is None:
        return Undone(dict.fromkeys(loaded, "the table is gone"), None)
    anew = _since_it_was_made(instance, table, delta)
    rollbacks = _rollbacks(delta, before, newest, now)
    lost = {**_undone_by(instance, table, rollbacks), **{key: anew[1] for key in loaded if anew and key not in anew[0]}}
    windows = {key: lost[key] for key in loaded if key in lost}
    reasons, recent = set(windows.values()), (now - REMEMBERED).isoformat()
    seen = {
        "table": str(delta.metadata().id),
        "version": delta.version(),
        "stamp": _stamps(delta, 1).get(delta.version()),
        "rollbacks": [asdict(found) for found in rollbacks if str(found) in reasons or found.found > recent],
    }
    return Undone(windows, seen)


def with_undone(progress: Sequence[WindowProgress], lost: Mapping[str, str]) -> list[WindowProgress]:
    """The progress, where loaded windows that the table has lost have drifted, and count as never loaded.

    Args:
        progress: As seen from source and checkpoints.
        lost: Their partition keys, and why.
    """
    return [
        replace(w, status="drifted", checkpoint=None) if w.status == "loaded" and w.key in lost else w for w in progress
    ]


def _rollbacks(delta: DeltaTable, seen: dict[str, Any] | None, newest: _Load | None, at: datetime) -> list[Rollback]:
    """The ones remembered, and the ones that show since the history was last read.

    A load that was recorded after a copy was put in place, but before that was seen, is taken for undone, too: that
    costs it a look, while one that is missed is lost.
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
    """Whether it is another table than the one that was seen, and made since."""
    metadata, stamp = delta.metadata(), seen.get("stamp")
    made = metadata.created_time
    return str(metadata.id) != seen["table"] and (made is None or stamp is None or made > stamp)


def _still_there(delta: DeltaTable, seen: dict[str, Any]) -> int:
    """The newest of the versions seen that the table still has, -1 if that is none."""
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
    """When commits were made, in milliseconds by the clock of who made them: of the newest ones, or of all."""
    return {commit["version"]: commit["timestamp"] for commit in delta.history(limit) if "timestamp" in commit}


def _restored(delta: DeltaTable, commit: dict[str, Any]) -> int:
    """The version that a commit restored: written down, or the last one at the time that is."""
    parameters = commit["operationParameters"]
    if (version := parameters.get("version")) is not None:
        return int(version)
    instant = datetime.fromisoformat(parameters["timestamp"]).replace(tzinfo=UTC)
    earlier = (c["version"] for c in delta.history() if c["timestamp"] <= instant.timestamp() * 1000)
    return max(earlier, default=-1)


def _seen(instance: dg.DagsterInstance, table: Table) -> dict[str, Any] | None:
    finding = last_finding(instance, dg.AssetCheckKey(table.key, CHECK), SEEN)
    return finding[1] if finding else None


def _undone_by(instance: dg.DagsterInstance, table: Table, rollbacks: list[Rollback]) -> dict[str, str]:
    """The windows whose last load one of the rollbacks undid, and which."""
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
    """All loads, newest first, some at a time."""
    cursor, more = None, True
    while more:
        loads, cursor, more = _page(instance, table, PAGE, cursor)
        yield loads


def _page(
    instance: dg.DagsterInstance, table: Table, limit: int, cursor: str | None = None
) -> tuple[list[_Load], str, bool]:
    page = instance.fetch_materializations(table.key, limit=limit, cursor=cursor)
    loads = []
    for record in page.records:
        found = record.asset_materialization
        version = found.metadata.get("delta_version") if found else None
        if record.partition_key is not None and version is not None and isinstance(version.value, int):
            loads.append(_Load(record.partition_key, version.value, record.storage_id))
    return loads, page.cursor, page.has_more


def _since_it_was_made(instance: dg.DagsterInstance, table: Table, delta: DeltaTable) -> tuple[set[str], str] | None:
    """The windows that were loaded since the table was made, if others were loaded before; and what to say of those."""
    created = delta.metadata().created_time
    if created is None:
        return None
    of_before = dg.AssetRecordsFilter(asset_key=table.key, before_timestamp=created / 1000)
    before = instance.fetch_materializations(of_before, limit=1).records
    if not before:
        return None
    since = instance.get_materialized_partitions(table.key, after_cursor=before[0].storage_id)
    made = datetime.fromtimestamp(created / 1000, UTC)
    return since, f"the table was made anew at {made:%Y-%m-%d %H:%M:%S} UTC"
