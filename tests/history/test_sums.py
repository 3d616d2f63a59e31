"""Sums over the history of loads: what plain Python counts among the loads that had ended by then."""

import random
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from incload_assets.declaration.window import window_of
from incload_assets.history.load_row import LoadRow
from incload_assets.history.loads_table import LoadsTable
from incload_assets.history.sums import CHANGED, COLLECTED_WITHIN, Sums, sums_at
from tests.support.made_up_loads import counted, made_up, row, timed
from tests.support.made_up_tables import declared

NOW = datetime(2026, 1, 12, 9, 30, tzinfo=UTC)
INSTANTS = [NOW - timedelta(days=14), *(NOW - n * timedelta(hours=17) for n in range(7, -1, -1))]


def expected(rows: Sequence[LoadRow], at: datetime) -> Sums:
    """The sums of one table, row by row."""
    rows = sorted((row for row in rows if row.ended_at <= at), key=lambda row: row.ended_at)
    loaded = [row for row in rows if row.outcome == "loaded"]
    if not rows:
        return Sums()
    first_after_end: dict[str, datetime] = {}
    late, in_time = [], set()
    for load in loaded:
        if load.ended_at > load.window_end and load.ended_at > first_after_end.setdefault(load.window, load.ended_at):
            late.append(load)
        if max(load.ended_at, loaded[0].ended_at + timedelta.resolution) <= load.due_at <= at - COLLECTED_WITHIN:
            in_time.add(load.window)
    return Sums(
        loads=dict(Counter((row.outcome, row.error_class) for row in rows)),
        late_rows=sum(getattr(row, name) for row in late for name in CHANGED),
        late_bytes=sum(row.bytes for row in late),
        on_time=len(in_time),
        first=loaded[0].ended_at if loaded else None,
        newest=max((row.ended_at for row in loaded), default=None),
        newest_window=max((row.window_end for row in loaded), default=None),
    )


@pytest.mark.parametrize("seed", range(3))
def test_sums_are_those_of_the_loads_that_had_ended(tmp_path: Path, seed: int) -> None:
    fate = random.Random(seed)
    with made_up(tmp_path, declared("guests", "rooms"), NOW) as world:
        for table in world.tables.values():
            keys = table.partitions_def.get_partition_keys(current_time=NOW)
            loads = []
            for _ in range(80):
                window = window_of(table.partitions_def, fate.choice(keys), table.name)
                end, event = window.start + timedelta(hours=fate.uniform(1, 60)), fate.getrandbits(60)
                if fate.random() < 0.2:
                    loads.append(row(table, window, end, event, outcome="failed", error_class=fate.choice("AB")))
                else:
                    loads.append(counted(timed(row(table, window, end, event), fate.uniform(1, 9)), 99, fate))
            for n in range(0, len(loads), 8):  # several at a time, as they are collected
                world.append(*loads[n : n + 8])
        found = sums_at(LoadsTable(world.lake), [*world.tables], INSTANTS)
        for at, sums in zip(INSTANTS, found, strict=True):
            for name in world.tables:
                of_table = [row for row in world.rows if row.table == name]
                totals, sums[name].totals = sums[name].totals, {}
                assert sums[name] == expected(of_table, at), (name, at)
                read = sum(row.rows_read for row in of_table if row.ended_at <= at)
                assert totals.get("rows_read", 0) == read
    assert sums["guests"].late_rows and sums["guests"].on_time
