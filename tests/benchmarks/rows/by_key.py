"""Loads of large tables that any load may touch anywhere: states and histories."""

from collections.abc import Iterator
from dataclasses import replace

from incload_assets.assets import History, Merge
from tests.benchmarks.bench import Bench
from tests.benchmarks.by_hand import merge_key, merge_refresh, merge_versions, reload_from
from tests.benchmarks.contest import Contest, Loads, expect_same, race
from tests.benchmarks.items import Items
from tests.benchmarks.pairs import Comparison

BUCKETS, FEW = 64, 20


def state(bench: Bench) -> Iterator[Comparison]:
    """One row in a thousand against a MERGE by hand, as a refresh of TPC-H too; a few rows where there are buckets."""
    rows = bench.sizes.state
    contest = Contest.of(bench, Items(rows=rows, changes=rows // 1_000, write=Merge()))
    yield contest.against("load of a state table / MERGE by hand", merge_key(bench.session()), bound=1.2)
    refresh = replace(contest, items=replace(contest.items, refresh=True))
    by_hand = merge_refresh(bench.session())
    yield refresh.against("the same, half inserts, half deletes / MERGE by hand", by_hand, bound=1.2)
    few, spark = Items(rows=rows, changes=FEW, write=Merge(buckets=BUCKETS)), contest.spark
    divided = Loads.into(bench, few, spark, few.fill(spark, bench.new("buckets")))
    undivided = Items(rows=rows, changes=FEW, write=Merge())
    whole = Loads.into(bench, undivided, spark, bench.copy(contest.lake))
    found = race(bench, f"{FEW} changes of a state table in {BUCKETS} buckets / in none", divided, whole, bound=None)
    expect_same(spark, whole.table.table.schema.names, divided.table.uri, whole.table.uri)
    yield found


def history(bench: Bench) -> Iterator[Comparison]:
    """One key in a thousand against a staged MERGE by hand, and against writing the table again."""
    rows = bench.sizes.state
    contest = Contest.of(bench, Items(rows=rows, changes=rows // 1_000, write=History(track=["value"])))
    by_hand, rewrite = merge_versions(bench.session()), reload_from(bench.session())
    yield contest.against("load of a history / staged MERGE by hand", by_hand, bound=1.5)
    yield contest.against("load of a history / writing it again", rewrite, bound=None, same=False)
