"""What it costs to prove the checkpoints of many small windows after Dagster's storage was lost."""

import time
from collections.abc import Iterator
from dataclasses import replace

import dagster as dg

from incload_assets.restore.rebuild import rebuild as rebuilt
from tests.benchmarks.bench import Bench
from tests.benchmarks.contest import Contest
from tests.benchmarks.pairs import Comparison
from tests.benchmarks.rows.small import small_items
from tests.support.many_windows import many_windows


def rebuild(bench: Bench) -> Iterator[Comparison]:
    """A rebuild of all checkpoints of a table of small windows, against the load of one: loading all takes as many."""
    loads = Contest.of(bench, small_items(bench, bench.sizes.partitions)).loads()
    windows, longest = bench.sizes.files, [0.0]
    table = many_windows(loads.table.spark, bench.new("windows"), windows)

    def prove(_: int) -> None:
        with dg.DagsterInstance.local_temp() as instance:
            began = time.perf_counter()
            found = rebuilt(table.context(), instance)
            longest.append(time.perf_counter() - began)
        assert (len(found.proven), found.refused) == (windows, {})

    done = bench.compare(
        "rebuild of many checkpoints / small load",
        prove,
        loads.load,
        prepare=loads.write,
        bound=max(windows / 100, 20),
        sizes={"windows": windows},
    )
    yield replace(done, note=f"{windows / max(longest) * 60:,.0f} windows a minute or more")
