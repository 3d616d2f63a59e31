"""The same incremental job by other means, and from which size on the load is ahead of them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from tests.benchmarks.bench import Bench
from tests.benchmarks.by_hand import delta_rs, merge_partition, reload_from, with_dlt
from tests.benchmarks.contest import Contest
from tests.benchmarks.items import Items
from tests.benchmarks.pairs import Comparison
from tests.benchmarks.rows.small import small_items

AHEAD_FROM = 1_000_000
"""Rows of a table from which on its loads should be ahead of tools that look at all of it."""


def without_spark(bench: Bench) -> Iterator[Comparison]:
    """Against pyarrow and delta-rs, by size of the partition, of which a fifth changes."""
    found = []
    for rows in bench.sizes.steps:
        contest = Contest.of(bench, Items(rows=rows, days=2, changes=rows // 5))
        found.append(contest.against(f"load / delta-rs, partition of {rows:,} rows", delta_rs, bound=None))
    yield from told(found, bench.sizes.steps, "rows in the partition")


def by_dlt(bench: Bench) -> Iterator[Comparison]:
    """Against dlt, by size of the table, of which a small partition changes."""
    sizes = [bench.sizes.partitions * times for times in (1, *bench.sizes.growth)]
    found = []
    for days in sizes:
        contest = Contest.of(bench, small_items(bench, days))
        name, other = f"small load / dlt, {contest.items.rows * days:,} rows", with_dlt(bench.new("dlt"))
        found.append(contest.against(name, other, bound=_bound(contest.items), small=True))
    yield from told(found, [days * bench.sizes.partition for days in sizes], "rows in the table")


def full_reload(bench: Bench) -> Iterator[Comparison]:
    """Against writing the whole table again from its source, by size of the table, of which a small partition changes.

    The source is a Delta table, so that reading it is as cheap as can be.
    """
    found, sizes = [], [bench.sizes.partitions * times for times in (1, *bench.sizes.growth)]
    for days in sizes:
        contest = Contest.of(bench, small_items(bench, days))
        source, spark = f"{bench.copy(contest.lake)}/items", bench.session()
        name, reload = f"small load / full reload, {contest.items.rows * days:,} rows", reload_from(spark, source)
        change = partial(merge_partition(spark), source)
        found.append(contest.against(name, reload, bound=_bound(contest.items), prepare=change))
    yield from told(found, [days * bench.sizes.partition for days in sizes], "rows in the table")


def _bound(items: Items) -> float | None:
    return 1 if items.rows * items.days >= AHEAD_FROM else None


def told(found: Sequence[Comparison], sizes: Sequence[int], of: str) -> Iterator[Comparison]:
    """The comparisons, the last of them with a note on who is ahead; sizes go up."""
    ahead = [comparison.median <= 1 for comparison in found]
    since = next((n for n in range(len(ahead)) if all(ahead[n:])), None)
    note = "the load is not ahead at any of these sizes" if since is None else f"ahead from {sizes[since]:,} {of} on"
    yield from found[:-1]
    yield replace(found[-1], note=f"{note}; {found[-1].note}")
