"""Advice on the way of loading, from what loads have cost."""

import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from incload_assets.monitoring.advice import SMALL_BYTES, Cost, Load, advice_for, advise, advise_interval
from incload_assets.platform.settings import Settings
from tests.support.guest_table import guest, house


def test_a_small_table_whose_loads_read_as_much_as_it_holds_is_better_loaded_in_full() -> None:
    loads = [Cost(rows_read=500, changed=90, seconds=6.0), *[Cost(rows_read=700, changed=90, seconds=7.0)] * 4]
    assert advise(loads, rows=700, size=250_000, in_full=False) == (
        "a load reads 700 rows (median of 5) in 7.0 s, the whole table has 700 rows in 250 kB: if the source can be "
        "read in full, FullReload() or Snapshot() would be cheaper"
    )
    assert advise(loads, rows=701, size=250_000, in_full=False) is None
    assert advise(loads, rows=700, size=SMALL_BYTES + 1, in_full=False) is None
    assert advise(loads[1:], rows=700, size=250_000, in_full=False) is None


def test_a_large_table_of_which_little_changes_is_better_loaded_by_its_changes() -> None:
    loads = [Cost(rows_read=2_000_000, changed=120, seconds=95.0)] * 6
    assert advise(loads, rows=2_000_000, size=900_000_000, in_full=True) == (
        "a load reads 2,000,000 rows (median of 6) in 95.0 s to change 120, the whole table has 2,000,000 rows in "
        "900 MB: Merge() of what changed would be cheaper"
    )
    assert advise([Cost(2_000_000, 300_000, 95.0)] * 6, rows=2_000_000, size=900_000_000, in_full=True) is None
    assert advise([Cost(2_000_000, 120, 20.0)] * 6, rows=2_000_000, size=900_000_000, in_full=True) is None
    assert advise([Cost(2_000_000, 120, 20.0)] * 6, rows=2_000_000, size=SMALL_BYTES + 1, in_full=True) is not None


def test_an_open_partition_that_is_always_being_loaded_is_better_looked_at_less_often() -> None:
    quick, slow = Cost(rows_read=500, changed=9, seconds=20.0), Cost(rows_read=500, changed=9, seconds=41.0)
    loads = [Load("today", 1000.0 - 60 * number, slow) for number in range(5)]
    assert advise_interval(loads, timedelta(seconds=15)) == (
        "a load of today takes 41 s (median of 5), and one ends every 60 s: interval=timedelta(seconds=85) or shorter "
        "partitions would leave half of the time to other loads"
    )
    assert advise_interval(loads, timedelta(seconds=85)) is None
    assert advise_interval([replace(load, cost=quick) for load in loads], timedelta(seconds=15)) is None
    assert advise_interval([replace(load, ended=load.ended * 2) for load in loads], timedelta(seconds=15)) is None
    assert advise_interval([replace(loads[0], partition="tomorrow"), *loads], timedelta(seconds=15)) is None
    assert advise_interval(loads[1:], timedelta(seconds=15)) is advise_interval([], timedelta(seconds=15)) is None


def test_the_figures_are_those_of_the_materializations(tmp_path: Path, spark_settings: Settings) -> None:
    with house(tmp_path, spark_settings) as h:
        assert advice_for(h.instance, h.table, h.lake) is None
        h.deliver(1, guest("1"))
        assert h.load(1) == [True]
        loaded = h.instance.get_latest_materialization_event(h.table.key)
        assert loaded is not None and loaded.asset_materialization is not None
        assert advice_for(h.instance, h.table, h.lake) is None
        for _ in range(4):
            h.instance.report_runless_asset_event(loaded.asset_materialization)
        advice = advice_for(h.instance, h.table, h.lake)
    assert advice is not None
    assert advice.startswith("a load reads 1 row (median of 5) in ")
    assert re.search(", the whole table has 1 row in [0-9.]+ kB: ", advice)
