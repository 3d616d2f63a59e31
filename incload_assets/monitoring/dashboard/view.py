"""The data of the dashboards' page at an instant: the metrics then, the counters before, and the facts behind both."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import dagster as dg

from incload_assets.declaration.table import Table
from incload_assets.history.loads_table import LoadsTable
from incload_assets.history.sums import Sums, sums_at
from incload_assets.monitoring.dashboard.evaluate import Line, Reading, Values, evaluate, over_time, reading
from incload_assets.monitoring.facts import Facts, TableFacts, gather
from incload_assets.monitoring.metrics import METRICS, samples
from incload_assets.monitoring.panels import DASHBOARDS, Query
from incload_assets.platform.lake import Lake
from incload_assets.platform.settings import current_settings
from incload_assets.progress.slots import SlotRun, Slots, slot_runs, slots_in_use

COUNTERS = tuple(metric for metric in METRICS if metric.kind == "counter")
DAYS, HOURS = 14, 24
"""The number of values over time of a query whose increase is over a day or longer, and over a shorter time."""


@dataclass(frozen=True, kw_only=True)
class View:
    """The data of the page at an instant.

    Args:
        past: The counters at earlier instants, see :func:`steps`.
        remembered: The samples of earlier looks, for gauges, which have no history.
        slots: The pools and the run queue in which a run holds a slot or waits for one.
        slot_runs: These runs, by their identifiers.
    """

    facts: Facts
    now: Reading
    past: Mapping[datetime, Reading] = field(default_factory=dict)
    remembered: Mapping[datetime, Reading] = field(default_factory=dict)
    slots: Sequence[Slots] = ()
    slot_runs: Mapping[str, SlotRun] = field(default_factory=dict)

    @property
    def at(self) -> datetime:
        """The instant, aware."""
        return self.facts.at

    def values(self, query: Query) -> Values:
        """The present values of a query."""
        before = None if query.increase is None else self.past.get(self.at - query.increase)
        return evaluate(query, self.now, before)

    def lines(self, query: Query) -> Mapping[tuple[str, ...], Line]:
        """The values of a query over time, until the present ones; a counter did not grow before it began."""
        if query.increase is None:
            return over_time(query, {**self.remembered, self.at: self.now})
        readings = {at: self.past[at] for at in steps(query.increase, self.at) if at in self.past} | {self.at: self.now}
        instants = sorted(readings)[1:]
        found = {labels: dict(line) for labels, line in over_time(query, readings).items()}
        return {labels: [(at, line.get(at, 0.0)) for at in instants] for labels, line in found.items()}


def steps(increase: timedelta, at: datetime) -> list[datetime]:
    """The instants at which a counter has to be known for the values of its increase over time, oldest first."""
    count = DAYS if increase >= timedelta(days=1) else HOURS
    return [at - number * increase for number in range(count, -1, -1)]


def look(
    instance: dg.DagsterInstance,
    tables: Sequence[Table],
    lake: Lake,
    at: datetime,
    remembered: Mapping[datetime, Reading] | None = None,
) -> View:
    """The data of the page at an instant, from storage; the lake's ``_loads`` is up to date."""
    wanted, names = _wanted(at), [table.name for table in tables]
    *before, now = sums_at(LoadsTable(lake), names, [*sorted(wanted), at])
    facts = gather(instance, tables, lake, at, sums=now, whole=True)
    slots = slots_in_use(instance)
    return View(
        facts=facts,
        now=reading(samples(facts)),
        past=counters_at(tables, wanted, before),
        remembered=remembered or {},
        slots=slots,
        slot_runs=slot_runs(instance, (run_id for one in slots for run_id in (*one.holders, *one.waiting))),
    )


def counters_at(
    tables: Iterable[Table], wanted: Mapping[datetime, Collection[str]], sums: Sequence[Mapping[str, Sums]]
) -> dict[datetime, Reading]:
    """The counters of tables at instants, as they would have been read then.

    Args:
        tables: The tables.
        wanted: The names of counters by instant.
        sums: The sums of the tables at each of these, oldest first.
    """
    price, found = current_settings().price_per_hour, dict[datetime, Reading]()
    for at, then in zip(sorted(wanted), sums, strict=True):
        facts = {table.name: TableFacts(table=table, **vars(then[table.name])) for table in tables}
        counters = [counter for counter in COUNTERS if counter.name in wanted[at]]
        found[at] = reading(samples(Facts(at=at, tables=facts, price_per_hour=price), counters))
    return found


def _wanted(at: datetime) -> Mapping[datetime, set[str]]:
    """The counters that the panels of all dashboards show, by the instants at which they have to be known."""
    wanted: dict[datetime, set[str]] = defaultdict(set)
    for panel in (panel for dashboard in DASHBOARDS for panel in dashboard.panels):
        for query in filter(None, (panel.query, panel.query.divided_by)):
            for step in steps(query.increase, at) if query.increase is not None else ():
                wanted[step].add(query.metric)
    return wanted
