"""A load that changes a fifth of a big partition."""

from collections.abc import Iterator

from tests.benchmarks.bench import Bench
from tests.benchmarks.by_hand import NO_COPIES, merge_carefully, merge_partition, rewrite_partition
from tests.benchmarks.contest import Contest
from tests.benchmarks.items import Items
from tests.benchmarks.pairs import Comparison


def big(bench: Bench) -> Iterator[Comparison]:
    """Against the best MERGE by hand, and against reading and writing the partition once."""
    contest = Contest.of(bench, Items(rows=bench.sizes.big, days=2, changes=bench.sizes.big // 5))
    by_hand, rewrite = merge_partition(bench.session(NO_COPIES)), rewrite_partition(bench.session())
    carefully = merge_carefully(bench.session(NO_COPIES))
    yield contest.against("load of a big partition / best MERGE by hand", by_hand, bound=1.6)
    yield contest.against("load of a big partition / what was read kept, MERGE, counts", carefully, bound=1.2)
    yield contest.against("load of a big partition / reading and writing it once", rewrite, bound=None, same=False)
