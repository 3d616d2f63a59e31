"""The findings of a reconciliation by window. A later run only has to check whether they still hold."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import dagster as dg

from incload_assets.declaration.table import Table

FOUND, REPAIR = "found", "repair"
"""Metadata of a reconciliation: all its findings, and the partition keys that a load can repair."""

PENDING, DIFFERING, UNREADABLE, UNAVAILABLE = "pending", "differing", "unreadable", "unavailable"
"""Found by comparing rows: keys that the table lacks, rows that differ, a source that refuses, or does not answer."""
DRIFTED, UNSEEN = "drifted", "unseen"
"""Found by comparing positions: a window that changed at the source, or a source that could not be checked at all."""
MENDED, CAUGHT_UP = "mended", "caught_up"
"""Windows with an earlier finding that no longer holds: found by rows, or by position."""

BY_ROWS = (PENDING, DIFFERING, UNREADABLE, UNAVAILABLE)
WRONG = (*BY_ROWS, DRIFTED, UNSEEN)

FEW = 100
"""Largest number of partitions that loads are asked for by their keys; for more, all loads are read."""

Found = dict[str, dict[str, str]]
"""When each finding was made, ISO 8601, by kind and partition key."""


def found_at(kinds: Mapping[str, Iterable[str]], at: datetime) -> Found:
    """The findings of one run; kinds without windows are left out."""
    return {kind: dict.fromkeys(keys, at.isoformat()) for kind, keys in kinds.items() if keys}


def found_next(
    found: Found, wrong: Mapping[str, Iterable[str]], changed: Iterable[str], again: Iterable[str], at: datetime
) -> Found:
    """The findings after a follow-up run; a window in ``changed`` is behind its source."""
    compared = {*again}
    left = {
        kind: {k: when for k, when in found.get(kind, {}).items() if k not in compared} for kind in (*BY_ROWS, MENDED)
    }
    new, drifted, now = found_at(wrong, at), found.get(DRIFTED, {}), set(changed)
    left |= {kind: {**left[kind], **new.get(kind, {})} for kind in left}
    left[DRIFTED] = {key: drifted.get(key, at.isoformat()) for key in sorted(now)}
    left[CAUGHT_UP] = {key: when for key, when in {**drifted, **found.get(CAUGHT_UP, {})}.items() if key not in now}
    return {kind: of for kind, of in left.items() if of}


def found_in(when: datetime, verdict: dg.AssetCheckResult) -> Found:
    """The findings in a reconciliation's result; ``when`` is used for results that have no time per window."""
    told = _json(verdict, FOUND)
    if told is not None:
        return dict(told)
    if verdict.passed:
        return {}
    return found_at({PENDING: _json(verdict, REPAIR) or (), UNSEEN: [""]}, when)


def windows_in(found: Found, *kinds: str) -> set[str]:
    """The partition keys with findings of the given kinds."""
    return {key for kind in kinds for key in found.get(kind, ())}


def times_of(found: Found, *kinds: str) -> dict[str, datetime]:
    """When each window with a finding of the given kinds was found; the latest time if it was found twice."""
    times: dict[str, datetime] = {}
    for kind in kinds:
        for key, at in found.get(kind, {}).items():
            times[key] = max(datetime.fromisoformat(at), times.get(key, datetime.fromisoformat(at)))
    return times


def to_repair(when: datetime, verdict: dg.AssetCheckResult) -> dict[str, datetime]:
    """The partitions that a load can repair, and when each was found; arguments as in :func:`found_in`."""
    times = times_of(found_in(when, verdict), PENDING, DIFFERING)
    return {key: times.get(key, when) for key in _json(verdict, REPAIR) or ()}


def loaded_since(instance: dg.DagsterInstance, table: Table, times: Mapping[str, datetime]) -> set[str]:
    """The partitions that were materialized after the aware time given for each."""
    if not times:
        return set()
    few = sorted(times) if len(times) <= FEW else None
    chosen = dg.AssetRecordsFilter(
        asset_key=table.key, asset_partitions=few, after_timestamp=min(times.values()).timestamp()
    )
    loaded, cursor, more = set[str](), None, True
    while more and len(loaded) < len(times):
        page = instance.fetch_materializations(chosen, limit=1000, cursor=cursor)
        of = ((str(record.partition_key), record.timestamp) for record in page.records)
        loaded |= {key for key, at in of if key in times and at > times[key].timestamp()}
        cursor, more = page.cursor, page.has_more
    return loaded


def _json(verdict: dg.AssetCheckResult, name: str) -> Any:
    value = (verdict.metadata or {}).get(name)
    return value.data if isinstance(value, dg.JsonMetadataValue) else None
