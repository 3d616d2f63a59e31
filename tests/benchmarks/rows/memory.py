"""The memory of a load's process and of its Spark server, by size of the table."""

import json
from collections.abc import Iterator

from tests.benchmarks.bench import Bench
from tests.benchmarks.child import run_module
from tests.benchmarks.contest import Contest
from tests.benchmarks.pairs import Comparison
from tests.benchmarks.rows.small import small_items


def memory(bench: Bench) -> Iterator[Comparison]:
    """The same small loads into a large table and into a small one."""
    times = bench.sizes.growth[-1]
    days = bench.sizes.partitions
    large, small = (Contest.of(bench, small_items(bench, n)) for n in (days * times, days))
    peaks = [(_peaks(large), _peaks(small)) for _ in range(bench.pairs)]
    for process in peaks[0][0]:
        ratios = tuple(a[process] / b[process] for a, b in peaks)
        name = f"peak memory of the {process}, table {times} times as large / small"
        found = Comparison(name, ratios, 1.2, {**large.items.sizes, "loads": bench.sizes.loads})
        print(found, flush=True)
        yield found


def _peaks(contest: Contest) -> dict[str, int]:
    """Bytes, by process."""
    loads = contest.loads()
    windows = [loads.write(number).window for number in range(contest.bench.sizes.loads)]
    home = contest.bench.new("home")
    told = run_module("tests.benchmarks.peak", loads.table.lake.root, f"{loads.landing}", *windows, INCLOAD_HOME=home)
    return dict(json.loads(told.splitlines()[-1]))
