"""Advice on cheaper loads: another write strategy or interval, from what recent loads have read, changed and taken."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from statistics import median

import dagster as dg

from incload_assets.declaration.table import Table
from incload_assets.declaration.window_rules import too_many_windows
from incload_assets.platform import wording
from incload_assets.platform.lake import Lake, bytes_of, data_files
from incload_assets.platform.wording import several
from incload_assets.progress.status import rows_of
from incload_assets.writes.full_reload import FullReload
from incload_assets.writes.merge import Merge
from incload_assets.writes.snapshot import Snapshot

LOADS = 30
"""The number of recent loads that are considered."""
ENOUGH_LOADS = 5
SMALL_BYTES = 2 * 2**30
SLOW_SECONDS = 60.0
FEW_CHANGES = 0.1
_STEP_SECONDS = 5


@dataclass(frozen=True)
class Cost:
    """The cost of one load: rows read from the source, rows changed in the table, and its duration."""

    rows_read: int
    changed: int
    seconds: float


@dataclass(frozen=True)
class Load:
    """One load of a partition; ``ended`` is in seconds since 1970."""

    partition: str
    ended: float
    cost: Cost


def advice_for(instance: dg.DagsterInstance, table: Table, lake: Lake) -> str | None:
    """Advice from the table's materializations and its Delta log, without Spark; None if there is nothing to advise."""
    advice = [too_many_windows(table.partitions_def)]
    delta = lake.delta(lake.table_uri(table.key.path))
    rows = None if delta is None else rows_of(delta)
    if delta is not None and rows is not None:
        loads, in_full = _recent(instance, table), isinstance(table.write, FullReload | Snapshot)
        advice.append(advise_interval(loads, table.interval))
        if in_full or _foldable(table):
            advice.append(advise([load.cost for load in loads], rows, bytes_of(data_files(delta)), in_full=in_full))
    return "; ".join(filter(None, advice)) or None


def advise(loads: Sequence[Cost], rows: int, size: int, *, in_full: bool) -> str | None:
    """Advice to load a small table in full, or a large table by its changes, if that would be cheaper; else None.

    Args:
        loads: Recent loads; with fewer than five there is no advice.
        rows, size: Rows and bytes of the table.
        in_full: Whether each load reads the whole source; otherwise it reads what changed.

    Example:
        >>> advise([Cost(rows_read=500, changed=90, seconds=6.0)] * 5, rows=400, size=20_000, in_full=False)
        'a load reads 500 rows (median of 5) in 6.0 s, the whole table has 400 rows in 20 kB: if the source can be \
read in full, FullReload() or Snapshot() would be cheaper'
    """
    if len(loads) < ENOUGH_LOADS or not rows:
        return None
    read, changed, seconds = (
        median(getattr(load, name) for load in loads) for name in ("rows_read", "changed", "seconds")
    )
    about = f"a load reads {several(round(read), 'row')} (median of {len(loads)}) in {seconds:.1f} s"
    whole = f"the whole table has {several(rows, 'row')} in {wording.size(size)}"
    if in_full:
        if changed <= FEW_CHANGES * rows and (size > SMALL_BYTES or seconds > SLOW_SECONDS):
            return f"{about} to change {changed:,.0f}, {whole}: Merge() of what changed would be cheaper"
    elif rows <= read and size <= SMALL_BYTES:
        cheaper = "if the source can be read in full, FullReload() or Snapshot() would be cheaper"
        return f"{about}, {whole}: {cheaper}"
    return None


def advise_interval(loads: Sequence[Load], interval: timedelta) -> str | None:
    """Advice on a longer interval, if loads of the partition loaded last take more than half of the time; else None.

    The interval that it names leaves half of the time to other loads. ``loads`` has the last one first; with fewer than
    five of that partition there is no advice.

    Example:
        >>> loads = [Load("2026-01-05", -60.0 * n, Cost(rows_read=500, changed=9, seconds=41.0)) for n in range(5)]
        >>> advise_interval(loads, timedelta(seconds=15))
        'a load of 2026-01-05 takes 41 s (median of 5), and one ends every 60 s: interval=timedelta(seconds=85) or \
shorter partitions would leave half of the time to other loads'
    """
    same = [load for load in loads if load.partition == loads[0].partition]
    if len(same) < ENOUGH_LOADS:
        return None
    seconds = median(load.cost.seconds for load in same)
    between = median(later.ended - earlier.ended for later, earlier in pairwise(same))
    longer = _STEP_SECONDS * math.ceil(2 * seconds / _STEP_SECONDS)
    if not seconds <= between < 2 * seconds or longer <= interval.total_seconds():
        return None  # loads cannot end more often than they take, unless they were recorded by others
    return (
        f"a load of {same[0].partition} takes {seconds:.0f} s (median of {len(same)}), and one ends every "
        f"{between:.0f} s: interval=timedelta(seconds={longer}) or shorter partitions would leave half of the time to "
        "other loads"
    )


def _foldable(table: Table) -> bool:
    """True if the table holds the source's present rows, so that a full read of the source could produce it."""
    return isinstance(table.write, Merge)


def _recent(instance: dg.DagsterInstance, table: Table) -> list[Load]:
    records = instance.fetch_materializations(dg.AssetRecordsFilter(asset_key=table.key), limit=LOADS).records
    loads = []
    for record in records:
        shown = record.asset_materialization.metadata if record.asset_materialization else {}
        names = ("rows_read", "inserted", "updated", "deleted", "seconds")
        figures = [shown[name].value for name in names if name in shown]
        numbers = [figure for figure in figures if isinstance(figure, int | float)]
        if len(numbers) == len(names):
            read, inserted, updated, deleted, seconds = numbers
            cost = Cost(int(read), int(max(inserted, deleted) + updated), seconds)
            loads.append(Load(record.partition_key or "", record.timestamp, cost))
    return loads
