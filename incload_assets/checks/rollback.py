"""Was the table rolled back behind the loads, deleted or made anew? Then what it lost is asked for again.

A checkpoint says that the table held a window at some version. Delta's history tells, without reading a row, which of
these versions another one took the place of. What it told before is kept in the check's own last result, so that each
look reads the commits since, and nothing is forgotten when the history is cleaned up.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import dagster as dg
from deltalake import DeltaTable

from incload_assets.checks.look import Look, records, result, several, some
from incload_assets.checks.verdicts import last_finding

NAME = "rollback"
DESCRIPTION = "The table is the one that was loaded: not restored to an older version, not deleted, not made anew."
REPAIR = "repair"
"""Metadata: why a load is needed, by partition key; the table's sensor asks for them."""
SEEN = "seen"
"""Metadata: which table it was, up to which version its history was read, and the rollbacks in it."""

PAGE = 1000
REMEMBERED = timedelta(days=1)
"""How long a rollback is remembered whose windows are loaded again: a load that began before it may end after it."""


@dataclass(frozen=True)
class Rollback:
    """A restored version.

    Args:
        to: The version that was restored.
        at: The version that restored it: loads between the two are undone.
        found: When it was seen, ISO 8601.
    """

    to: int
    at: int
    found: str

    def __str__(self) -> str:
        return f"version {self.at} restored version {self.to}"


def rollback(look: Look) -> dg.AssetCheckResult:
    """Whether the last load of some window is undone; ERROR if so."""
    delta = look.lake.delta(look.lake.table_uri(look.table.key.path))
    loaded = [w.key for w in look.progress if w.status == "loaded"]
    if delta is None:
        undone, seen = dict.fromkeys(loaded, "the table is gone"), None
    else:
        anew, rollbacks = _since_it_was_made(look, delta), _rollbacks(look, delta)
        lost = {**_undone_by(look, rollbacks), **{key: anew[1] for key in loaded if anew and key not in anew[0]}}
        undone = {key: lost[key] for key in loaded if key in lost}
        reasons, recent = set(undone.values()), (look.now - REMEMBERED).isoformat()
        kept = [asdict(found) for found in rollbacks if str(found) in reasons or found.found > recent]
        seen = {"table": str(delta.metadata().id), "version": delta.version(), "rollbacks": kept}
    metadata: dict[str, dg.MetadataValue] = {"windows_undone": dg.MetadataValue.int(len(undone))}
    if seen:
        metadata[SEEN] = dg.MetadataValue.json(seen)
    if not undone:
        note = "The table is the one that was loaded." if loaded else "No window is loaded."
        return result(look, NAME, True, note, metadata)
    metadata[REPAIR] = dg.MetadataValue.json(undone)
    metadata["windows"] = records(["window", "why"], list(undone.items()))
    why = "; ".join(sorted(set(undone.values())))
    note = (
        f"{several(len(undone), 'loaded window')} may no longer be in the table: {some(list(undone))} ({why}). What to "
        "do: nothing, the sensor asks for them again, and a load writes only what is missing; to stay with the older "
        "version, pause the sensor."
    )
    return result(look, NAME, False, note, metadata, dg.AssetCheckSeverity.ERROR)


def _rollbacks(look: Look, delta: DeltaTable) -> list[Rollback]:
    """Those remembered, and those in the history since it was last read."""
    seen = _seen(look)
    known = seen if seen and seen["table"] == str(delta.metadata().id) and seen["version"] <= delta.version() else None
    found = [Rollback(**r) for r in known["rollbacks"]] if known else []
    unread = delta.version() - known["version"] if known else None
    for commit in delta.history(unread) if unread != 0 else ():
        if commit.get("operation") == "RESTORE":
            found.append(Rollback(_restored(delta, commit), commit["version"], look.now.isoformat()))
    return found


def _restored(delta: DeltaTable, commit: dict[str, Any]) -> int:
    """The version that a commit restored: written down, or the last one at the time that is."""
    parameters = commit["operationParameters"]
    if (version := parameters.get("version")) is not None:
        return int(version)
    instant = datetime.fromisoformat(parameters["timestamp"]).replace(tzinfo=UTC)
    earlier = (c["version"] for c in delta.history() if c["timestamp"] <= instant.timestamp() * 1000)
    return max(earlier, default=-1)


def _seen(look: Look) -> dict[str, Any] | None:
    finding = last_finding(look.instance, dg.AssetCheckKey(look.table.key, NAME), SEEN)
    return finding[1] if finding else None


def _undone_by(look: Look, rollbacks: list[Rollback]) -> dict[str, str]:
    """The windows whose last load one of the rollbacks undid, and which."""
    if not rollbacks:
        return {}
    undone: dict[str, str] = {}
    oldest, known = min(r.to for r in rollbacks), set[str]()
    for loads in _loads(look):
        for key, version in loads:
            by = next((r for r in rollbacks if r.to < version < r.at), None)
            if key not in known and by is not None:
                undone[key] = str(by)
            known.add(key)
        if all(version <= oldest for _, version in loads):
            break
    return undone


def _loads(look: Look) -> Iterator[list[tuple[str, int]]]:
    """Partition key and version of the table of each load, newest first, some at a time."""
    cursor, more = None, True
    while more:
        page = look.instance.fetch_materializations(look.table.key, limit=PAGE, cursor=cursor)
        found = [(r.partition_key, r.asset_materialization) for r in page.records]
        versions = [(key, m.metadata["delta_version"].value) for key, m in found if m and "delta_version" in m.metadata]
        yield [(key, version) for key, version in versions if key is not None and isinstance(version, int)]
        cursor, more = page.cursor, page.has_more


def _since_it_was_made(look: Look, delta: DeltaTable) -> tuple[set[str], str] | None:
    """The windows that were loaded since the table was made, if others were loaded before; and what to say of those."""
    created = delta.metadata().created_time
    if created is None:
        return None
    of_before = dg.AssetRecordsFilter(asset_key=look.table.key, before_timestamp=created / 1000)
    before = look.instance.fetch_materializations(of_before, limit=1).records
    if not before:
        return None
    since = look.instance.get_materialized_partitions(look.table.key, after_cursor=before[0].storage_id)
    made = datetime.fromtimestamp(created / 1000, UTC)
    return since, f"the table was made anew at {made:%Y-%m-%d %H:%M:%S} UTC"
