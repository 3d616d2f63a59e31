"""A small load: against MERGEs by hand, and into a table that is larger and larger."""

from collections.abc import Iterator

from tests.benchmarks.bench import Bench
from tests.benchmarks.by_hand import TUNED, merge_carefully, merge_key, merge_partition
from tests.benchmarks.contest import Contest, Loads, race
from tests.benchmarks.items import Items
from tests.benchmarks.pairs import Comparison


def small_items(bench: Bench, days: int) -> Items:
    """Small partitions, of which one gets a few changes."""
    return Items(rows=bench.sizes.partition, days=days, changes=bench.sizes.partition // 5)


def warm(bench: Bench) -> Iterator[Comparison]:
    """Against the MERGE of somebody who knows how, and against what careful teams run."""
    contest = Contest.of(bench, small_items(bench, bench.sizes.partitions))
    by_hand = merge_partition(bench.session(TUNED))
    yield contest.against("small load / MERGE by hand, tuned", by_hand, bound=1.6, small=True)
    carefully = merge_carefully(bench.session(TUNED))
    yield contest.against("small load / what was read kept, MERGE, counts", carefully, bound=1.1, small=True)


def plain(bench: Bench) -> Iterator[Comparison]:
    """Against the MERGE that most people write: by key, with the server's settings, into a large table."""
    contest, by_hand = Contest.of(bench, small_items(bench, bench.sizes.plain)), merge_key(bench.session(), newer="")
    yield contest.against("small load / MERGE by hand, plain, into a large table", by_hand, bound=0.8, small=True)


def growth(bench: Bench) -> Iterator[Comparison]:
    """Into larger tables: what it costs follows the change."""
    base = Contest.of(bench, small_items(bench, bench.sizes.partitions))
    for times in (*bench.sizes.growth, bench.sizes.largest):
        items = small_items(bench, bench.sizes.partitions * times)
        large = Loads.into(bench, items, base.spark, items.fill(base.spark, bench.new("lake")))
        name = f"small load into a table {times} times as large / into a small one"
        yield race(bench, name, large, base.loads(), bound=1.2)
