"""The memory of a load's process and of its Spark server, by size of the table and by size of what is loaded."""

import json
from collections.abc import Iterator
from dataclasses import replace

from tests.benchmarks.bench import Bench
from tests.benchmarks.child import run_module
from tests.benchmarks.contest import Contest
from tests.benchmarks.items import Items
from tests.benchmarks.pairs import Comparison
from tests.benchmarks.rows.small import small_items


def memory(bench: Bench) -> Iterator[Comparison]:
    """The same small loads into a large table and into a small one; many and some changes of the same partition."""
    times, days, rows = bench.sizes.growth[-1], bench.sizes.partitions, bench.sizes.big
    large, small = (Contest.of(bench, small_items(bench, n)) for n in (days * times, days))
    yield from _compared(f"table {times} times as large / small", large, small, 1.2)
    many = Contest.of(bench, Items(rows=rows, days=2, changes=rows // 5))
    some = replace(many, items=replace(many.items, changes=many.items.changes // 10))
    yield from _compared("10 times as many changes / some", many, some, 2)


def _compared(what: str, a: Contest, b: Contest, bound: float) -> Iterator[Comparison]:
    peaks = [(_peaks(a), _peaks(b)) for _ in range(a.bench.pairs)]
    for process in peaks[0][0]:
        ratios = tuple(one[process] / other[process] for one, other in peaks)
        sizes = {**a.items.sizes, "loads": a.bench.sizes.loads}
        found = Comparison(f"peak memory of the {process}, {what}", ratios, bound, sizes)
        print(found, flush=True)
        yield found


def _peaks(contest: Contest) -> dict[str, int]:
    """Bytes, by process."""
    loads = contest.loads()
    windows = [loads.write(number).window for number in range(contest.bench.sizes.loads)]
    home = contest.bench.new("home")
    told = run_module("tests.benchmarks.peak", loads.table.lake.root, f"{loads.landing}", *windows, INCLOAD_HOME=home)
    return dict(json.loads(told.splitlines()[-1]))
