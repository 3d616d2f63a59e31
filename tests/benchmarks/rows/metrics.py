"""What a look at everything costs: the metrics of many tables, gathered from the history of their loads."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from threading import Event

import dagster as dg

from incload_assets.checks.registry import check_names
from incload_assets.history.load_row import SCHEMA
from incload_assets.history.loads_table import LoadsTable
from incload_assets.monitoring.prometheus.exporter import Exporter
from incload_assets.platform.settings import Settings
from tests.benchmarks.bench import Bench
from tests.benchmarks.contest import Contest
from tests.benchmarks.pairs import Comparison
from tests.benchmarks.rows.small import small_items
from tests.support.guest_table import house
from tests.support.load_history import evaluated, fill, named, seen, tick

CHECKED = 100
"""The number of tables that checks have results of: one by one, those of all would take half an hour to record."""


def metrics(bench: Bench) -> Iterator[Comparison]:
    """A scrape of many tables, each with a year of loads, against a plain read of the same rows."""
    sizes, longest = bench.sizes, [0.0]
    days = dg.DailyPartitionsDefinition("2024-01-01")
    folder, now = bench.new("metrics"), datetime.now(UTC)
    with dg.DagsterInstance.local_temp() as instance, house(folder, Settings(), instance=instance) as h:
        tables = [named(h.table, f"table_{number}", partitions_def=days) for number in range(sizes.tables)]
        rows = fill(h.lake, tables, sizes.backfill, now, instance)
        for number, table in enumerate(tables):
            tick(instance, table, seen(now))
            for check in check_names(table) if number < CHECKED else ():
                evaluated(instance, table, check)
        exporter, loads = Exporter(instance, tables, h.lake), LoadsTable(h.lake)

        def scrape(_: int) -> None:
            began = time.perf_counter()
            text = exporter.text()
            longest.append(time.perf_counter() - began)
            assert text.count("incload_loads_total{") == 3 * sizes.tables and "incload_up 1.0" in text

        def read(_: int) -> None:
            assert loads.columns(SCHEMA.names).num_rows == rows

        found = bench.compare(
            "metrics of all tables / plain read of their loads",
            scrape,
            read,
            sizes={"tables": sizes.tables, "loads": rows},
        )
        yield replace(found, note=f"a scrape took {max(longest):.1f} s at most")


def watched(bench: Bench) -> Iterator[Comparison]:
    """A load while the table's metrics are scraped each second, against the same load while nobody looks."""
    contest = Contest.of(bench, small_items(bench, bench.sizes.partitions))
    seen, alone = contest.loads(), contest.loads()
    scrapes = count()

    def write(number: int) -> None:
        seen.write(number)
        alone.write(number)

    with dg.DagsterInstance.local_temp() as instance:
        exporter = Exporter(instance, [seen.table.table], seen.table.lake)

        def load(number: int) -> None:
            done = Event()

            def scrape() -> None:
                while not done.wait(1):
                    assert "incload_up 1.0" in exporter.text()
                    next(scrapes)

            with ThreadPoolExecutor(1) as pool:
                scraping = pool.submit(scrape)
                seen.load(number)
                done.set()
                scraping.result()

        rounds = bench.rounds(small=True)
        name = "small load, metrics scraped each second / nobody looks"
        found = bench.compare(name, load, alone.load, prepare=write, bound=1.1, sizes=seen.items.sizes, **rounds)
    yield replace(found, note=f"{next(scrapes)} scrapes, by a thread of the loading process")
