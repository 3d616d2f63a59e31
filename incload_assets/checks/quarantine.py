"""The check ``quarantine``: how many rows of the recent windows are in quarantine, and why."""

import re
from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import dagster as dg

from incload_assets.change_log.change import REJECTED
from incload_assets.change_log.decisions import discarded_rows
from incload_assets.change_log.log import ChangeLog
from incload_assets.checks.kinds import LightCheck, not_at_all
from incload_assets.checks.observation import Observation, records, result
from incload_assets.platform.lake import data_files, files_in
from incload_assets.platform.lake_rows import dataset_of
from incload_assets.platform.wording import place_of, several, some, spoken

NAME = "quarantine"
DESCRIPTION = "Few rows of the recent windows break the contract, and no load stopped because of them."

RECENT = 10
SAMPLED = 1000
REASONS = 10
NEAR = 0.5
"""Share of the declared threshold above which the check warns, so that it warns before loads stop."""

_QUOTED = re.compile(r"^([^:]+: )'.*?' (?=\S)")


def quarantine(look: Observation) -> dg.AssetCheckResult:
    """Rejected rows of the recently ingested windows; ERROR if they stopped a load, WARN if a load came close."""
    allowed = look.table.quarantine
    stopped = [w.key for w in look.progress if w.failure == "contract"]
    recent = sorted(look.records, key=lambda key: look.records[key].landed_at)[-RECENT:]
    read = sum(look.records[key].rows_read for key in recent)
    rejected = sum(look.records[key].rejected for key in recent)
    dirty = sorted(key for key in recent if look.records[key].rejected)
    near = [key for key in dirty if _is_near(look, key)]
    share = rejected / read if read else 0.0
    metadata: dict[str, dg.MetadataValue] = {
        "rejected_rows": dg.MetadataValue.int(rejected),
        "rows_read": dg.MetadataValue.int(read),
        "share": dg.MetadataValue.float(round(share, 6)),
        "windows_looked_at": dg.MetadataValue.int(len(recent)),
        "max_share": dg.MetadataValue.float(float(allowed.max_share)),
    }
    if stopped:
        metadata["stopped"] = dg.MetadataValue.text(some(stopped))
    if dirty:
        metadata["windows"] = records(
            ["window", "rows read", "rejected"],
            ((key, look.records[key].rows_read, look.records[key].rejected) for key in dirty),
        )
        metadata["reasons"] = _reasons(look, dirty)
    old = _open_for_too_long(look)
    if old:
        rows, key = sum(old.values()), min(old, key=lambda key: look.records[key].landed_at)
        age = look.now - look.records[key].landed_at
        metadata["open_rows_too_old"] = dg.MetadataValue.int(rows)
        metadata["oldest_open_days"] = dg.MetadataValue.float(round(age / timedelta(days=1), 2))
    severity = dg.AssetCheckSeverity.ERROR if stopped else dg.AssetCheckSeverity.WARN
    description = " ".join(filter(None, (_described(stopped, near, rejected, read, recent), _aged(look, old))))
    return result(look, NAME, not (stopped or near or old), description, metadata, severity)


def _open_for_too_long(look: Observation) -> dict[str, int]:
    """The number of rejected rows that no one has discarded, by partition key, of windows landed long ago."""
    longest = look.table.quarantine.max_age
    if longest is None:
        return {}
    aged = {k: r for k, r in look.records.items() if r.rejected and look.now - r.landed_at > longest}
    discarded = Counter(
        row.window
        for row in (discarded_rows(look.lake, look.table).values() if aged else ())
        if row.window in aged and row.fingerprint == aged[row.window].fingerprint
    )
    left = {key: record.rejected - discarded[key] for key, record in aged.items()}
    return {key: count for key, count in left.items() if count > 0}


def _aged(look: Observation, old: Mapping[str, int]) -> str:
    if not old or look.table.quarantine.max_age is None:
        return ""
    name = look.table.name
    return (
        f"{several(sum(old.values()), 'row')} of {some(sorted(old))} rejected more than "
        f"{spoken(look.table.quarantine.max_age)} ago and still open. What to do: incload quarantine {name}; then have "
        f"them corrected, correct the contract, or incload accept or discard them."
    )


def _is_near(look: Observation, key: str) -> bool:
    record, allowed = look.records[key], look.table.quarantine
    by_share = record.rejected > NEAR * allowed.max_share * record.rows_read
    return by_share or (allowed.max_rows is not None and record.rejected > NEAR * allowed.max_rows)


def _described(stopped: list[str], near: list[str], rejected: int, read: int, recent: list[str]) -> str:
    parts = []
    if stopped:
        parts.append(
            f"Loads of {some(stopped)} stopped: too many rows break the contract; these partitions keep their old "
            "rows. What to do: fix the source or the contract, then materialize them again."
        )
    if near:
        parts.append(
            f"{some(near)} came near the threshold at which a load stops. What to do: see the reasons below, and fix "
            "the source, or the contract if the rows are right."
        )
    share = f" ({rejected / read:.1%})" if read else ""
    last = several(len(recent), "window")
    parts.append(
        f"{several(rejected, 'row')} of {read:,}{share} in quarantine in the {last} ingested last."
        if recent
        else "No window is ingested yet."
    )
    return " ".join(parts)


def _reasons(look: Observation, keys: list[str]) -> dg.TableMetadataValue:
    """The most frequent reasons in a bounded sample, each with one location; values and payloads stay in the log."""
    counts: Counter[str] = Counter()
    places: dict[str, str] = {}
    for row in _sample(look, keys):
        source = row["_source"] or {}
        place = f"{row['_window']}: {place_of(source.get('file'), source.get('block'), source.get('row'))}"
        for reason in row["_reasons"] or ():
            kind = _QUOTED.sub(r"\1", reason)
            counts[kind] += 1
            places.setdefault(kind, place)
    return records(["reason", "rows", "for example"], ((r, n, places[r]) for r, n in counts.most_common(REASONS)))


def _sample(look: Observation, keys: list[str]) -> list[dict[str, Any]]:
    delta = look.lake.delta(ChangeLog(look.table, look.lake).uri)
    if delta is None:
        return []
    rejected = files_in(files_in(data_files(delta), "_kind", [REJECTED]), "_window", keys)
    rows = dataset_of(delta, rejected).head(SAMPLED, columns=["_window", "_reasons", "_source"])
    return list(rows.to_pylist())


CHECK = LightCheck(
    name=NAME,
    description=DESCRIPTION,
    runbook="schema-break",
    evaluate=quarantine,
    rough={"oldest_open_days": not_at_all, "reasons": not_at_all},  # a sample
)
