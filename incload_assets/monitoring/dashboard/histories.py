"""The counters at past instants, computed from one reading of ``_loads``, so that no server has to keep them."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

from incload_assets.declaration.table import Table
from incload_assets.history.loads_table import LoadsTable
from incload_assets.history.sums import sums_at
from incload_assets.monitoring.dashboard.evaluate import Reading, reading
from incload_assets.monitoring.facts import Facts, TableFacts
from incload_assets.monitoring.metrics import METRICS, samples
from incload_assets.platform.settings import current_settings

COUNTERS = tuple(metric for metric in METRICS if metric.kind == "counter")


def counters_at(
    loads: LoadsTable, tables: Iterable[Table], wanted: Mapping[datetime, Collection[str]]
) -> dict[datetime, Reading]:
    """The counters of tables at instants, as they would have been read then.

    Args:
        loads: The history of loads.
        tables: The tables.
        wanted: The names of the counters by instant, aware.

    Example:
        >>> counters_at(LoadsTable(lake), [orders], {yesterday: ["incload_rows_total"]})  # doctest: +SKIP
    """
    by_name, instants = {table.name: table for table in tables}, sorted(wanted)
    price, found = current_settings().price_per_hour, dict[datetime, Reading]()
    for at, sums in zip(instants, sums_at(loads, [*by_name], instants), strict=True):
        then = {name: TableFacts(table=table, **vars(sums[name])) for name, table in by_name.items()}
        counters = [counter for counter in COUNTERS if counter.name in wanted[at]]
        found[at] = reading(samples(Facts(at=at, tables=then, price_per_hour=price), counters))
    return found
