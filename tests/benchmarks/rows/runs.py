"""What Dagster adds to loads: a run from end to end, and a backfill as one run or as many."""

import os
import statistics
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from unittest import mock

from resources.settings import Settings
from tests.benchmarks.bench import Bench
from tests.benchmarks.child import run_module
from tests.benchmarks.contest import Contest, expect_same
from tests.benchmarks.pairs import Comparison
from tests.benchmarks.rows.small import small_items
from tests.house import House
from tests.integration.backfill import YEAR, dated, deliver, load

ON_TOP = 6
"""Seconds that a run may take beside its load."""


def run(bench: Bench) -> Iterator[Comparison]:
    """A run in a process of its own, from the process's start to its end, against the load alone."""
    contest = Contest.of(bench, small_items(bench, bench.sizes.partitions))
    lake, home = bench.copy(contest.lake), bench.new("dagster")
    home.mkdir()
    loads = contest.loads()

    def run_of(number: int) -> None:
        window = loads.batches[number].window
        places = {"INCLOAD_LAKE": lake, "INCLOAD_LANDING": loads.landing, "DAGSTER_HOME": home}
        run_module("tests.benchmarks.location", window, **places)

    found = bench.compare(
        "Dagster run of a small load, with its process / the load alone",
        run_of,
        loads.load,
        prepare=loads.write,
        sizes=loads.items.sizes,
    )
    expect_same(contest.spark, loads.table.table.schema.names, loads.table.uri, f"{lake}/{loads.table.table.name}")
    load = statistics.median(sum(report.seconds.values()) for report in loads.reports.values())
    on_top = f"about {load * (found.median - 1):.1f} s of the run are not the load"
    note = f"{on_top}: its process, imports, Dagster, the session; asked: {ON_TOP} s"
    yield replace(found, bound=1 + ON_TOP / load, note=note)


def backfill(bench: Bench) -> Iterator[Comparison]:
    """Partitions of a few rows that were never loaded: one run over all of them against a run for each.

    Of these runs only some are made, and stand for all. The range's run also judges the table's checks at its end;
    those for each partition are spared that.
    """
    days, single, spark = YEAR[: bench.sizes.backfill], YEAR[: bench.sizes.single], bench.session()
    with ExitStack() as opened:
        opened.enter_context(mock.patch.dict(os.environ, INCLOAD_LANDING=f"{bench.folder}/landing"))
        for day in days:
            deliver(bench.folder, day)
        houses: list[tuple[House, House]] = []

        def open_new(number: int) -> None:
            folders = [bench.folder / f"{name}-{number}" for name in ("range", "single")]
            for folder in folders:
                folder.mkdir()
            one, other = (opened.enter_context(dated(f, f / "dagster", Settings())) for f in folders)
            houses.append((one, other))

        def in_range(number: int) -> None:
            assert load(houses[number][0], days[0], days[-1]).success

        def one_by_one(number: int) -> None:
            for day in single:
                assert load(houses[number][1], day, day).success

        found = bench.compare(
            "backfill as a range / as a run for each partition",
            in_range,
            one_by_one,
            prepare=open_new,
            bound=0.1,
            sizes={"partitions": len(days), "loaded by a run each": len(single), "rows of each": 2},
            weight=len(single) / len(days),
        )
        for sides in houses:
            uris = [f"{h.lake.table_uri(h.table.key.path)}" for h in sides]
            expect_same(spark, sides[0].table.schema.names, *uris, where=f"day <= DATE'{single[-1]}'")
    yield replace(found, note="no run starts a process of its own here")
