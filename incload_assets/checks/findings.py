"""The findings of a reconciliation, window by window: a later look need only see what became of them."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import dagster as dg

from incload_assets.declaration.table import Table

FOUND, REPAIR = "found", "repair"
"""Metadata of a reconciliation: all that it found, and the partition keys among them that a load puts right."""

PENDING, DIFFERING, UNREADABLE, UNAVAILABLE = "pending", "differing", "unreadable", "unavailable"
"""Found by comparing rows: keys that the table lacks, rows that the source gives otherwise, a window that the source
refuses to give, and one that it did not give just then."""
DRIFTED, UNSEEN = "drifted", "unseen"
"""Found by looking at the source: a window that changed there, or that it could not be looked at at all."""
MENDED, CAUGHT_UP = "mended", "caught_up"
"""Windows that were found wrong, by rows or by a look, and no longer are."""

BY_ROWS = (PENDING, DIFFERING, UNREADABLE, UNAVAILABLE)
WRONG = (*BY_ROWS, DRIFTED, UNSEEN)

Found = dict[str, dict[str, str]]
"""When a window was found, ISO 8601, by kind and partition key."""


def found_at(kinds: Mapping[str, Iterable[str]], at: datetime) -> Found:
    """The findings of one look, without the kinds that it did not find."""
    return {kind: dict.fromkeys(keys, at.isoformat()) for kind, keys in kinds.items() if keys}


def found_next(
    found: Found, wrong: Mapping[str, Iterable[str]], changed: Iterable[str], again: Iterable[str], at: datetime
) -> Found:
    """The findings after a second look.

    Args:
        found: Before it.
        wrong: What comparing rows found, and what is mended, by kind.
        changed: The windows that are not loaded as their source is now.
        again: The windows whose rows were compared.
        at: When that was.
    """
    left = {
        kind: {k: when for k, when in found.get(kind, {}).items() if k not in {*again}} for kind in (*BY_ROWS, MENDED)
    }
    new, drifted, now = found_at(wrong, at), found.get(DRIFTED, {}), set(changed)
    left |= {kind: {**left[kind], **new.get(kind, {})} for kind in left}
    left[DRIFTED] = {key: drifted.get(key, at.isoformat()) for key in sorted(now)}
    left[CAUGHT_UP] = {key: when for key, when in {**drifted, **found.get(CAUGHT_UP, {})}.items() if key not in now}
    return {kind: of for kind, of in left.items() if of}


def found_in(when: datetime, verdict: dg.AssetCheckResult) -> Found:
    """The findings that a verdict of the reconciliation tells of.

    Args:
        when: When it was seen, for a verdict that does not tell of each window.
        verdict: As it is kept.
    """
    told = _json(verdict, FOUND)
    if told is not None:
        return dict(told)
    if verdict.passed:
        return {}
    return found_at({PENDING: _json(verdict, REPAIR) or (), UNSEEN: [""]}, when)


def windows_in(found: Found, *kinds: str) -> set[str]:
    """The partition keys of some kinds."""
    return {key for kind in kinds for key in found.get(kind, ())}


def times_of(found: Found, *kinds: str) -> dict[str, datetime]:
    """When each window of some kinds was found, the latest where it was found twice."""
    times: dict[str, datetime] = {}
    for kind in kinds:
        for key, at in found.get(kind, {}).items():
            times[key] = max(datetime.fromisoformat(at), times.get(key, datetime.fromisoformat(at)))
    return times


def to_repair(when: datetime, verdict: dg.AssetCheckResult) -> dict[str, datetime]:
    """The partitions that a load puts right, and when each was found; arguments as of :func:`found_in`."""
    times = times_of(found_in(when, verdict), PENDING, DIFFERING)
    return {key: times.get(key, when) for key in _json(verdict, REPAIR) or ()}


def loaded_since(instance: dg.DagsterInstance, table: Table, times: Mapping[str, datetime]) -> set[str]:
    """The partitions, of some, that were materialized after a time of each.

    Args:
        instance: Where materializations are.
        table: The declaration.
        times: By partition key, aware.
    """
    if not times:
        return set()
    chosen = dg.AssetRecordsFilter(
        asset_key=table.key, asset_partitions=sorted(times), after_timestamp=min(times.values()).timestamp()
    )
    loaded, cursor, more = set[str](), None, True
    while more and len(loaded) < len(times):
        page = instance.fetch_materializations(chosen, limit=1000, cursor=cursor)
        loaded |= {r.partition_key for r in page.records if r.timestamp > times[str(r.partition_key)].timestamp()}  # type: ignore[misc]
        cursor, more = page.cursor, page.has_more
    return loaded


def _json(verdict: dg.AssetCheckResult, name: str) -> Any:
    value = (verdict.metadata or {}).get(name)
    return value.data if isinstance(value, dg.JsonMetadataValue) else None
