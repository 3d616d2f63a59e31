"""Repairs: windows that a check found wrong and that a load can fix, requested once per finding."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

import dagster as dg

from incload_assets.automation.attempts import last_load
from incload_assets.checks import reconciliation, rollback
from incload_assets.checks.findings import to_repair
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
    wrong = _found_wrong(instance, table) | _undone(instance, table)

    def asked(window: WindowProgress) -> Position | None:
        if window.status not in ("loaded", "held") or window.key not in wrong:
            return None
        found, position = wrong[window.key]
        load = last_load(instance, table, window.key)
        return position if load is None or load.ended < found else None

    return [replace(w, status="drifted", position=position) if (position := asked(w)) else w for w in progress]


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
