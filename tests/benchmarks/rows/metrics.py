"""What a look at everything costs: the metrics of many tables, gathered from the history of their loads."""

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import dagster as dg

from incload_assets.checks.registry import check_names
from incload_assets.monitoring.load_row import SCHEMA
from incload_assets.monitoring.loads_table import LoadsTable
from incload_assets.monitoring.prometheus.exporter import Exporter
from resources.settings import Settings
from tests.benchmarks.bench import Bench
from tests.benchmarks.pairs import Comparison
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
