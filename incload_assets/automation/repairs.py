"""Repairs: windows that a check found wrong and that a load can fix, requested once per finding."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

import dagster as dg

from incload_assets.checks import reconciliation, rollback
from incload_assets.checks.findings import loaded_since, to_repair
from incload_assets.declaration.source import Position
from incload_assets.declaration.table import Table
from incload_assets.progress.progress import WindowProgress
from incload_assets.progress.request import REPAIR_PREFIX
from incload_assets.progress.verdicts import last_finding, last_verdict


def is_repair(fingerprint: str | None) -> bool:
    """True if a window was requested because of a finding, and not because of its source's position."""
    return fingerprint is not None and fingerprint.startswith(REPAIR_PREFIX)


def with_repairs(
    instance: dg.DagsterInstance, table: Table, progress: Sequence[WindowProgress]
) -> list[WindowProgress]:
    """The progress, with loaded windows that need a repair marked as drifted. Each finding is a new position."""
    found_wrong = _found_wrong(instance, table) | _undone(instance, table)
    wrong = {w.key: found_wrong[w.key] for w in progress if w.status in ("loaded", "held") and w.key in found_wrong}
    mended = loaded_since(instance, table, {key: found for key, (found, _) in wrong.items()})
    return [
        replace(w, status="drifted", position=wrong[w.key][1]) if w.key in wrong and w.key not in mended else w
        for w in progress
    ]


def _found_wrong(instance: dg.DagsterInstance, table: Table) -> dict[str, tuple[datetime, Position]]:
    """Windows that the reconciliation found wrong: when, and a position that is new for each finding."""
    last = last_verdict(instance, dg.AssetCheckKey(table.key, reconciliation.NAME))

    def position(found: datetime) -> Position:
        return Position(f"{REPAIR_PREFIX}{found:%Y-%m-%d %H:%M:%S.%f}", summary="found wrong by the reconciliation")

    return {key: (found, position(found)) for key, found in to_repair(*last).items()} if last else {}


def _undone(instance: dg.DagsterInstance, table: Table) -> dict[str, tuple[datetime, Position]]:
    """Windows that the table has lost: when that was found, and a position that is the same for the same rollback."""
    finding = last_finding(instance, dg.AssetCheckKey(table.key, rollback.NAME), rollback.REPAIR)
    if finding is None:
        return {}
    found, undone = finding
    return {key: (found, Position(why, summary=why)) for key, why in undone.items()}
